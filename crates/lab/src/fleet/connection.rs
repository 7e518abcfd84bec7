//! A client's connection.

use std::net::SocketAddr;

use clearway_balancer::Means;
use clearway_units::Timestamp;
use clearway_wire::quic_lb::ConfigId;

use super::rules::Reason;

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) client: SocketAddr,
    /// The client's previous address, and when it last sent from there.
    pub(super) former: Option<(SocketAddr, Timestamp)>,
    /// The client's own connection ID.
    pub(super) source: Vec<u8>,
    /// The destination connection ID, with the configuration that it follows.
    pub(super) destination: (Vec<u8>, Option<ConfigId>),
    /// The server's response, if it has not arrived yet.
    pub(super) issued: Option<(Vec<u8>, Option<ConfigId>)>,
    /// The server that owns the connection.
    pub(super) server: Option<usize>,
    /// How the server was selected, and the version of the table that was used.
    pub(super) chosen: Option<(Means, u64)>,
    /// The balancer that forwards the connection's datagrams.
    pub(super) balancer: usize,
    pub(super) sent: u64,
    pub(super) is_established: bool,
    /// Whether the client uses the connection ID from the server's long headers.
    pub(super) is_first_id: bool,
    /// Whether the balancer knows that the client has received a response, where that matters.
    pub(super) is_learned: bool,
    pub(super) has_new_address: bool,
    pub(super) has_new_id: bool,
    /// Whether the balancer knows that the client's new address belongs to this connection.
    pub(super) has_returned: bool,
    /// The times at which the client last used a short header (sent one, or received a response to
    /// one) and last sent a long header.
    pub(super) last_used: [Timestamp; 2],
    /// The reason, if any, why the connection may be misrouted from now on.
    pub(super) reason: Option<Reason>,
}

impl Connection {
    pub(super) fn client(&self) -> SocketAddr {
        self.client
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn former(&self) -> Option<SocketAddr> {
        Some(self.former?.0)
    }

    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    pub(super) fn uses(&self, config: ConfigId) -> bool {
        let ids = [Some(&self.destination), self.issued.as_ref()];
        ids.into_iter().flatten().any(|(_, of)| *of == Some(config))
    }
}
