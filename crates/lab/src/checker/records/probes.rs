//! Computes when a probe timer may expire (RFC 9002 §6.2).

use core::time::Duration;

use clearway_transport::SpaceId;
use clearway_units::Timestamp;

/// The maximum number of times that the backoff doubles.
const MAX_DOUBLINGS: u32 = 16;

/// The probe timers' start times and backoff.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct ProbeRecords {
    since: [Timestamp; 3],
    /// The start of the probe timeout for a client that has nothing outstanding but must keep
    /// sending (§6.2.2.1).
    idle_since: Timestamp,
    doublings: u32,
    /// Whether the next timeout of the application data space may expire without backoff, because
    /// the peer has shown that the path works.
    skips_backoff: bool,
}

/// The earliest time at which a timer may expire, and the packet number space of that timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::checker) struct Expiry {
    pub(in crate::checker) at: Timestamp,
    pub(in crate::checker) space: Option<SpaceId>,
}

impl ProbeRecords {
    /// Records that an ack-eliciting packet was sent, which restarts the timer of `space`.
    pub(in crate::checker) fn on_sent(&mut self, space: SpaceId, now: Timestamp) {
        self.since[space as usize] = now;
        self.idle_since = now;
        self.skips_backoff = false;
    }

    /// Resets the backoff because packets were newly acknowledged, keys were discarded, or the path
    /// changed.
    pub(in crate::checker) fn reset(&mut self, now: Timestamp) {
        self.doublings = 0;
        self.idle_since = now;
        self.skips_backoff = false;
    }

    /// Processes an ack-eliciting packet from the peer that contains the newest ACK frame so far.
    /// Once a full timeout of `base` has passed since the last probe, the next probe may be sent
    /// immediately.
    pub(in crate::checker) fn on_peer_activity(&mut self, now: Timestamp, base: Duration) {
        let since = self.since[SpaceId::Application as usize];
        self.skips_backoff = self.doublings > 0 && since + base <= now;
    }

    /// Returns the earliest time at which the timer may expire. `base` returns the timeout of a
    /// space without backoff if the space has outstanding packets that arm the timer. `idle` is the
    /// timeout of a client that has nothing outstanding.
    pub(in crate::checker) fn earliest(
        &self,
        base: impl Fn(SpaceId) -> Option<Duration>,
        idle: Duration,
    ) -> Expiry {
        let factor = 1_u32 << self.doublings.min(MAX_DOUBLINGS);
        let of = |space: SpaceId| {
            let skips_backoff = self.skips_backoff && space == SpaceId::Application;
            let timeout = base(space)?.saturating_mul(if skips_backoff { 1 } else { factor });
            Some(Expiry { at: self.since[space as usize] + timeout, space: Some(space) })
        };
        let idle = Expiry { at: self.idle_since + idle.saturating_mul(factor), space: None };
        SpaceId::ALL.into_iter().filter_map(of).min().unwrap_or(idle)
    }

    /// Records that the timer expired.
    pub(in crate::checker) fn on_expired(&mut self, expiry: Expiry, now: Timestamp) {
        // A timeout that expired without backoff does not count as another doubling.
        self.doublings += u32::from(!self.skips_backoff);
        if let Some(space) = expiry.space {
            self.since[space as usize] = now;
        }
        self.idle_since = now;
        self.skips_backoff = false;
    }
}
