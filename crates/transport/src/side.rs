use clearway_units::packed::Pack;
use clearway_wire::Initiator;

/// The role of an endpoint in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Pack)]
pub enum Side {
    /// The endpoint that opened the connection.
    Client,
    /// The endpoint that accepted the connection.
    Server,
}

impl Side {
    /// Returns the peer's role.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns whether this is the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Returns whether this is the server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }

    /// Returns this role as the initiator of streams.
    pub const fn initiator(self) -> Initiator {
        match self {
            Self::Client => Initiator::Client,
            Self::Server => Initiator::Server,
        }
    }
}
