//! What a connection may be told before it begins.

use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::ControllerFactory;
use clearway_wire::VarInt;

use crate::datagram::DatagramsConfig;
use crate::streams::StreamsConfig;

/// The transport's settings for one connection. Every field may be changed; the defaults suit a
/// client or server on the Internet.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// After how much silence the connection is given up; `None` never (RFC 9000 §10.1).
    pub max_idle_timeout: Option<Duration>,
    /// A PING is sent after this much silence; `None` sends none.
    pub keep_alive_interval: Option<Duration>,
    /// For how long a handshake may go on before it is given up.
    pub handshake_timeout: Duration,
    /// UDP payloads sent are never larger than this many bytes; 1200 to 65527. There is no path MTU
    /// discovery yet, so more than 1200 needs a path that is known to carry it (RFC 9000 §14).
    pub max_datagram_size: u16,
    /// Streams that the peer may open at a time, per kind.
    pub max_concurrent_bidirectional_streams: u64,
    /// Streams that the peer may open at a time, per kind.
    pub max_concurrent_unidirectional_streams: u64,
    /// The receive window of a stream to begin with, in bytes. It tunes itself up to
    /// `max_stream_receive_window`.
    pub initial_stream_receive_window: u64,
    /// The largest receive window of a stream, in bytes.
    pub max_stream_receive_window: u64,
    /// The receive window of the connection to begin with, in bytes.
    pub initial_connection_receive_window: u64,
    /// The largest receive window of the connection, in bytes.
    pub max_connection_receive_window: u64,
    /// How many bytes that the application wrote are kept at most, sent or not, until they are
    /// acknowledged. It is fewer, but at least 256 KiB, while the congestion window could not use them.
    pub send_buffer: u64,
    /// Received DATAGRAM payloads (RFC 9221) up to this many bytes are accepted; `None` refuses them.
    pub max_datagram_frame_size: Option<u64>,
    /// How long an acknowledgement may wait (RFC 9000 §13.2.1).
    pub max_ack_delay: Duration,
    /// How many ack-eliciting packets may come before one is acknowledged (RFC 9000 §13.2.2).
    pub ack_eliciting_threshold: u32,
    /// The round-trip time assumed until there is a sample; used for timers only (RFC 9002 §6.2.2).
    pub initial_rtt: Duration,
    /// Reordering tolerated in packets before loss is declared, until more was seen (RFC 9002 §6.1.1).
    pub packet_threshold: u64,
    /// Makes the congestion controllers.
    pub controller: Arc<dyn ControllerFactory>,
    /// The congestion window to begin with, in bytes; `None` as RFC 9002 §7.2 has it.
    pub initial_window: Option<u64>,
    /// The congestion window never exceeds this many bytes.
    pub maximum_window: u64,
    /// Packet numbers are skipped at random, to catch peers that acknowledge what they have not
    /// received (RFC 9000 §21.4).
    pub skip_packet_numbers: bool,
    /// A key update is started after this many packets; `None` only where the AEAD's limit demands it.
    pub key_update_after: Option<u64>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_interval: None,
            handshake_timeout: Duration::from_secs(20),
            max_datagram_size: 1200,
            max_concurrent_bidirectional_streams: 100,
            max_concurrent_unidirectional_streams: 100,
            initial_stream_receive_window: 256 << 10,
            max_stream_receive_window: 16 << 20,
            initial_connection_receive_window: 1 << 20,
            max_connection_receive_window: 24 << 20,
            send_buffer: 16 << 20,
            max_datagram_frame_size: None,
            max_ack_delay: Duration::from_millis(25),
            ack_eliciting_threshold: 2,
            initial_rtt: Duration::from_millis(333),
            packet_threshold: 3,
            controller: Arc::new(clearway_congestion::Algorithm::default()),
            initial_window: None,
            maximum_window: 1 << 30,
            skip_packet_numbers: true,
            key_update_after: None,
        }
    }
}

impl TransportConfig {
    /// The idle timeout as a transport parameter, in milliseconds; 0 for none.
    pub(crate) fn idle_timeout_parameter(&self) -> VarInt {
        let milliseconds = self.max_idle_timeout.map_or(0, |timeout| timeout.as_millis());
        VarInt::saturating(u64::try_from(milliseconds).unwrap_or(u64::MAX))
    }

    pub(crate) fn streams(&self) -> StreamsConfig {
        StreamsConfig {
            max_concurrent_bidirectional: self.max_concurrent_bidirectional_streams,
            max_concurrent_unidirectional: self.max_concurrent_unidirectional_streams,
            initial_stream_receive_window: self.initial_stream_receive_window,
            max_stream_receive_window: self.max_stream_receive_window,
            initial_connection_receive_window: self.initial_connection_receive_window,
            max_connection_receive_window: self.max_connection_receive_window,
            send_buffer: self.send_buffer,
        }
    }

    pub(crate) fn datagrams(&self) -> DatagramsConfig {
        DatagramsConfig {
            max_frame_size: self.max_datagram_frame_size.unwrap_or(0),
            send_buffer: UNRELIABLE_BUFFER,
            receive_buffer: UNRELIABLE_BUFFER,
        }
    }

    /// The largest UDP payload that is sent to a peer that takes `max_udp_payload_size` bytes
    /// (RFC 9000 §18.2).
    pub(crate) fn max_datagram_size(&self, max_udp_payload_size: VarInt) -> usize {
        let peer = usize::try_from(max_udp_payload_size.get()).unwrap_or(usize::MAX);
        usize::from(self.max_datagram_size).min(peer)
    }

    /// Bytes that a 1-RTT packet surely has for frames in a datagram of `datagram_size` bytes: what the
    /// longest header and the tag leave.
    pub(crate) fn packet_room(datagram_size: usize) -> usize {
        datagram_size.saturating_sub(MAX_SHORT_HEADER.saturating_add(TAG))
    }
}

/// Bytes of unreliable datagrams that wait in either direction.
const UNRELIABLE_BUFFER: u64 = 1 << 20;
/// The first byte, the longest connection ID, the longest packet number.
const MAX_SHORT_HEADER: usize = 1 + 20 + 4;
const TAG: usize = 16;
