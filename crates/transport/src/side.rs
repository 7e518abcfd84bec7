use clearway_wire::Initiator;

/// Which end of a connection this is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// It opened the connection.
    Client,
    /// It accepted the connection.
    Server,
}

impl Side {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Whether this is the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Whether this is the server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }

    /// This end as the initiator of streams.
    pub const fn initiator(self) -> Initiator {
        match self {
            Self::Client => Initiator::Client,
            Self::Server => Initiator::Server,
        }
    }
}
