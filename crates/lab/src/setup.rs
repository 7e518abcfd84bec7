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
    /// Properties that do not hold here, each with the reason.
    pub properties_off: Vec<(String, String)>,
    /// How much the ends do at once.
    pub turns: Turns,
}

/// How much the ends do at once, at one point in time. This determines the order of actions within a point in time,
/// not their times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// How many datagrams an end passes to the network in one call, at most; at least one. Applies to Clearway's stack
    /// only.
    pub batch: usize,
    /// When an end acts on datagrams that arrive.
    pub acting: Acting,
}

impl Default for Turns {
    /// As much as the real endpoint does.
    fn default() -> Self {
        Self { batch: 16, acting: Acting::default() }
    }
}

/// When an end acts on datagrams that arrive at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acting {
    /// Once all of them have arrived, like a real endpoint that receives a batch.
    #[default]
    OnAll,
    /// After each datagram.
    OnEach,
}

/// One connection and what it is used for.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its name in reports; unique in the setup.
    pub name: String,
    /// The name in the scenario that it shares with its copies.
    pub group: String,
    /// When its client begins.
    pub start: Duration,
    /// Its controller, if it is not the run's.
    pub controller: Option<String>,
    /// The client's settings.
    pub client: EndSetup,
    /// The server's settings.
    pub server: EndSetup,
    /// The kind of handshake.
    pub session: SessionKind,
    /// What is transferred.
    pub traffic: Traffic,
    /// Whether the run is complete without it.
    pub is_optional: bool,
}

/// The settings of one end, mostly those of `TransportConfig`.
#[derive(Clone, PartialEq, Debug)]
pub struct EndSetup {
    /// The QUIC implementation.
    pub stack: StackKind,
    /// The largest UDP payload sent, in bytes; where the path's MTU is discovered, at first.
    pub max_datagram_size: u16,
    /// Whether the path's MTU is discovered. It is not by default, other than in the library, so that the datagrams of a
    /// scenario have the size from which its bounds are derived. Applies to Clearway's stack only.
    pub discovers_mtu: bool,
    /// How many ack-eliciting packets may arrive before an acknowledgement is sent at once.
    pub ack_eliciting_threshold: u32,
    /// How long an acknowledgement may be delayed.
    pub max_ack_delay: Duration,
    /// The idle timeout; `None` if the connection never times out.
    pub max_idle_timeout: Option<Duration>,
    /// The idle time after which a PING is sent; `None` sends none.
    pub keep_alive_interval: Option<Duration>,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// The round-trip time assumed until there is a sample.
    pub initial_rtt: Duration,
    /// Reordering tolerated in packets before loss is declared.
    pub packet_threshold: u64,
    /// The initial congestion window, in bytes; `None` for the standard one.
    pub initial_window: Option<u64>,
    /// The congestion window never exceeds this many bytes.
    pub maximum_window: u64,
    /// The initial receive window of a stream, in bytes.
    pub initial_stream_receive_window: u64,
    /// The largest receive window of a stream, in bytes.
    pub max_stream_receive_window: u64,
    /// The initial receive window of the connection, in bytes.
    pub initial_connection_receive_window: u64,
    /// The largest receive window of the connection, in bytes.
    pub max_connection_receive_window: u64,
    /// How many written bytes are kept until they are acknowledged.
    pub send_buffer: u64,
    /// When its application requests key updates (RFC 9001 §6.1). A request that comes when the connection cannot
    /// update its keys has no effect.
    pub key_updates: Vec<Moment>,
    /// When its application asks for migrations, in this order; a client's only.
    pub migrations: Vec<Migration>,
    /// What happens to a client's host and to its first path.
    pub host_changes: Vec<HostChange>,
    /// Whether a server asks its client to move to another of its addresses (RFC 9000 §9.6).
    pub prefers_address: bool,
    /// The versions of QUIC that are negotiated, the preferred one first, which a server changes to. `None` speaks
    /// version 1 and sends no version information, so that runs are the same as before there was a choice.
    pub versions: Option<Vec<Version>>,
    /// The version of a client's first flight; `None` for the library's choice.
    pub first_version: Option<Version>,
    /// Whether HTTP/3 uses QPACK's dynamic table (RFC 9204 §3.2) and priorities (RFC 9218).
    pub http3_extensions: bool,
    /// Whether the peer may ask for fewer acknowledgements, and is asked for them (draft-ietf-quic-ack-frequency). Applies to
    /// Clearway's stack only.
    pub ack_frequency: bool,
    /// Whether packets are marked with ECN (RFC 9000 §13.4).
    pub marks_ecn: bool,
    /// Whether the fixed bit is greased.
    pub grease_quic_bit: bool,
    /// What is done with the latency spin bit.
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

/// Something that happens to a client's host, or to the path of the socket with which its
/// connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostChange {
    /// When it happens.
    pub at: Moment,
    /// What happens; `None` if only the application migrates.
    pub fault: Option<HostFault>,
    /// How long after it the application asks for a migration to another IP address, if it does.
    pub migrates_after: Option<Duration>,
}

/// What happens to a client's host or to its first path, permanently. Applies to Clearway's stack
/// only, as far as the host's kernel is concerned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostFault {
    /// Nothing that is sent on the first path arrives any more.
    PathDies,
    /// The address of the first socket is taken away.
    AddressLost {
        /// Delay until the host has another address; `None` if it never does.
        another_after: Option<Duration>,
    },
    /// Larger datagrams than this many bytes are lost on every path.
    PathMtu(usize),
    /// The interface takes no datagrams larger than this many bytes.
    InterfaceMtu(usize),
}

/// A migration of a client on purpose (RFC 9000 §9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// When the application asks for it. If the connection cannot migrate yet, it asks again whenever something happens.
    pub at: Moment,
    /// Where the client moves.
    pub to: MigrationTarget,
}

/// Where a client moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrationTarget {
    /// To another port of the same IP address.
    Port,
    /// To another IP address.
    Address,
    /// To the address at which the connection began.
    Back,
}

/// The QUIC implementation of an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StackKind {
    /// Clearway.
    #[default]
    Clearway,
    /// quinn, through its crate quinn-proto; available only with the cargo feature `quinn`.
    Quinn,
}

impl StackKind {
    /// Whether it reports what happens inside to observers.
    pub const fn is_observable(self) -> bool {
        matches!(self, Self::Clearway)
    }

    /// Whether this build includes it.
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
    /// The messages of TLS 1.3 without their cryptography: every byte is determined by the seed.
    #[default]
    Null,
    /// TLS 1.3. It draws its own randomness, so that only times and sizes are determined by the seed.
    Tls(TlsSetup),
}

/// The settings of TLS, of which the size of a handshake depends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TlsSetup {
    /// The key exchange that the client begins with, and the server chooses.
    pub key_exchange: KeyExchange,
    /// The size of the certificates that the server sends, in bytes: one of ECDSA P-256 with those that lead to its root.
    /// `None` for a single small one with Ed25519.
    pub certificate_chain: Option<u32>,
    /// What becomes of early data that the client offers, because it has a session of the server; `None` if it does not
    /// know the server. Both ends are Clearway's then.
    pub early_data: Option<EarlyDataSetup>,
}

/// What becomes of early data (RFC 9001 §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EarlyDataSetup {
    /// The server knows the session.
    Accepted,
    /// The server was replaced by another that does not.
    Rejected,
}

/// A key exchange of TLS 1.3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KeyExchange {
    /// X25519 (RFC 8446 §4.2.7): key shares of 32 bytes.
    #[default]
    X25519,
    /// X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem): key shares of 1216 bytes from the client, 1120 from the server.
    /// A ClientHello takes two datagrams.
    X25519MlKem768,
}

/// What a connection carries, over HTTP/3.
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
    /// Several responses at once.
    Parallel {
        /// The number of them.
        count: u64,
        /// The size of each in bytes.
        size: u64,
    },
    /// Several responses, one after the other or at regular intervals.
    Requests {
        /// The number of them.
        count: u64,
        /// The size of each in bytes.
        size: u64,
        /// The time from the beginning of one to that of the next; `None`: each begins when the one before it
        /// is complete.
        every: Option<Duration>,
    },
    /// One response whose bytes are produced at a rate, a chunk at a time.
    Paced {
        /// The rate.
        rate: Rate,
        /// The size of a chunk in bytes.
        chunk: u64,
        /// The total size in bytes.
        size: u64,
    },
    /// Messages that are cancelled midway: responses and requests, by the client and by the server in turn. The seed
    /// decides after how many bytes.
    Cancelled {
        /// The number of them.
        count: u64,
        /// Bytes that each would have if it were complete; at least two.
        size: u64,
        /// The time from the beginning of one to that of the next; `None`: each begins when the one before it
        /// is cancelled.
        every: Option<Duration>,
    },
    /// One response without an end. The flow has finished when its time is over.
    Bulk {
        /// The duration, counted from the flow's start or, as the last part of a sequence, from the start of that part.
        length: Duration,
    },
    /// Nothing for a while, between two parts of a sequence.
    Idle {
        /// The length of the pause.
        length: Duration,
    },
    /// Several kinds at the same time on the same connection. It is complete when all of them are.
    Together {
        /// The kinds. None of them is `Idle`, `Bulk`, `Together` or `Sequence`.
        kinds: Vec<Traffic>,
    },
    /// One after the other on the same connection: each part begins when the one before it is complete.
    Sequence {
        /// The parts, none of them a sequence.
        parts: Vec<Traffic>,
    },
}

impl Traffic {
    /// Bytes of content that have to arrive; `None` if the traffic lasts for a given time instead.
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

    /// Whether the client sends the content. Of a sequence, the last content counts; of several kinds at the same time,
    /// the direction with more bytes.
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

    /// Its parts in turn; only itself if it is not a sequence.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Sequence { parts } => parts,
            _ => core::slice::from_ref(self),
        }
    }

    /// Its kinds at the same time; only itself if it is a single kind.
    pub fn kinds(&self) -> &[Self] {
        match self {
            Self::Together { kinds } => kinds,
            _ => core::slice::from_ref(self),
        }
    }

    /// All kinds that it contains, at the same time and in turn, for modification.
    pub fn all_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Sequence { parts: all } | Self::Together { kinds: all } => {
                all.iter_mut().flat_map(Self::all_mut).collect()
            }
            _ => vec![self],
        }
    }
}
