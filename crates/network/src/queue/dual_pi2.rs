use core::time::Duration;

use clearway_units::Timestamp;

use super::fifo::Fifo;
use super::{QueueVerdict, QueuedDatagram};
use crate::Ecn;

/// A coupled dual queue. A low-latency queue for datagrams with ECT(1) or CE keeps their delay near
/// a millisecond by marking. For the classic queue, a controller keeps the delay near `target` by
/// dropping datagrams, or by marking those with ECT(0). One base probability governs both queues:
/// the classic queue uses its square, and the low-latency queue uses `coupling` times it, so that
/// flows of both kinds get similar rates (RFC 9332, Section 2 and Appendix A).
///
/// Probabilities are applied by accumulating them, as in Appendix A, not by random draws.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualPi2 {
    /// The target delay of the classic queue: 15 ms.
    pub target: Duration,
    /// The queueing delay above which the low-latency queue marks datagrams: 1 ms.
    pub step: Duration,
    /// The interval between updates of the base probability: 16 ms. Less than 1 ms counts as 1 ms.
    pub update_interval: Duration,
    /// The factor by which the base probability is multiplied for the low-latency queue: 2.
    pub coupling: f64,
    /// The integral gain, in Hz: 0.16.
    pub alpha: f64,
    /// The proportional gain, in Hz: 3.2.
    pub beta: f64,
}

impl Default for DualPi2 {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            step: Duration::from_millis(1),
            update_interval: Duration::from_millis(16),
            coupling: 2.0,
            alpha: 0.16,
            beta: 3.2,
        }
    }
}

/// The classic queue's share of the service, in percent, while both queues contain datagrams.
const CLASSIC_SHARE: u64 = 10;
const LOW_LATENCY_SHARE: u64 = 90;

/// The backlog of both queues, in bytes, below which no datagrams are dropped: two datagrams of
/// 1500 bytes, as in PIE (RFC 8033, Section 4.1).
const SMALL_BACKLOG: u64 = 3000;

/// The number of updates without an arrival or a departure after which the base probability no
/// longer changes: with an empty queue, it takes `1 / (alpha * target)` updates, about 417, to
/// decay to zero; with a stuck queue, it saturates in far fewer.
const SETTLED_UPDATES: u32 = 1000;

#[derive(Debug)]
pub(super) struct DualPi2Queue {
    parameters: DualPi2,
    low_latency: Fifo,
    classic: Fifo,
    base_probability: f64,
    /// The queueing delay at the last update.
    last_delay: Duration,
    next_update: Option<Timestamp>,
    low_latency_marks: Recurrence,
    low_latency_drops: Recurrence,
    classic_signals: Recurrence,
    /// The service credit of the classic queue, in bytes times percent.
    owed: u64,
}

/// Applies a probability by accumulating it.
#[derive(Debug, Default)]
struct Recurrence(f64);

impl Recurrence {
    fn happens(&mut self, likelihood: f64) -> bool {
        self.0 += likelihood;
        let happens = self.0 >= 1.0;
        if happens {
            self.0 -= 1.0;
        }
        happens
    }
}

impl DualPi2Queue {
    pub(super) fn new(parameters: DualPi2) -> Self {
        Self {
            parameters,
            low_latency: Fifo::default(),
            classic: Fifo::default(),
            base_probability: 0.0,
            last_delay: Duration::ZERO,
            next_update: None,
            low_latency_marks: Recurrence::default(),
            low_latency_drops: Recurrence::default(),
            classic_signals: Recurrence::default(),
            owed: 0,
        }
    }

    pub(super) fn packets(&self) -> usize {
        self.low_latency.packets().saturating_add(self.classic.packets())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.low_latency.bytes().saturating_add(self.classic.bytes())
    }

    pub(super) fn push(&mut self, now: Timestamp, waiting: QueuedDatagram) {
        self.update(now);
        match waiting.ecn {
            Ecn::Ect1 | Ecn::Ce => self.low_latency.push(waiting),
            Ecn::NotEct | Ecn::Ect0 => self.classic.push(waiting),
        }
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        let fronts = [self.low_latency.front(), self.classic.front()];
        fronts.into_iter().flatten().map(|waiting| waiting.number).min()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<QueuedDatagram> {
        self.low_latency.remove(number).or_else(|| self.classic.remove(number))
    }

    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(QueuedDatagram, QueueVerdict)> {
        self.update(now);
        let is_small = self.bytes() < SMALL_BACKLOG;
        let (waiting, verdict) = if self.low_latency_is_next() {
            let waiting = self.low_latency.pop()?;
            (waiting, self.judge_low_latency(now, &waiting))
        } else {
            let waiting = self.classic.pop()?;
            (waiting, self.judge_classic(&waiting))
        };
        match verdict {
            QueueVerdict::Drop if is_small => Some((waiting, QueueVerdict::Send)),
            verdict => Some((waiting, verdict)),
        }
    }

    /// Returns whether the low-latency queue is served next. It has priority, but while both queues
    /// hold datagrams the classic queue gets its share.
    fn low_latency_is_next(&mut self) -> bool {
        let (Some(low_latency), Some(classic)) = (self.low_latency.front(), self.classic.front())
        else {
            self.owed = 0;
            return self.low_latency.front().is_some();
        };
        match self.owed.checked_sub(classic.bytes.saturating_mul(LOW_LATENCY_SHARE)) {
            Some(left) => {
                self.owed = left;
                false
            }
            None => {
                let share = low_latency.bytes.saturating_mul(CLASSIC_SHARE);
                self.owed = self.owed.saturating_add(share);
                true
            }
        }
    }

    /// Marks datagrams according to the step threshold and the coupled probability. When that
    /// probability is one, marking no longer suffices, so this queue drops like the classic one
    /// (RFC 9332, Section 4.2.3).
    fn judge_low_latency(&mut self, now: Timestamp, waiting: &QueuedDatagram) -> QueueVerdict {
        let coupled = self.parameters.coupling * self.base_probability;
        let is_overloaded = coupled >= 1.0;
        if is_overloaded && self.low_latency_drops.happens(self.classic_probability()) {
            return QueueVerdict::Drop;
        }
        let sojourn = now.saturating_since(waiting.entered);
        // A datagram that leaves the queue empty has waited only for the wire.
        let is_late = sojourn > self.parameters.step && self.low_latency.packets() > 0;
        let is_coupled = self.low_latency_marks.happens(coupled.min(1.0));
        if is_late || is_coupled { QueueVerdict::Mark } else { QueueVerdict::Send }
    }

    fn judge_classic(&mut self, waiting: &QueuedDatagram) -> QueueVerdict {
        let probability = self.classic_probability();
        let is_overloaded = self.parameters.coupling * self.base_probability >= 1.0;
        if !self.classic_signals.happens(probability) {
            QueueVerdict::Send
        } else if waiting.ecn.is_markable() && !is_overloaded {
            QueueVerdict::Mark
        } else {
            QueueVerdict::Drop
        }
    }

    fn classic_probability(&self) -> f64 {
        self.base_probability * self.base_probability
    }

    /// Returns how long the oldest datagram has waited at `at`.
    fn delay(&self, at: Timestamp) -> Duration {
        let fronts = [self.low_latency.front(), self.classic.front()];
        let delays =
            fronts.into_iter().flatten().map(|waiting| at.saturating_since(waiting.entered));
        delays.max().unwrap_or_default()
    }

    /// Applies the updates that were due up to `now`. There must have been no arrival or departure
    /// in between.
    fn update(&mut self, now: Timestamp) {
        let interval = self.parameters.update_interval.max(Duration::from_millis(1));
        let mut at = self.next_update.unwrap_or(now + interval);
        let mut updates = 0u32;
        while at <= now && at < Timestamp::FAR_FUTURE {
            updates = updates.saturating_add(1);
            if updates == SETTLED_UPDATES {
                let behind = now.saturating_since(at).as_nanos();
                let skipped = behind.checked_div(interval.as_nanos()).unwrap_or(0);
                let skipped = skipped.saturating_mul(interval.as_nanos());
                at += Duration::from_nanos(u64::try_from(skipped).unwrap_or(u64::MAX));
                self.last_delay = self.delay(at);
            }
            let delay = self.delay(at);
            let error = delay.as_secs_f64() - self.parameters.target.as_secs_f64();
            let growth = delay.as_secs_f64() - self.last_delay.as_secs_f64();
            let change = self.parameters.alpha * error + self.parameters.beta * growth;
            self.base_probability = (self.base_probability + change).clamp(0.0, 1.0);
            self.last_delay = delay;
            at += interval;
        }
        self.next_update = Some(at);
    }
}

#[cfg(test)]
#[path = "dual_pi2_tests.rs"]
mod tests;
