//! What has to hold of a fleet, and when a connection may be lost.

/// What has to hold.
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
    /// What a balancer remembers keeps to its limits.
    Bounded,
}

impl FleetRule {
    /// All, in their order.
    pub const ALL: [Self; 5] = [Self::Stays, Self::Takes, Self::Agree, Self::Few, Self::Bounded];

    /// Its ID, such as "R1".
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
    /// The connection's first flight arrived at balancers of which one had another table, or remembered another client at
    /// this address; or a flood pushed it out before a change.
    FirstFlight,
    /// The changes were in any order, and the balancer's table does not have the server or the configuration, or says that
    /// the server is down.
    NotInPool,
    /// The server does not issue IDs of QUIC-LB, and the client has changed its address and its connection ID at once.
    BothAtOnce,
    /// The server issues empty IDs, and the client has changed its address, or a flood has pushed it out.
    NoId,
    /// The server does not issue IDs of QUIC-LB, and the datagram came to a balancer that had not seen the connection.
    OtherBalancer,
    /// The server does not issue IDs of QUIC-LB, or the connection was not established, and the client has sent nothing for
    /// the lifetime of what is remembered.
    Idle,
}

impl Reason {
    /// All, in their order.
    pub const ALL: [Self; 6] = [
        Self::FirstFlight,
        Self::NotInPool,
        Self::BothAtOnce,
        Self::NoId,
        Self::OtherBalancer,
        Self::Idle,
    ];

    /// In a few words.
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
