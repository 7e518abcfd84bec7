use core::time::Duration;

/// Limits on the resources of a [`Server`](crate::Server) that clients can occupy.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of outstanding queries per QUIC or TCP connection. Further queries wait. The
    /// default is 100.
    pub queries_per_connection: usize,
    /// Maximum number of outstanding queries of all clients. Further queries are rejected with
    /// DOQ_EXCESSIVE_LOAD or status 503, and dropped over UDP and TCP. The default is 10,000.
    pub queries: usize,
    /// Maximum number of TCP connections. Further connections wait. The default is 1,000.
    pub tcp_connections: usize,
    /// Maximum size of a query in octets. DoQ and TCP connections that carry a longer query are
    /// closed. The default is 4,096.
    pub query_size: u16,
    /// Maximum size of a UDP response in octets, whatever the client's EDNS payload size. The
    /// default is 1,232.
    pub udp_payload: u16,
    /// Time limit for receiving a DoQ query and the end of its stream. The default is 5 s.
    pub receive_time: Duration,
    /// Time limit for the handler. The default is 10 s.
    pub answer_time: Duration,
    /// How long a TCP connection may be idle. The default is 10 s.
    pub idle_time: Duration,
    /// Number of queries that a client may cancel on a QUIC connection beyond the number of its
    /// completed queries; further cancellations close the connection with DOQ_EXCESSIVE_LOAD (RFC
    /// 9250 §4.3.1). The default is 1,000.
    pub cancellations: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queries_per_connection: 100,
            queries: 10_000,
            tcp_connections: 1_000,
            query_size: 4096,
            udp_payload: 1232,
            receive_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(10),
            cancellations: 1_000,
        }
    }
}

/// What a DoQ server does with a query in early data that is not safe to replay: one whose opcode is
/// neither QUERY nor NOTIFY (RFC 9250 §4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum UnsafeEarlyQuery {
    /// Respond with REFUSED and the Extended DNS Error "Too Early".
    #[default]
    Refuse,
    /// Process it when the handshake is complete.
    Wait,
}
