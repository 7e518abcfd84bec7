//! The ends of a flow.

use clearway_network::Way;

/// A side of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that is connected to.
    Server,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// Its name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The direction in which this side sends.
    pub const fn way(self) -> Way {
        match self {
            Self::Client => Way::ToServer,
            Self::Server => Way::ToClient,
        }
    }

    /// The side that receives what is sent in the direction `way`.
    pub(crate) const fn receiver(way: Way) -> Self {
        match way {
            Way::ToServer => Self::Server,
            Way::ToClient => Self::Client,
        }
    }
}

/// An end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndId {
    /// The index of the flow, in the order of the scenario.
    pub flow: usize,
    /// The side of the flow.
    pub side: Side,
}
