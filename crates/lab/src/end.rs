//! The endpoints of a flow.

use clearway_network::Way;

/// One of the two sides of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The endpoint that connects.
    Client,
    /// The endpoint that accepts the connection.
    Server,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// Returns the side's name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Returns the direction in which this side sends.
    pub const fn way(self) -> Way {
        match self {
            Self::Client => Way::ToServer,
            Self::Server => Way::ToClient,
        }
    }

    /// Returns the side that receives datagrams sent in the direction `way`.
    pub(crate) const fn receiver(way: Way) -> Self {
        match way {
            Way::ToServer => Self::Server,
            Way::ToClient => Self::Client,
        }
    }
}

/// Identifies an endpoint of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndId {
    /// The index of the flow in the scenario's order.
    pub flow: usize,
    /// The side of the flow.
    pub side: Side,
}
