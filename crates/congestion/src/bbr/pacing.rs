//! The pacing rate and the send quantum (draft, "Pacing Rate" and "Send Quantum").

use core::time::Duration;

use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::Bbr;
use super::gain::Gain;
use super::state::BbrState;
use crate::RttSnapshot;

/// The time that one batch of packets covers at the pacing rate.
const QUANTUM_TIME: Duration = Duration::from_millis(1);
const MAXIMUM_QUANTUM: u64 = 64 << 10;
const MINIMUM_QUANTUM_DATAGRAMS: u64 = 2;

/// The pacing rate (C.pacing_rate); `None` before the first round-trip time.
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Pacing {
    pub(super) rate: Option<Rate>,
}

impl Pacing {
    /// Sets the initial rate once there is a round-trip time: the initial window per round trip,
    /// multiplied by Startup's gain (InitPacingRate).
    pub(super) fn begin(&mut self, initial_window: u64, rtt: Duration) {
        if self.rate.is_none() {
            let nominal = Rate::from_transfer(initial_window, rtt);
            self.rate = nominal.map(|rate| BbrState::Startup.pacing_gain().of_rate(rate));
        }
    }

    /// Returns the rate for the pacer: at least one datagram per smoothed round-trip time, so that
    /// waiting data never waits longer than that (L6).
    pub(super) fn rate(&self, size: u64, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        let least = rtt.and_then(|rtt| Rate::from_transfer(size, rtt.smoothed));
        // On a path with a round trip of weeks, the rate is less than a byte per second.
        let least = least.unwrap_or(Rate::ZERO).max(Rate::from_bytes_per_second(1));
        self.rate.map(|rate| rate.max(least))
    }

    /// Returns the send quantum in bytes (C.send_quantum).
    pub(super) fn send_quantum(&self, size: u64) -> u64 {
        let by_rate = self.rate.map_or(0, |rate| rate.bytes_in(QUANTUM_TIME));
        by_rate.min(MAXIMUM_QUANTUM).max(size.saturating_mul(MINIMUM_QUANTUM_DATAGRAMS))
    }
}

impl Bbr {
    /// Sets the pacing rate to 1 % below the estimate times `gain`, so that queues shrink
    /// (SetPacingRateWithGain). Until the pipe has been full, the rate only rises.
    pub(super) fn set_pacing_rate(&mut self, gain: Gain) {
        let rate = Gain::PACING_MARGIN.of_rate(gain.of_rate(self.rate));
        let is_set = self.full_pipe.was_reached || Some(rate) > self.pacing.rate;
        if is_set && rate > Rate::ZERO {
            self.pacing.rate = Some(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantum_is_a_millisecond_between_two_datagrams_and_64_kib() {
        let quantum = |rate| {
            let rate = Some(Rate::from_bytes_per_second(rate));
            Pacing { rate }.send_quantum(1200)
        };
        assert_eq!(quantum(100_000), 2400);
        assert_eq!(quantum(10_000_000), 10_000);
        assert_eq!(quantum(1_000_000_000), 64 << 10);
    }

    #[test]
    fn a_path_of_weeks_still_has_a_rate() {
        // S3, L6: twelve datagrams in fourteen weeks are less than a byte per second.
        let weeks = Duration::from_secs(14 * 7 * 86_400);
        let mut pacing = Pacing::default();
        pacing.begin(12_000, weeks);
        let rtt = RttSnapshot {
            latest: weeks,
            smoothed: weeks,
            minimum: weeks,
            variation: weeks,
            is_new: true,
        };
        assert_eq!(pacing.rate(1200, Some(&rtt)), Some(Rate::from_bytes_per_second(1)));
    }
}
