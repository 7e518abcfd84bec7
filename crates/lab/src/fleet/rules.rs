//! The rules that must hold for a fleet, and the reasons why a connection may be lost.

/// A rule that must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FleetRule {
    /// A connection's datagrams go to the server that owns it, except for a [`Reason`].
    Stays,
    /// A new client is sent to a server that accepts new clients.
    Takes,
    /// Balancers with the same servers send a new client to the same server.
    Agree,
    /// A change to the fleet moves few new clients between servers that it does not affect.
    Few,
    /// A balancer's memory stays within its limits.
    Bounded,
}

impl FleetRule {
    /// All rules, in order.
    pub const ALL: [Self; 5] = [Self::Stays, Self::Takes, Self::Agree, Self::Few, Self::Bounded];

    /// Returns the rule's ID, such as "R1".
    pub const fn id(self) -> &'static str {
        match self {
            Self::Stays => "R1",
            Self::Takes => "R2",
            Self::Agree => "R3",
            Self::Few => "R4",
            Self::Bounded => "R5",
        }
    }
}

/// The documented reasons why a balancer may misroute a connection whose server is alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// One of the balancers that received the connection's first flight had another table or
    /// remembered another client at this address, or a flood evicted the connection before a
    /// change.
    FirstFlight,
    /// Changes were made in arbitrary order, and the balancer's table does not contain the server
    /// or the configuration, or lists the server as down.
    NotInPool,
    /// The server does not issue QUIC-LB connection IDs, and the client changed its address and its
    /// connection ID at the same time.
    BothAtOnce,
    /// The server uses zero-length connection IDs, and the client's address changed or a flood
    /// evicted its entry.
    NoId,
    /// The server does not issue QUIC-LB connection IDs, and the datagram arrived at a balancer
    /// that had not seen the connection.
    OtherBalancer,
    /// The server does not issue QUIC-LB connection IDs, or the connection was not established, and
    /// the client sent nothing for the lifetime of flow entries.
    Idle,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 6] = [
        Self::FirstFlight,
        Self::NotInPool,
        Self::BothAtOnce,
        Self::NoId,
        Self::OtherBalancer,
        Self::Idle,
    ];

    /// Returns a short description.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstFlight => "first flight",
            Self::NotInPool => "not in table",
            Self::BothAtOnce => "both at once",
            Self::NoId => "empty ID",
            Self::OtherBalancer => "other balancer",
            Self::Idle => "idle",
        }
    }
}
