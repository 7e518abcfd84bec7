use core::time::Duration;

use clearway_network::LinkConfig;
use clearway_transport::TransportConfig;
use clearway_units::Rate;

/// Everything that a run needs to know but its seed and its controller.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The virtual time after which a run is unfinished.
    pub limit: Duration,
    /// The network that all flows share. Its seed is zero: a run sets its own.
    pub network: LinkConfig,
    /// The connections, at least one. The number of a flow in [`LinkConfig`] is its place here.
    pub flows: Vec<Flow>,
    /// Properties that are not checked (such as `S10`), each with the reason.
    pub properties_off: Vec<(String, String)>,
}

/// One connection and what it is used for.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its name, unique in the setup.
    pub name: String,
    /// The name in the file: that of all copies of a flow.
    pub group: String,
    /// When the client begins, counted from the start of the run.
    pub start: Duration,
    /// The congestion controller of both ends; `None` takes the run's.
    pub controller: Option<String>,
    /// The client's end.
    pub client: EndSetup,
    /// The server's end.
    pub server: EndSetup,
    /// Whether packets are really encrypted.
    pub session: SessionKind,
    /// What the application does.
    pub traffic: Traffic,
    /// The run does not wait for this flow, and expectations do not ask for it.
    pub is_optional: bool,
}

/// Whether packets are really encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SessionKind {
    /// Packets have the same sizes as with TLS, but are not encrypted: that costs less time.
    #[default]
    Null,
    /// TLS 1.3, as in life.
    Tls,
}

/// Whose QUIC runs at an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StackKind {
    /// This project's.
    #[default]
    Clearway,
    /// quinn, for comparison and as a peer. Settings that it does not have are ignored.
    Quinn,
}

/// How one end is configured. The default is that of [`TransportConfig`], whose fields these are.
#[derive(Clone, PartialEq, Debug)]
pub struct EndSetup {
    /// Whose QUIC.
    pub stack: StackKind,
    /// [`TransportConfig::max_datagram_size`], in bytes.
    pub max_datagram_size: u16,
    /// [`TransportConfig::ack_eliciting_threshold`].
    pub ack_eliciting_threshold: u32,
    /// [`TransportConfig::max_ack_delay`].
    pub max_ack_delay: Duration,
    /// [`TransportConfig::max_idle_timeout`].
    pub max_idle_timeout: Option<Duration>,
    /// [`TransportConfig::keep_alive_interval`].
    pub keep_alive_interval: Option<Duration>,
    /// [`TransportConfig::handshake_timeout`].
    pub handshake_timeout: Duration,
    /// [`TransportConfig::initial_rtt`].
    pub initial_rtt: Duration,
    /// [`TransportConfig::packet_threshold`].
    pub packet_threshold: u64,
    /// [`TransportConfig::initial_window`], in bytes.
    pub initial_window: Option<u64>,
    /// [`TransportConfig::maximum_window`], in bytes.
    pub maximum_window: u64,
    /// [`TransportConfig::initial_stream_receive_window`], in bytes.
    pub initial_stream_receive_window: u64,
    /// [`TransportConfig::max_stream_receive_window`], in bytes.
    pub max_stream_receive_window: u64,
    /// [`TransportConfig::initial_connection_receive_window`], in bytes.
    pub initial_connection_receive_window: u64,
    /// [`TransportConfig::max_connection_receive_window`], in bytes.
    pub max_connection_receive_window: u64,
    /// [`TransportConfig::send_buffer`], in bytes.
    pub send_buffer: u64,
}

impl Default for EndSetup {
    fn default() -> Self {
        let default = TransportConfig::default();
        Self {
            stack: StackKind::default(),
            max_datagram_size: default.max_datagram_size,
            ack_eliciting_threshold: default.ack_eliciting_threshold,
            max_ack_delay: default.max_ack_delay,
            max_idle_timeout: default.max_idle_timeout,
            keep_alive_interval: default.keep_alive_interval,
            handshake_timeout: default.handshake_timeout,
            initial_rtt: default.initial_rtt,
            packet_threshold: default.packet_threshold,
            initial_window: default.initial_window,
            maximum_window: default.maximum_window,
            initial_stream_receive_window: default.initial_stream_receive_window,
            max_stream_receive_window: default.max_stream_receive_window,
            initial_connection_receive_window: default.initial_connection_receive_window,
            max_connection_receive_window: default.max_connection_receive_window,
            send_buffer: default.send_buffer,
        }
    }
}

/// What a flow's application does. Sizes are bytes of content, without HTTP/3's frames.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// One request, one answer.
    Download {
        /// The answer's content.
        size: u64,
    },
    /// One request with content, one empty answer.
    Upload {
        /// The request's content.
        size: u64,
    },
    /// Several requests at once, on one connection.
    Parallel {
        /// How many.
        count: u64,
        /// The content of each answer.
        size: u64,
    },
    /// Several requests, one after the other, on one connection.
    Requests {
        /// How many.
        count: u64,
        /// The content of each answer.
        size: u64,
        /// The time from the start of one request to the start of the next, which does not wait for
        /// the answer before; `None`: each follows the end of the answer before.
        every: Option<Duration>,
    },
    /// One answer whose content comes into being with time, such as live video.
    Paced {
        /// The mean rate at which there is content.
        rate: Rate,
        /// The server has so many bytes more each time; the first at once.
        chunk: u64,
        /// Bytes of content in all.
        size: u64,
    },
    /// One answer that is always longer than what was sent, until time is over. The flow has finished
    /// then; what has arrived counts.
    Bulk {
        /// How long, from the flow's start.
        length: Duration,
    },
}

impl Traffic {
    /// How many bytes of content there are; `None` if time decides.
    pub fn bytes(&self) -> Option<u64> {
        match *self {
            Self::Download { size } | Self::Upload { size } | Self::Paced { size, .. } => {
                Some(size)
            }
            Self::Parallel { count, size } | Self::Requests { count, size, .. } => {
                Some(size.saturating_mul(count))
            }
            Self::Bulk { .. } => None,
        }
    }
}
