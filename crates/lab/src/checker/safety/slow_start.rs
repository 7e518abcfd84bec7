//! S22: the first slow start ends where HyStart++ ends it (RFC 9406 §4.2).

use core::time::Duration;

use clearway_congestion::Phase;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const SAMPLES: u32 = 8;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// HyStart++, computed from the checker's rounds and samples. Conservative slow start begins with a
/// new round, so that the samples that ended slow start cannot resume it. The RFC also counts the
/// rest of the current round, so conservative slow start may end a round earlier.
#[derive(Debug, Default)]
pub(in crate::checker) struct SlowStart {
    /// The round ends when this packet or a later one is acknowledged.
    round_end: u64,
    last: Option<Duration>,
    current: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
    /// Whether slow start has ended on this path.
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

impl Rule for SlowStart {
    const PROPERTY: Property = Property::S22;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (tally, phase) = (report.tally, report.after.congestion.phase);
        self.is_over |= !records.config.kind.is_loss_based()
            || report.change.is_cut
            || tally.pending > 0
            || report.before.congestion.slow_start_threshold.is_some();
        let Some(largest) = tally.largest_delivered.filter(|_| !self.is_over) else {
            return Ok(());
        };
        let expected = self.after_acknowledgement(largest, tally.rtt, records.ledger.next_index());
        let is_round_early = phase == Phase::CongestionAvoidance
            && self.conservative.is_some_and(|it| it.rounds + 1 >= CONSERVATIVE_ROUNDS);
        self.is_over = phase == Phase::CongestionAvoidance;
        if phase == expected || is_round_early {
            return Ok(());
        }
        Err(format!(
            "the phase is {}, but should be {}: the minimum round-trip times are {:?} in the \
             previous round and {:?} in this one ({} samples); conservative slow start: {:?}",
            phase.name(),
            expected.name(),
            self.last,
            self.current,
            self.samples,
            self.conservative.map(|it| (it.baseline, it.rounds))
        ))
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        *self = Self::default();
    }
}

impl SlowStart {
    /// Computes the phase after an ACK of packets up to `largest`, including its RTT sample.
    fn after_acknowledgement(
        &mut self,
        largest: u64,
        sample: Option<Duration>,
        next_index: u64,
    ) -> Phase {
        if largest >= self.round_end {
            self.begin_round(next_index);
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
            }
        }
        if let Some(sample) = sample {
            self.current = Some(self.current.map_or(sample, |least| least.min(sample)));
            self.samples += 1;
        }
        let minimum = self.current.filter(|_| self.samples >= SAMPLES);
        match self.conservative {
            Some(Conservative { baseline, .. }) if minimum.is_some_and(|it| it < baseline) => {
                self.conservative = None;
            }
            Some(Conservative { rounds, .. }) if rounds >= CONSERVATIVE_ROUNDS => {
                return Phase::CongestionAvoidance;
            }
            Some(_) => {}
            None => {
                let baseline = minimum.filter(|minimum| self.has_grown(*minimum));
                self.conservative = baseline.map(|baseline| Conservative { baseline, rounds: 0 });
                if baseline.is_some() {
                    self.begin_round(next_index);
                }
            }
        }
        match self.conservative {
            Some(_) => Phase::ConservativeSlowStart,
            None => Phase::SlowStart,
        }
    }

    fn begin_round(&mut self, next_index: u64) {
        self.round_end = next_index;
        self.last = self.current.take();
        self.samples = 0;
    }

    fn has_grown(&self, minimum: Duration) -> bool {
        self.last.is_some_and(|last| {
            let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
            minimum >= last + threshold
        })
    }
}
