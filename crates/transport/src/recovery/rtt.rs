use core::time::Duration;

use clearway_congestion::RttSnapshot;
use clearway_units::packed::Pack;

/// The timer granularity (RFC 9002 §6.1.2).
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// The round-trip time of one path (RFC 9002 §5).
///
/// An estimate exists only after an ACK has yielded a sample; the assumed round-trip time is used
/// for timers and never enters the estimate (law 7).
#[derive(Debug, Pack)]
pub(super) struct Rtt {
    assumed: Duration,
    estimate: Option<RttEstimate>,
}

#[derive(Clone, Copy, Debug, Pack)]
struct RttEstimate {
    latest: Duration,
    smoothed: Duration,
    variation: Duration,
    minimum: Duration,
    /// The probe timeout without the peer's delay, cached because it is read far more often than it
    /// changes.
    probe_wait: Duration,
}

impl Rtt {
    /// Creates the state without a sample; timers use `assumed`.
    pub(super) fn new(assumed: Duration) -> Self {
        Self { assumed: assumed.max(GRANULARITY), estimate: None }
    }

    /// Adds a sample from an ACK. `ack_delay` is the delay that the peer reports: zero for Initial
    /// packets, and limited to the peer's max_ack_delay once the handshake is confirmed (RFC 9002
    /// §5.3). Returns the excess of the sample over the previous smoothed round-trip time; `None`
    /// for the first sample.
    pub(super) fn on_sample(&mut self, latest: Duration, ack_delay: Duration) -> Option<Duration> {
        let Some(before) = self.estimate else {
            self.estimate = Some(RttEstimate::new(latest, latest, fraction(latest, 2), latest));
            return None;
        };
        let minimum = before.minimum.min(latest);
        // The delay is subtracted only if that does not go below the minimum.
        let adjusted =
            latest.checked_sub(ack_delay).filter(|adjusted| *adjusted >= minimum).unwrap_or(latest);
        let deviation = before.smoothed.abs_diff(adjusted);
        let smoothed = weighted(before.smoothed, adjusted, 8);
        let variation = weighted(before.variation, deviation, 4);
        self.estimate = Some(RttEstimate::new(latest, smoothed, variation, minimum));
        Some(adjusted.saturating_sub(before.smoothed))
    }

    /// Returns the excess of `duration` over the smoothed round-trip time; `None` without a sample.
    pub(super) fn growth(&self, duration: Duration) -> Option<Duration> {
        self.estimate.map(|estimate| duration.saturating_sub(estimate.smoothed))
    }

    /// Restarts the minimum from the newest sample after persistent congestion, since the path may have changed
    /// (RFC 9002 §5.2).
    pub(super) fn restart_minimum(&mut self) {
        if let Some(estimate) = &mut self.estimate {
            estimate.minimum = estimate.latest;
        }
    }

    /// Returns the estimate, if there is one. `is_new`: the current event yielded its sample.
    pub(super) fn snapshot(&self, is_new: bool) -> Option<RttSnapshot> {
        self.estimate.map(|estimate| RttSnapshot {
            latest: estimate.latest,
            smoothed: estimate.smoothed,
            minimum: estimate.minimum,
            variation: estimate.variation,
            is_new,
        })
    }

    /// Returns the smoothed round-trip time, or the assumed one if there is no sample.
    pub(super) fn smoothed_or_assumed(&self) -> Duration {
        self.estimate.map_or(self.assumed, |estimate| estimate.smoothed)
    }

    /// Returns the time after which a packet is declared lost if a later one was acknowledged (RFC
    /// 9002 §6.1.2): 9/8 of the round-trip time, and no less than `tolerated`.
    pub(super) fn time_threshold(&self, tolerated: Duration) -> Duration {
        let base = self.estimate.map_or(self.assumed, |e| e.smoothed.max(e.latest));
        nine_eighths(base).max(tolerated).max(GRANULARITY)
    }

    /// Returns the probe timeout without backoff (RFC 9002 §6.2.1). `max_ack_delay` is zero for
    /// Initial and Handshake packets.
    pub(super) fn pto_base(&self, max_ack_delay: Duration) -> Duration {
        let wait = self.estimate.map_or_else(
            || probe_wait(self.assumed, fraction(self.assumed, 2)),
            |estimate| estimate.probe_wait,
        );
        wait.saturating_add(max_ack_delay)
    }
}

impl RttEstimate {
    fn new(latest: Duration, smoothed: Duration, variation: Duration, minimum: Duration) -> Self {
        let probe_wait = probe_wait(smoothed, variation);
        Self { latest, smoothed, variation, minimum, probe_wait }
    }
}

/// Returns the PTO of RFC 9002 §6.2.1, without the peer's max_ack_delay.
fn probe_wait(smoothed: Duration, variation: Duration) -> Duration {
    smoothed.saturating_add(variation.saturating_mul(4).max(GRANULARITY))
}

/// Returns 1/parts × `whole`.
fn fraction(whole: Duration, parts: u32) -> Duration {
    whole.checked_div(parts).unwrap_or(whole)
}

/// Returns kTimeThreshold × `rtt` (RFC 9002 §6.1.2).
pub(super) fn nine_eighths(rtt: Duration) -> Duration {
    rtt.saturating_add(fraction(rtt, 8))
}

/// Returns (1 - 1/parts) × `old` + 1/parts × `new`.
pub(super) fn weighted(old: Duration, new: Duration, parts: u32) -> Duration {
    let kept = old.saturating_mul(parts.saturating_sub(1));
    fraction(kept.saturating_add(new), parts)
}

#[cfg(test)]
#[path = "rtt_tests.rs"]
mod tests;
