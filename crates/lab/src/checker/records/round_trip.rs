//! The checker's own RTT estimates (RFC 9002 §5), from its own samples.

use core::time::Duration;

use clearway_units::Timestamp;

/// The granularity of timers (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
/// The finest clock resolution that is required: smaller samples are reported as this value.
const FINEST: Duration = Duration::from_micros(1);

/// The checker's own RTT estimates for one path.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct RttRecords {
    /// The minimum RTT on this path.
    pub(in crate::checker) minimum: Option<Duration>,
    /// The time of the first sample.
    pub(in crate::checker) first_at: Option<Timestamp>,
    /// The RTT that timers use on a path without a sample.
    pub(in crate::checker) assumed: Duration,
    /// The RTT estimate, once there is a sample.
    pub(in crate::checker) estimate: Option<Estimate>,
}

/// An RTT estimate as defined in RFC 9002 §5.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::checker) struct Estimate {
    pub(in crate::checker) latest: Duration,
    pub(in crate::checker) smoothed: Duration,
    variation: Duration,
    /// Like `minimum`, but restarted by persistent congestion (RFC 9002 §5.2).
    minimum: Duration,
}

impl RttRecords {
    /// Creates an RTT estimator without samples; timers use `assumed` as the initial RTT.
    pub(in crate::checker) fn new(assumed: Duration) -> Self {
        Self { assumed: assumed.max(GRANULARITY), ..Self::default() }
    }

    /// Adds a sample from an ACK. `ack_delay` is the effective part of the peer's ACK delay.
    pub(in crate::checker) fn on_sample(
        &mut self,
        now: Timestamp,
        sample: Duration,
        ack_delay: Duration,
    ) {
        self.minimum = Some(self.minimum.map_or(sample, |least| least.min(sample)));
        self.first_at.get_or_insert(now);
        let latest = sample.max(FINEST);
        let Some(before) = self.estimate else {
            let variation = latest / 2;
            self.estimate = Some(Estimate { latest, smoothed: latest, variation, minimum: latest });
            return;
        };
        let minimum = before.minimum.min(latest);
        let adjusted = latest.checked_sub(ack_delay).filter(|adjusted| *adjusted >= minimum);
        let adjusted = adjusted.unwrap_or(latest);
        let deviation = before.smoothed.abs_diff(adjusted);
        let variation = (3 * before.variation + deviation) / 4;
        let smoothed = (7 * before.smoothed + adjusted) / 8;
        self.estimate = Some(Estimate { latest, smoothed, variation, minimum });
    }

    /// Restarts the minimum RTT because of persistent congestion.
    pub(in crate::checker) fn restart_minimum(&mut self) {
        if let Some(estimate) = &mut self.estimate {
            estimate.minimum = estimate.latest;
        }
    }

    /// Returns the time threshold: a packet sent this long before an acknowledged packet is
    /// declared lost (RFC 9002 §6.1.2).
    pub(in crate::checker) fn time_threshold(&self) -> Duration {
        let base = self.estimate.map_or(self.assumed, |it| it.smoothed.max(it.latest));
        (base + base / 8).max(GRANULARITY)
    }

    /// Returns the probe timeout without backoff and without the peer's ACK delay (RFC 9002
    /// §6.2.1).
    pub(in crate::checker) fn probe_timeout(&self) -> Duration {
        let (smoothed, variation) = self
            .estimate
            .map_or((self.assumed, self.assumed / 2), |it| (it.smoothed, it.variation));
        smoothed + (4 * variation).max(GRANULARITY)
    }
}
