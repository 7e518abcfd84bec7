//! The rules that must hold for a fleet, and the reasons for which a connection may be lost.

/// A rule that must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FleetRule {
    /// A datagram of a connection goes to the server that has it, except for a [`Reason`].
    Stays,
    /// A new client goes to a server that takes new clients.
    Takes,
    /// Balancers with the same servers send a new client to the same one.
    Agree,
    /// A change of the fleet moves few new clients among the servers that it does not concern.
    Few,
    /// A balancer's memory stays within its limits.
    Bounded,
}

impl FleetRule {
    /// All rules, in order.
    pub const ALL: [Self; 5] = [Self::Stays, Self::Takes, Self::Agree, Self::Few, Self::Bounded];

    /// Returns its ID, such as "R1".
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

/// The documented reasons for which a balancer may misroute a connection of a server that is alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The connection's first flight arrived at balancers of which one had another table, or
    /// remembered another client at this address; or a flood evicted it before a change.
    FirstFlight,
    /// The changes were in any order, and the balancer's table does not contain the server or the
    /// configuration, or lists the server as down.
    NotInPool,
    /// The server does not issue QUIC-LB connection IDs, and the client changed its address and its
    /// connection ID at once.
    BothAtOnce,
    /// The server issues empty IDs, and the client changed its address, or a flood evicted it.
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
