//! The setup of a run: network, endpoints and traffic.

use core::time::Duration;

use clearway_network::{LinkConfig, Moment};
use clearway_transport::SpinBit;
use clearway_units::Rate;
use clearway_wire::Version;

/// Everything that determines a run, except for the controller and the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The virtual time after which a run that has not finished is stopped.
    pub limit: Duration,
    /// The network. Its seed is replaced by one derived from the run's seed.
    pub network: LinkConfig,
    /// The connections that share the network; at least one.
    pub flows: Vec<Flow>,
    /// Properties that do not hold in this setup, each with the reason.
    pub properties_off: Vec<(String, String)>,
    /// How the endpoints batch their actions.
    pub turns: Turns,
}

/// How the endpoints batch their actions at one point in time. This affects the order of actions at
/// that time, but not when they happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// The maximum number of datagrams that an endpoint passes to the network in one call, at least
    /// one. Applies only to Clearway's stack.
    pub batch: usize,
    /// When an endpoint acts on arriving datagrams.
    pub acting: Acting,
}

impl Default for Turns {
    /// Returns the settings of the real endpoint.
    fn default() -> Self {
        Self { batch: 16, acting: Acting::default() }
    }
}

/// When an endpoint acts on datagrams that arrive at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acting {
    /// The endpoint acts when all of them have arrived, like a real endpoint that receives a batch.
    #[default]
    OnAll,
    /// The endpoint acts after each datagram.
    OnEach,
}

/// One connection and its traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// The flow's name in reports; unique in the setup.
    pub name: String,
    /// The name of the flow in the scenario, which all its copies share.
    pub group: String,
    /// The time at which the flow's client begins.
    pub start: Duration,
    /// The flow's controller, if it differs from the run's controller.
    pub controller: Option<String>,
    /// The client's settings.
    pub client: EndSetup,
    /// The server's settings.
    pub server: EndSetup,
    /// The kind of handshake.
    pub session: SessionKind,
    /// The data to transfer.
    pub traffic: Traffic,
    /// Whether the run may end before this flow has finished.
    pub is_optional: bool,
}

/// The settings of one endpoint, most of which correspond to `TransportConfig`.
#[derive(Clone, PartialEq, Debug)]
pub struct EndSetup {
    /// The QUIC implementation.
    pub stack: StackKind,
    /// The maximum UDP payload size in bytes; with path MTU discovery, the initial size.
    pub max_datagram_size: u16,
    /// Whether path MTU discovery is enabled. Unlike in the library it is disabled by default, so
    /// that a scenario's datagrams have the size from which its limits are derived. Applies only to
    /// Clearway's stack.
    pub discovers_mtu: bool,
    /// The number of ack-eliciting packets that may arrive before an acknowledgment is sent
    /// immediately.
    pub ack_eliciting_threshold: u32,
    /// The maximum ACK delay.
    pub max_ack_delay: Duration,
    /// The idle timeout; `None` if the connection never times out.
    pub max_idle_timeout: Option<Duration>,
    /// The idle time after which a PING is sent; `None` sends none.
    pub keep_alive_interval: Option<Duration>,
    /// The handshake timeout.
    pub handshake_timeout: Duration,
    /// The initial round-trip time, before the first sample.
    pub initial_rtt: Duration,
    /// The packet threshold: the amount of reordering, in packets, that is tolerated before a loss
    /// is declared.
    pub packet_threshold: u64,
    /// The initial congestion window, in bytes; `None` for the standard one.
    pub initial_window: Option<u64>,
    /// The maximum congestion window, in bytes.
    pub maximum_window: u64,
    /// The initial receive window of a stream, in bytes.
    pub initial_stream_receive_window: u64,
    /// The maximum receive window of a stream, in bytes.
    pub max_stream_receive_window: u64,
    /// The initial receive window of the connection, in bytes.
    pub initial_connection_receive_window: u64,
    /// The maximum receive window of the connection, in bytes.
    pub max_connection_receive_window: u64,
    /// The maximum number of written bytes that are buffered until they are acknowledged.
    pub send_buffer: u64,
    /// The points at which the application requests key updates (RFC 9001 §6.1). A request has no
    /// effect while the connection cannot update its keys.
    pub key_updates: Vec<Moment>,
    /// The migrations that the application requests, in this order; only for clients.
    pub migrations: Vec<Migration>,
    /// Changes to a client's host and to its first path.
    pub host_changes: Vec<HostChange>,
    /// Whether a server asks its client to migrate to its preferred address (RFC 9000 §9.6).
    pub prefers_address: bool,
    /// The QUIC versions that are negotiated, preferred first; a server switches to its preferred
    /// version. With `None`, version 1 is used without version information, so that runs are the
    /// same as before version negotiation was implemented.
    pub versions: Option<Vec<Version>>,
    /// The version of a client's first flight; `None` uses the library's default.
    pub first_version: Option<Version>,
    /// Whether HTTP/3 uses the QPACK dynamic table (RFC 9204 §3.2) and priorities (RFC 9218).
    pub http3_extensions: bool,
    /// Whether the endpoint supports draft-ietf-quic-ack-frequency: the peer may request fewer
    /// acknowledgments, and the endpoint requests fewer from its peer. Applies only to Clearway's
    /// stack.
    pub ack_frequency: bool,
    /// Whether packets are marked with ECN (RFC 9000 §13.4).
    pub marks_ecn: bool,
    /// Whether the fixed bit is greased.
    pub grease_quic_bit: bool,
    /// The use of the latency spin bit.
    pub spin_bit: SpinBit,
}

impl Default for EndSetup {
    fn default() -> Self {
        let standard = clearway_transport::TransportConfig::default();
        Self {
            stack: StackKind::Clearway,
            max_datagram_size: standard.initial_datagram_size(),
            discovers_mtu: false,
            ack_eliciting_threshold: standard.ack_eliciting_threshold(),
            max_ack_delay: standard.max_ack_delay(),
            max_idle_timeout: standard.max_idle_timeout(),
            keep_alive_interval: standard.keep_alive_interval(),
            handshake_timeout: standard.handshake_timeout(),
            initial_rtt: standard.initial_rtt(),
            packet_threshold: standard.packet_threshold(),
            initial_window: standard.initial_window(),
            maximum_window: standard.maximum_window(),
            initial_stream_receive_window: standard.initial_stream_receive_window(),
            max_stream_receive_window: standard.max_stream_receive_window(),
            initial_connection_receive_window: standard.initial_connection_receive_window(),
            max_connection_receive_window: standard.max_connection_receive_window(),
            send_buffer: standard.send_buffer(),
            key_updates: Vec::new(),
            migrations: Vec::new(),
            host_changes: Vec::new(),
            prefers_address: false,
            versions: None,
            first_version: None,
            http3_extensions: false,
            ack_frequency: false,
            marks_ecn: false,
            grease_quic_bit: false,
            spin_bit: SpinBit::Zero,
        }
    }
}

/// A change to a client's host, or to the path of the socket with which the connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostChange {
    /// The point at which the change happens.
    pub at: Moment,
    /// The failure; `None` if only the application migrates.
    pub fault: Option<HostFault>,
    /// The time between the change and the application's request to migrate to another IP address;
    /// `None` if it does not migrate.
    pub migrates_after: Option<Duration>,
}

/// A permanent failure of a client's host or its first path. Failures of the host's kernel apply
/// only to Clearway's stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostFault {
    /// Datagrams sent on the first path no longer arrive.
    PathDies,
    /// The address of the first socket is removed.
    AddressLost {
        /// The delay until the host has another address; `None` if it never gets one.
        another_after: Option<Duration>,
    },
    /// Datagrams larger than this many bytes are lost on every path.
    PathMtu(usize),
    /// The interface rejects datagrams larger than this many bytes.
    InterfaceMtu(usize),
}

/// A migration initiated by a client (RFC 9000 §9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The point at which the application requests the migration. If the connection cannot migrate
    /// yet, the application repeats the request at each event.
    pub at: Moment,
    /// The client's new address.
    pub to: MigrationTarget,
}

/// The target of a client's migration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrationTarget {
    /// The client migrates to another port of the same IP address.
    Port,
    /// The client migrates to another IP address.
    Address,
    /// The client migrates to the address at which the connection began.
    Back,
}

/// The QUIC implementation of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StackKind {
    /// Clearway's own stack.
    #[default]
    Clearway,
    /// quinn, through its crate quinn-proto; available only with the cargo feature `quinn`.
    Quinn,
}

impl StackKind {
    /// Returns whether the stack reports its internal events to observers.
    pub const fn is_observable(self) -> bool {
        matches!(self, Self::Clearway)
    }

    /// Returns whether this build includes the stack.
    pub const fn is_available(self) -> bool {
        match self {
            Self::Clearway => true,
            Self::Quinn => cfg!(feature = "quinn"),
        }
    }
}

/// The handshake of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SessionKind {
    /// The messages of TLS 1.3 without cryptography: the seed determines every byte.
    #[default]
    Null,
    /// TLS 1.3. It has its own source of randomness, so the seed determines only times and sizes.
    Tls(TlsSetup),
}

/// The TLS settings, which determine the size of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TlsSetup {
    /// The key exchange that the client offers first and the server selects.
    pub key_exchange: KeyExchange,
    /// The size of the certificate chain that the server sends, in bytes: an ECDSA P-256
    /// certificate with its intermediates. `None` for a single small Ed25519 certificate.
    pub certificate_chain: Option<u32>,
    /// The fate of the early data that the client offers when it resumes a session; `None` without an
    /// earlier session. If set, both endpoints must use Clearway's stack.
    pub early_data: Option<EarlyDataSetup>,
}

/// The fate of early data (RFC 9001 §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EarlyDataSetup {
    /// The server accepts the early data, because it knows the session.
    Accepted,
    /// The server rejects the early data, because it was replaced by a server that does not know
    /// the session.
    Rejected,
}

/// A TLS 1.3 key exchange.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KeyExchange {
    /// X25519 (RFC 8446 §4.2.7): key shares of 32 bytes.
    #[default]
    X25519,
    /// X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem): key shares of 1216 bytes from the client, 1120 from the server.
    /// A ClientHello takes two datagrams.
    X25519MlKem768,
}

/// The traffic of a connection, over HTTP/3.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// One response of `size` bytes.
    Download {
        /// The size of the content in bytes.
        size: u64,
    },
    /// One request with `size` bytes of content.
    Upload {
        /// The size of the content in bytes.
        size: u64,
    },
    /// Several concurrent responses.
    Parallel {
        /// The number of responses.
        count: u64,
        /// The size of each response in bytes.
        size: u64,
    },
    /// Several responses, one after the other or at regular intervals.
    Requests {
        /// The number of responses.
        count: u64,
        /// The size of each response in bytes.
        size: u64,
        /// The time between the starts of consecutive requests; with `None`, each request begins
        /// when the previous one is complete.
        every: Option<Duration>,
    },
    /// One response whose bytes are produced at a fixed rate, one chunk at a time.
    Paced {
        /// The rate.
        rate: Rate,
        /// The size of a chunk in bytes.
        chunk: u64,
        /// The total size in bytes.
        size: u64,
    },
    /// Messages that are canceled midway: responses and requests, alternately by the client and the
    /// server. The seed determines after how many bytes they are canceled.
    Cancelled {
        /// The number of messages.
        count: u64,
        /// The size of each complete message in bytes; at least two.
        size: u64,
        /// The time between the starts of consecutive messages; with `None`, each message begins
        /// when the previous one has been canceled.
        every: Option<Duration>,
    },
    /// One endless response. The flow finishes when its duration has elapsed.
    Bulk {
        /// The duration, counted from the flow's start or, as the last part of a sequence, from the start of that part.
        length: Duration,
    },
    /// A pause between two parts of a sequence.
    Idle {
        /// The length of the pause.
        length: Duration,
    },
    /// Several concurrent kinds of traffic on the same connection; complete when all of them are.
    Together {
        /// The kinds of traffic. None of them is `Idle`, `Bulk`, `Together` or `Sequence`.
        kinds: Vec<Traffic>,
    },
    /// Several parts on the same connection, one after the other. Each begins when the previous one
    /// is complete.
    Sequence {
        /// The parts, none of them a sequence.
        parts: Vec<Traffic>,
    },
}

impl Traffic {
    /// Returns the number of content bytes that must arrive; `None` if the traffic has a fixed
    /// duration instead.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Download { size } | Self::Upload { size } | Self::Paced { size, .. } => {
                Some(*size)
            }
            Self::Parallel { count, size } | Self::Requests { count, size, .. } => {
                Some(count.saturating_mul(*size))
            }
            Self::Bulk { .. } => None,
            Self::Idle { .. } | Self::Cancelled { .. } => Some(0),
            Self::Sequence { parts } | Self::Together { kinds: parts } => {
                parts.iter().try_fold(0_u64, |sum, part| Some(sum.saturating_add(part.bytes()?)))
            }
        }
    }

    /// Returns whether the client sends the content. For a sequence, the last part with content
    /// counts; for several concurrent kinds, the direction with more bytes counts.
    pub fn is_upload(&self) -> bool {
        match self {
            Self::Sequence { parts } => {
                let mut content = parts.iter().rev().filter(|it| !matches!(it, Self::Idle { .. }));
                content.next().is_some_and(Self::is_upload)
            }
            Self::Together { kinds } => {
                let bytes = |is_upload| {
                    let kinds = kinds.iter().filter(|kind| kind.is_upload() == is_upload);
                    kinds.filter_map(Self::bytes).fold(0, u64::saturating_add)
                };
                bytes(true) > bytes(false)
            }
            _ => matches!(self, Self::Upload { .. }),
        }
    }

    /// Returns the parts of a sequence in order; for any other traffic, returns just that traffic.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Sequence { parts } => parts,
            _ => core::slice::from_ref(self),
        }
    }

    /// Returns the concurrent kinds of traffic that are combined; for a single kind, returns just
    /// that kind.
    pub fn kinds(&self) -> &[Self] {
        match self {
            Self::Together { kinds } => kinds,
            _ => core::slice::from_ref(self),
        }
    }

    /// Returns all kinds of traffic that are contained, concurrently and in sequence, for
    /// modification.
    pub fn all_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Sequence { parts: all } | Self::Together { kinds: all } => {
                all.iter_mut().flat_map(Self::all_mut).collect()
            }
            _ => vec![self],
        }
    }
}
