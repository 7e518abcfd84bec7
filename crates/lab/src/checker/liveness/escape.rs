//! L2: from any state, the sender uses 90 % of a clean path within a bounded time.
//!
//! Checked where the capacity is known: a single flow on a bottleneck of constant rate. The limit
//! applies from the first clean round in which data waits. It is 8 rounds of slow start plus
//! log2(min(threshold, BDP) / window), and after that one round for each datagram up to the
//! bandwidth-delay product (Reno; twice as many for CUBIC, whose W_est grows by about half a
//! datagram per round trip). Other controllers are allowed two probe cycles, plus three rounds for
//! each doubling. A loss restarts the count, because the path was not clean.

use core::time::Duration;

use clearway_units::Rate;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report, Round};
use crate::checker::rule::{Rule, Verdict};

/// The number of rounds over which throughput is measured.
const MEASURED: u64 = 8;

#[derive(Debug, Default)]
pub(in crate::checker) struct Escape {
    stretch: Option<Stretch>,
}

/// A series of consecutive clean rounds in which data waited.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    rounds: u64,
    time: Duration,
    bound: u64,
    acked: u64,
    over: Duration,
    measured: u64,
}

impl Rule for Escape {
    const PROPERTY: Property = Property::L2;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let path = &records.config.path;
        // If acknowledgments are queued or lost, the reverse path is the bottleneck.
        let is_known = path.is_steady && path.is_alone && path.returns_at_once;
        let Some(rate) = path.bottleneck.filter(|_| is_known) else {
            return Ok(());
        };
        let Some(round) = &report.round else { return Ok(()) };
        if !round.is_clean_and_held() {
            self.stretch = None;
            return Ok(());
        }
        let threshold = report.after.congestion.slow_start_threshold;
        let stretch =
            self.stretch.get_or_insert_with(|| Stretch::new(records, round, rate, threshold));
        stretch.add(round);
        let is_due = stretch.rounds > stretch.bound
            && records.config.kind.escape_time().is_none_or(|least| stretch.time > least);
        if !is_due || stretch.measured < MEASURED {
            return Ok(());
        }
        let expected = rate.bytes_in(stretch.over) * 9 / 10;
        let acked = core::mem::take(&mut stretch.acked);
        let over = core::mem::take(&mut stretch.over);
        stretch.measured = 0;
        if acked < expected {
            return Err(format!(
                "{acked} bytes were acknowledged in {over:?}, after {} clean rounds of at most {}; 90 % of \
                 the bottleneck's rate is {expected}",
                stretch.rounds, stretch.bound
            ));
        }
        Ok(())
    }

    fn on_path(&mut self, _records: &EndpointRecords) {
        self.stretch = None;
    }
}

impl Stretch {
    fn new(records: &EndpointRecords, round: &Round, rate: Rate, threshold: Option<u64>) -> Self {
        let window = round.window_before.max(1);
        let product = rate.bytes_in(records.config.path.round_trip).max(records.floor());
        let knee = threshold.unwrap_or(product).min(product).max(window);
        let doublings = u64::from((knee / window).ilog2()) + 1;
        let linear = product.saturating_sub(knee) / records.datagram();
        // In conservative slow start, the window grows at a quarter of slow start's rate for five
        // rounds.
        let bound = records.config.kind.escape_rounds(doublings, linear) + 8;
        Self { rounds: 0, time: Duration::ZERO, bound, acked: 0, over: Duration::ZERO, measured: 0 }
    }

    fn add(&mut self, round: &Round) {
        let length = round.ended.saturating_since(round.began);
        self.rounds += 1;
        self.time += length;
        self.acked += round.acked;
        self.over += length;
        self.measured += 1;
        if self.rounds <= self.bound {
            (self.acked, self.over, self.measured) = (0, Duration::ZERO, 0);
        }
    }
}
