//! HyStart++ (RFC 9406): leaves slow start before the window overshoots. Used only for the first
//! slow start.

use clearway_units::packed::Pack;
use core::time::Duration;

use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Acknowledgement, Metric, Quantity, SendIndex};

const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// The minimum round-trip time of a round, and the number of its samples.
#[derive(Clone, Copy, Debug, Default, Pack)]
struct Round {
    minimum: Option<Duration>,
    samples: u32,
}

/// The state of conservative slow start.
#[derive(Clone, Copy, Debug, Pack)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

/// The effect of an acknowledgment on slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlowStartVerdict {
    /// Grow by the acknowledged bytes, divided by this.
    Grow(u64),
    /// The window is large enough: go to congestion avoidance.
    Leave,
}

#[derive(Clone, Copy, Debug, Pack)]
pub(crate) struct HyStart {
    /// The boundary of the current round, which ends when a packet sent after this one is
    /// acknowledged.
    round_end: SendIndex,
    last: Round,
    current: Round,
    conservative: Option<Conservative>,
}

impl HyStart {
    pub(crate) fn new() -> Self {
        Self {
            round_end: SendIndex(0),
            last: Round::default(),
            current: Round::default(),
            conservative: None,
        }
    }

    /// Returns whether growth is slowed to find out whether the delay increase was real.
    pub(crate) const fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Processes an acknowledgment (RFC 9406 §4.2). Because packets are paced, L is infinite:
    /// growth per acknowledgment is not limited.
    pub(crate) fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> SlowStartVerdict {
        self.end_round_if_over(event);
        self.sample(event);
        if let Some(conservative) = self.conservative {
            if self.current.is_sampled()
                && self.current.minimum.is_some_and(|minimum| minimum < conservative.baseline)
            {
                // The delay disappeared, so it was not a queue.
                self.conservative = None;
            } else if conservative.rounds >= CSS_ROUNDS {
                return SlowStartVerdict::Leave;
            }
        } else if let Some(baseline) = self.delay_has_grown() {
            // A new round begins here, the first of five: the samples that raised the suspicion
            // must neither confirm nor clear it (rows 31 and 32).
            self.conservative = Some(Conservative { baseline, rounds: 0 });
            self.begin_round(event);
        }
        SlowStartVerdict::Grow(if self.is_conservative() { CSS_GROWTH_DIVISOR } else { 1 })
    }

    fn end_round_if_over(&mut self, event: &Acknowledgement<'_>) {
        if !event.acked.iter().any(|packet| packet.index >= self.round_end) {
            return;
        }
        self.begin_round(event);
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds = conservative.rounds.saturating_add(1);
        }
    }

    fn begin_round(&mut self, event: &Acknowledgement<'_>) {
        self.round_end = event.next_index;
        self.last = self.current;
        self.current = Round::default();
    }

    fn sample(&mut self, event: &Acknowledgement<'_>) {
        if let Some(rtt) = event.rtt.filter(|rtt| rtt.is_new) {
            let round = &mut self.current;
            round.minimum = Some(round.minimum.map_or(rtt.latest, |least| least.min(rtt.latest)));
            round.samples = round.samples.saturating_add(1);
        }
    }

    /// Reports the variables of RFC 9406 §4.2 that have a value.
    pub(crate) fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        for (name, minimum) in [
            ("last_round_min_rtt", self.last.minimum),
            ("current_round_min_rtt", self.current.minimum),
            ("css_baseline_min_rtt", self.conservative.map(|conservative| conservative.baseline)),
        ] {
            if let Some(minimum) = minimum {
                tell(Metric { name, quantity: Quantity::Time(minimum) });
            }
        }
    }

    /// Returns the round's minimum round-trip time, if it exceeds the previous round's by enough to
    /// indicate a queue.
    fn delay_has_grown(&self) -> Option<Duration> {
        let current = self.current.minimum.filter(|_| self.current.is_sampled())?;
        let last = self.last.minimum?;
        let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
        (current >= last.saturating_add(threshold)).then_some(current)
    }
}

impl Round {
    fn is_sampled(&self) -> bool {
        self.samples >= N_RTT_SAMPLE
    }
}

impl Inspect for HyStart {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { round_end, last, current, conservative } = *self;
        visit("hystart_round_end", StateValue::Index(round_end));
        for Round { minimum, samples } in [last, current] {
            visit("hystart_minimum", StateValue::optional(minimum, StateValue::Duration));
            visit("hystart_samples", StateValue::Count(u64::from(samples)));
        }
        visit("is_conservative", StateValue::Flag(conservative.is_some()));
        if let Some(Conservative { baseline, rounds }) = conservative {
            visit("css_baseline", StateValue::Duration(baseline));
            visit("css_rounds", StateValue::Count(u64::from(rounds)));
        }
    }
}

#[cfg(test)]
#[path = "hystart_tests.rs"]
mod tests;
