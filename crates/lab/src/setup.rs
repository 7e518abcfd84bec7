//! What one run is made of.

use core::time::Duration;

use clearway_network::{LinkConfig, Moment};
use clearway_units::Rate;

/// Everything that decides a run, but for the controller and the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// After so much virtual time a run that goes on is unfinished.
    pub limit: Duration,
    /// The network. Its seed is the run's.
    pub network: LinkConfig,
    /// The connections that share it; at least one.
    pub flows: Vec<Flow>,
    /// Properties that do not hold here, each with the reason.
    pub properties_off: Vec<(String, String)>,
    /// How much ends do at once.
    pub turns: Turns,
}

/// How much the ends do at once, at one moment. What it decides are orders within a moment, not times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// How many datagrams an end hands to the network in one call, at most; at least one. For our stack
    /// only.
    pub batch: usize,
    /// When an end acts on what arrives.
    pub acting: Acting,
}

impl Default for Turns {
    /// As much as the real endpoint.
    fn default() -> Self {
        Self { batch: 16, acting: Acting::default() }
    }
}

/// When an end acts on what arrives at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acting {
    /// Once all of it is there, as a real endpoint that takes in a batch.
    #[default]
    OnAll,
    /// After each datagram.
    OnEach,
}

/// One connection and what it is used for.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// What reports call it; unique in the setup.
    pub name: String,
    /// What it has in common with others that are alike: their name in the scenario.
    pub group: String,
    /// When its client begins.
    pub start: Duration,
    /// Its controller, if it is not the run's.
    pub controller: Option<String>,
    /// The client's settings.
    pub client: EndSetup,
    /// The server's settings.
    pub server: EndSetup,
    /// The handshake.
    pub session: SessionKind,
    /// What is transferred.
    pub traffic: Traffic,
    /// Whether the run is complete without it.
    pub is_optional: bool,
}

/// The settings of one end. They are those of `TransportConfig`.
#[derive(Clone, PartialEq, Debug)]
pub struct EndSetup {
    /// Whose stack it is.
    pub stack: StackKind,
    /// The largest UDP payload sent, in bytes.
    pub max_datagram_size: u16,
    /// How many ack-eliciting packets are acknowledged at once.
    pub ack_eliciting_threshold: u32,
    /// How long an acknowledgement may wait.
    pub max_ack_delay: Duration,
    /// After how much silence the connection is given up; `None` never.
    pub max_idle_timeout: Option<Duration>,
    /// A PING is sent after so much silence; `None` sends none.
    pub keep_alive_interval: Option<Duration>,
    /// For how long a handshake may go on.
    pub handshake_timeout: Duration,
    /// The round-trip time assumed until there is a sample.
    pub initial_rtt: Duration,
    /// Reordering tolerated in packets before loss is declared.
    pub packet_threshold: u64,
    /// The congestion window to begin with, in bytes; `None` for the standard one.
    pub initial_window: Option<u64>,
    /// The congestion window never exceeds this many bytes.
    pub maximum_window: u64,
    /// The receive window of a stream to begin with, in bytes.
    pub initial_stream_receive_window: u64,
    /// The largest receive window of a stream, in bytes.
    pub max_stream_receive_window: u64,
    /// The receive window of the connection to begin with, in bytes.
    pub initial_connection_receive_window: u64,
    /// The largest receive window of the connection, in bytes.
    pub max_connection_receive_window: u64,
    /// How many written bytes are kept until they are acknowledged.
    pub send_buffer: u64,
    /// When its application asks for a key update (RFC 9001 §6.1); where the connection cannot make one
    /// at that moment, none is made.
    pub key_updates: Vec<Moment>,
}

impl Default for EndSetup {
    fn default() -> Self {
        let standard = clearway_transport::TransportConfig::default();
        Self {
            stack: StackKind::Clearway,
            max_datagram_size: standard.max_datagram_size(),
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
        }
    }
}

/// Whose implementation an end is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StackKind {
    /// Ours.
    #[default]
    Clearway,
    /// quinn's, by its quinn-proto; only with the cargo feature `quinn`.
    Quinn,
}

impl StackKind {
    /// Whether it tells observers what happens in it.
    pub const fn is_observable(self) -> bool {
        matches!(self, Self::Clearway)
    }

    /// Whether this build has it.
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
    /// The messages of TLS 1.3 without their cryptography: every byte follows from the seed.
    #[default]
    Null,
    /// TLS 1.3. It draws its own randomness, so that only times and sizes follow from the seed.
    Tls,
}

/// What a connection carries, over HTTP/3.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// One answer of so many bytes.
    Download {
        /// Bytes.
        size: u64,
    },
    /// One request with so many bytes.
    Upload {
        /// Bytes.
        size: u64,
    },
    /// Several answers at once.
    Parallel {
        /// How many.
        count: u64,
        /// Bytes of each.
        size: u64,
    },
    /// Several answers.
    Requests {
        /// How many.
        count: u64,
        /// Bytes of each.
        size: u64,
        /// From the beginning of one to that of the next; `None`: each begins when the one before it
        /// is complete.
        every: Option<Duration>,
    },
    /// One answer whose bytes come into being at a rate, a chunk at a time.
    Paced {
        /// The rate.
        rate: Rate,
        /// Bytes of a chunk.
        chunk: u64,
        /// Bytes in all.
        size: u64,
    },
    /// Messages that are given up midway, answers and requests, by the client and by the server in turn. The seed decides
    /// after how many bytes.
    Cancelled {
        /// How many.
        count: u64,
        /// Bytes that each would have; at least two.
        size: u64,
        /// From the beginning of one to that of the next; `None`: each begins when the one before it
        /// is given up.
        every: Option<Duration>,
    },
    /// One answer without an end. The flow has finished when its time is over.
    Bulk {
        /// How long, from the flow's start; as the last of a sequence, from its turn.
        length: Duration,
    },
    /// Nothing for a while, between two parts of a sequence.
    Idle {
        /// How long.
        length: Duration,
    },
    /// Several kinds at the same time on the same connection. It is complete when all of them are.
    Together {
        /// The kinds: none of them is idle, has no end, or consists of others.
        kinds: Vec<Traffic>,
    },
    /// One after the other on the same connection: each part begins when the one before it is complete.
    Sequence {
        /// The parts, none of them a sequence.
        parts: Vec<Traffic>,
    },
}

impl Traffic {
    /// Bytes of content that have to arrive; `None` if time decides.
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

    /// Whether the client is the one that sends the content; of a sequence, the last of it; of several kinds at the same
    /// time, most of it.
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

    /// Its parts in turn: itself, if it is no sequence.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Sequence { parts } => parts,
            _ => core::slice::from_ref(self),
        }
    }

    /// What it consists of at the same time: itself, if it is one kind.
    pub fn kinds(&self) -> &[Self] {
        match self {
            Self::Together { kinds } => kinds,
            _ => core::slice::from_ref(self),
        }
    }

    /// All that it consists of, at the same time and in turn, to be changed.
    pub fn all_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Sequence { parts: all } | Self::Together { kinds: all } => {
                all.iter_mut().flat_map(Self::all_mut).collect()
            }
            _ => vec![self],
        }
    }
}
