//! Connection statistics.

use core::time::Duration;

use clearway_units::Rate;
use clearway_wire::Version;

use super::Connection;
use crate::datagram::DatagramStatistics;
use crate::drops::{DropCounts, DropReason, HandshakePackets};
use crate::ecn::EcnState;
use crate::streams::StreamsStatistics;

/// A snapshot of a connection's metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// The QUIC version: the client's first version until another is negotiated.
    pub version: Version,
    /// The smoothed round-trip time, once there is a sample.
    pub smoothed_rtt: Option<Duration>,
    /// The smallest round-trip time, once there is a sample.
    pub minimum_rtt: Option<Duration>,
    /// The newest round-trip time, once there is a sample.
    pub latest_rtt: Option<Duration>,
    /// The mean deviation of the round-trip time, once there is a sample.
    pub rtt_variation: Option<Duration>,
    /// The congestion window in bytes.
    pub congestion_window: u64,
    /// The minimum congestion window, in bytes.
    pub minimum_window: u64,
    /// The slow start threshold in bytes, once there is one.
    pub slow_start_threshold: Option<u64>,
    /// The phase of the congestion controller.
    pub congestion_phase: &'static str,
    /// The number of window reductions because of congestion.
    pub congestion_events: u64,
    /// The number of window reductions that were undone because the losses were spurious.
    pub undone_congestion_events: u64,
    /// The number of times that persistent congestion was declared.
    pub persistent_congestion_events: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// The pacing rate, once there is one.
    pub pacing_rate: Option<Rate>,
    /// The newest delivery rate.
    pub delivery_rate: Option<Rate>,
    /// Probe timeouts that expired.
    pub probe_timeouts: u64,
    /// Packets sent that count toward bytes in flight (RFC 9002 §2), that is, excluding those that
    /// contain only ACK and CONNECTION_CLOSE frames.
    pub packets_sent: u64,
    /// Packets received and decrypted.
    pub packets_received: u64,
    /// Packets received and dropped.
    pub packets_dropped: u64,
    /// Packets that arrived during the handshake, and why packets were dropped; `None` once the
    /// handshake is complete. Retained if the handshake fails.
    pub handshake_packets: Option<HandshakePackets>,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets that were acknowledged after they had been declared lost.
    pub packets_spuriously_lost: u64,
    /// UDP payload bytes of the packets in [`packets_sent`](Self::packets_sent).
    pub bytes_sent: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// Bytes of packets declared lost.
    pub bytes_lost: u64,
    /// Bytes of acknowledged packets, including those declared lost before. Packets that carry
    /// nothing but acknowledgments do not count.
    pub bytes_acknowledged: u64,
    /// UDP payloads received.
    pub datagrams_received: u64,
    /// Packets received that failed authentication.
    pub authentication_failures: u64,
    /// Batches of datagrams that this host failed to send, for example because there was no route.
    pub send_failures: u64,
    /// Updates of the 1-RTT keys, by either end.
    pub key_updates: u64,
    /// The largest UDP payload for the current path, in bytes, not counting MTU probes.
    pub datagram_size: u64,
    /// The ECN state of the current path.
    pub ecn_state: EcnState,
    /// Packets that arrived at the peer with an ECN-CE mark, on paths that passed ECN validation.
    pub ce_marks: u64,
    /// ACK_FREQUENCY frames sent (draft-ietf-quic-ack-frequency).
    pub ack_frequency_frames_sent: u64,
}

/// Cumulative counters of a connection, for sums over many connections: a cheap subset of its
/// [`Statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Packets sent that count toward bytes in flight (RFC 9002 §2), that is, excluding those that
    /// contain only ACK and CONNECTION_CLOSE frames.
    pub packets_sent: u64,
    /// Packets received and decrypted.
    pub packets_received: u64,
    /// Packets received and dropped.
    pub packets_dropped: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets that were acknowledged after they had been declared lost.
    pub packets_spuriously_lost: u64,
    /// Probe timeouts that expired.
    pub probe_timeouts: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) packets_received: u64,
    /// Packets decrypted, including duplicates.
    pub(super) packets_opened: u64,
    pub(super) packets_dropped: u64,
    /// Counts of the packets dropped during the handshake, kept until it is complete.
    pub(super) handshake_drops: Option<Box<DropCounts>>,
    pub(super) bytes_received: u64,
    pub(super) datagrams_received: u64,
    pub(super) tokens_received: u64,
    pub(super) send_failures: u64,
}

impl Counters {
    pub(super) fn on_datagram_received(&mut self, bytes: usize) {
        self.datagrams_received = self.datagrams_received.saturating_add(1);
        self.bytes_received = self.bytes_received.saturating_add(bytes as u64);
    }
}

impl Connection {
    /// Returns counts of the packets received so far, while the handshake is incomplete.
    pub(super) fn handshake_packets(&self) -> HandshakePackets {
        let mut dropped = self.counters.handshake_drops.as_deref().copied().unwrap_or_default();
        dropped.add(DropReason::KeyUnavailable, self.held.len());
        HandshakePackets {
            processed: self.counters.packets_received,
            followed_retry: self.side.is_client() && self.identity.retry_source.is_some(),
            followed_version_negotiation: self.versions.has_reacted(),
            dropped,
        }
    }

    /// Returns the connection's current metrics.
    pub fn statistics(&self) -> Statistics {
        let stats = self.recovery.get().stats();
        Statistics {
            version: self.version(),
            smoothed_rtt: stats.rtt.map(|rtt| rtt.smoothed),
            minimum_rtt: stats.rtt.map(|rtt| rtt.minimum),
            latest_rtt: stats.rtt.map(|rtt| rtt.latest),
            rtt_variation: stats.rtt.map(|rtt| rtt.variation),
            congestion_window: stats.congestion.window,
            minimum_window: stats.congestion.minimum_window,
            slow_start_threshold: stats.congestion.slow_start_threshold,
            congestion_phase: stats.congestion.phase.name(),
            congestion_events: stats.congestion.congestion_events,
            undone_congestion_events: stats.congestion.undone_events,
            persistent_congestion_events: stats.persistent_congestion_total,
            bytes_in_flight: stats.bytes_in_flight,
            pacing_rate: stats.pacing_rate,
            delivery_rate: stats.delivery_rate.map(|sample| sample.rate),
            probe_timeouts: stats.pto_total,
            packets_sent: stats.counts.packets_sent,
            packets_received: self.counters.packets_received,
            packets_dropped: self.counters.packets_dropped,
            handshake_packets: self.is_handshaking().then(|| self.handshake_packets()),
            packets_lost: stats.counts.packets_lost,
            packets_spuriously_lost: stats.counts.packets_spuriously_lost,
            bytes_sent: stats.counts.bytes_sent,
            bytes_received: self.counters.bytes_received,
            bytes_lost: stats.counts.bytes_lost,
            bytes_acknowledged: stats.counts.bytes_acknowledged,
            datagrams_received: self.counters.datagrams_received,
            authentication_failures: self.handshake.protection().authentication_failures(),
            send_failures: self.counters.send_failures,
            key_updates: self.handshake.protection().key_updates(),
            datagram_size: self.max_datagram_size() as u64,
            ecn_state: stats.ecn_state,
            ce_marks: stats.ce_marks,
            ack_frequency_frames_sent: self.ack_frequency.sent(),
        }
    }

    /// Returns the connection's cumulative counters, which never decrease.
    pub fn totals(&self) -> Totals {
        let of_recovery = self.recovery.totals();
        Totals {
            packets_sent: of_recovery.packets_sent,
            packets_received: self.counters.packets_received,
            packets_dropped: self.counters.packets_dropped,
            packets_lost: of_recovery.packets_lost,
            packets_spuriously_lost: of_recovery.packets_spuriously_lost,
            probe_timeouts: of_recovery.probe_timeouts,
        }
    }

    /// Returns statistics of streams and their data.
    pub fn streams_statistics(&self) -> StreamsStatistics {
        self.streams.get().statistics()
    }

    /// Returns statistics of unreliable datagrams (RFC 9221).
    pub fn datagram_statistics(&self) -> DatagramStatistics {
        self.datagrams.statistics()
    }
}
