//! When a probe timer may expire (RFC 9002 §6.2).

use core::time::Duration;

use clearway_transport::SpaceId;
use clearway_units::Timestamp;

/// The backoff doubles so often at most.
const MAX_DOUBLINGS: u32 = 16;

/// Since when the probe timer of each space runs, and how often it doubled.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct ProbeBooks {
    since: [Timestamp; 3],
    /// From when the timeout of a client runs that has nothing outstanding and must not fall silent.
    idle_since: Timestamp,
    doublings: u32,
    /// The peer showed that the path works: one timeout of the Application space need not wait for the backoff.
    is_hastened: bool,
}

/// When a timer may expire at the earliest, and of which space it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::checker) struct Expiry {
    pub(in crate::checker) at: Timestamp,
    pub(in crate::checker) space: Option<SpaceId>,
}

impl ProbeBooks {
    /// A packet was sent that restarts the timer of `space`.
    pub(in crate::checker) fn on_sent(&mut self, space: SpaceId, now: Timestamp) {
        self.since[space as usize] = now;
        self.idle_since = now;
        self.is_hastened = false;
    }

    /// Something was newly acknowledged, keys were discarded, or the path is another.
    pub(in crate::checker) fn reset(&mut self, now: Timestamp) {
        self.doublings = 0;
        self.idle_since = now;
        self.is_hastened = false;
    }

    /// The peer sent an ack-eliciting packet with an ACK frame that is newer than all before. Once a whole timeout
    /// of `base` has passed since the last probe, the next may come at once.
    pub(in crate::checker) fn on_sign_of_life(&mut self, now: Timestamp, base: Duration) {
        let since = self.since[SpaceId::Application as usize];
        self.is_hastened = self.doublings > 0 && since + base <= now;
    }

    /// When the timer may expire. `base` gives the timeout of a space without backoff if that space has something
    /// outstanding that arms the timer; `idle` is the one of a client that has nothing outstanding.
    pub(in crate::checker) fn earliest(
        &self,
        base: impl Fn(SpaceId) -> Option<Duration>,
        idle: Duration,
    ) -> Expiry {
        let factor = 1_u32 << self.doublings.min(MAX_DOUBLINGS);
        let of = |space: SpaceId| {
            let is_hastened = self.is_hastened && space == SpaceId::Application;
            let timeout = base(space)?.saturating_mul(if is_hastened { 1 } else { factor });
            Some(Expiry { at: self.since[space as usize] + timeout, space: Some(space) })
        };
        let idle = Expiry { at: self.idle_since + idle.saturating_mul(factor), space: None };
        SpaceId::ALL.into_iter().filter_map(of).min().unwrap_or(idle)
    }

    /// The timer expired.
    pub(in crate::checker) fn on_expired(&mut self, expiry: Expiry, now: Timestamp) {
        // Of a backoff that was not waited for, the doubling is in the count already.
        self.doublings += u32::from(!self.is_hastened);
        if let Some(space) = expiry.space {
            self.since[space as usize] = now;
        }
        self.idle_since = now;
        self.is_hastened = false;
    }
}
