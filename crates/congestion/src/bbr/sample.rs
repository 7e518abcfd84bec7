//! The measurements of one acknowledgment, in the form that BBR uses.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::{Acknowledgement, SendIndex, SentPacket};

/// The minimum round-trip time; shorter ones are rounded up to it, as in the transport.
const FINEST_RTT: Duration = Duration::from_micros(1);

/// The draft's RS, together with the state of connection C after the ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Timestamp,
    /// The most recently sent of the acknowledged packets.
    pub(super) newest: SentPacket,
    /// The delivery rate (RS.delivery_rate); zero if there is no reliable sample.
    pub(super) rate: Rate,
    /// Bytes delivered since `newest` was sent (RS.delivered).
    pub(super) delivered: u64,
    /// Bytes declared lost since `newest` was sent (RS.lost).
    pub(super) lost: u64,
    pub(super) is_application_limited: bool,
    /// The round-trip time of `newest` (RS.rtt).
    pub(super) rtt: Duration,
    pub(super) newly_acked: u64,
    /// The part of `newly_acked` that may make the window grow: zero unless the window was fully
    /// used (RFC 9002 §7.8).
    pub(super) growing: u64,
    /// Total bytes delivered (C.delivered).
    pub(super) total_delivered: u64,
    pub(super) prior_in_flight: u64,
    /// Bytes in flight after the ACK (C.inflight).
    pub(super) in_flight: u64,
    /// Whether the window limited the sender (C.is_cwnd_limited).
    pub(super) is_window_limited: bool,
    pub(super) next_index: SendIndex,
}

impl Sample {
    /// Creates the sample of an event; `None` if nothing was acknowledged.
    pub(super) fn of(event: &Acknowledgement<'_>) -> Option<Self> {
        let newest = *event.acked.last()?;
        let noted = newest.delivery;
        let rate = event.rate_sample;
        let newly_acked = event.acked.iter().fold(0, |sum, acked| acked.bytes.saturating_add(sum));
        Some(Self {
            now: event.now,
            newest,
            rate: rate.map_or(Rate::ZERO, |sample| sample.rate),
            delivered: event.total_delivered.saturating_sub(noted.delivered),
            lost: event.total_lost.saturating_sub(noted.lost),
            is_application_limited: noted.is_application_limited
                || rate.is_some_and(|sample| sample.is_application_limited),
            rtt: event.now.saturating_since(newest.sent_at).max(FINEST_RTT),
            newly_acked,
            growing: if event.was_limited { newly_acked } else { 0 },
            total_delivered: event.total_delivered,
            prior_in_flight: event.prior_in_flight,
            in_flight: event.bytes_in_flight,
            is_window_limited: event.was_window_limited,
            next_index: event.next_index,
        })
    }

    /// Returns the total bytes delivered when `newest` was sent (RS.prior_delivered).
    pub(super) fn prior_delivered(&self) -> u64 {
        self.newest.delivery.delivered
    }

    /// Returns the bytes in flight when `newest` was sent (RS.tx_in_flight).
    pub(super) fn sent_in_flight(&self) -> u64 {
        self.newest.delivery.in_flight
    }
}
