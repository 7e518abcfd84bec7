//! Recorded link rates.

mod cellular;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::{Rate, Timestamp};

pub use cellular::Cellular;

/// The size of one delivery opportunity (a line of a trace), in bytes.
const OPPORTUNITY: u64 = 1500;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// A recorded rate, in the format of Mahimahi (Netravali et al., USENIX ATC 2015): each line is a
/// time in milliseconds since the start at which 1500 bytes can be delivered. Times never decrease;
/// the last one is the length of the trace, after which it repeats.
///
/// Time counts from the first datagram that enters the link. An unused delivery opportunity is
/// lost; a datagram may use part of an opportunity, or several in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The times of the delivery opportunities in milliseconds. There is at least one, they never
    /// decrease, and the last one is not zero.
    opportunities: Arc<[u64]>,
}

/// The reason why a string is not a valid trace.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a whole number of milliseconds.
    NotANumber {
        /// The line number, counted from one.
        line: usize,
        /// The content of the line.
        input: String,
    },
    /// A line's time is before the previous line's time.
    GoesBack {
        /// The line number, counted from one.
        line: usize,
        /// The line's time in milliseconds.
        time: u64,
        /// The previous line's time in milliseconds.
        before: u64,
    },
    /// The trace has no lines.
    Empty,
    /// All times are zero, so the trace has no length.
    WithoutLength,
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { line, input } => {
                write!(formatter, "line {line}: {input:?} is not a whole number of milliseconds")
            }
            Self::GoesBack { line, time, before } => {
                write!(
                    formatter,
                    "line {line}: {time} ms is before the previous line's {before} ms"
                )
            }
            Self::Empty => write!(formatter, "the trace has no lines"),
            Self::WithoutLength => write!(formatter, "the trace ends at 0 ms: it has no duration"),
        }
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Parses a trace.
    ///
    /// # Errors
    ///
    /// Returns an error with the line number if `text` is not in Mahimahi's format.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities = Vec::new();
        for (line, input) in (1..).zip(text.lines()) {
            let Ok(time) = input.trim().parse::<u64>() else {
                return Err(TraceError::NotANumber { line, input: input.into() });
            };
            match opportunities.last() {
                Some(&before) if time < before => {
                    return Err(TraceError::GoesBack { line, time, before });
                }
                _ => opportunities.push(time),
            }
        }
        Self::new(opportunities)
    }

    fn new(opportunities: Vec<u64>) -> Result<Self, TraceError> {
        match opportunities.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::WithoutLength),
            Some(_) => Ok(Self { opportunities: opportunities.into() }),
        }
    }

    /// Returns the length of the trace, after which it repeats.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.period())
    }

    /// Returns the mean rate.
    pub fn mean_rate(&self) -> Rate {
        let count = u64::try_from(self.opportunities.len()).unwrap_or(u64::MAX);
        Rate::from_transfer(count.saturating_mul(OPPORTUNITY), self.length()).unwrap_or(Rate::MAX)
    }

    fn period(&self) -> u64 {
        self.opportunities.last().copied().unwrap_or(1)
    }
}

/// Formats the trace in Mahimahi's format.
impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opportunities.iter().try_for_each(|time| writeln!(formatter, "{time}"))
    }
}

/// A trace and the current position in it. Transmissions must be passed to it in order of their
/// start times.
#[derive(Debug)]
pub(crate) struct TraceState {
    trace: Trace,
    /// The number of repetitions of the trace so far, and the index of the next opportunity.
    round: u64,
    index: usize,
    /// The number of unused bytes of the previous opportunity, and the time of that opportunity.
    left: u64,
    left_at: Timestamp,
}

impl TraceState {
    pub(crate) fn new(trace: Trace) -> Self {
        Self { trace, round: 0, index: 0, left: 0, left_at: Timestamp::ORIGIN }
    }

    pub(crate) fn mean_rate(&self) -> Rate {
        self.trace.mean_rate()
    }

    /// Returns the time at which a transmission of `bytes` that starts at `start` ends, given that
    /// the first datagram entered at `first`.
    pub(crate) fn finish(&mut self, start: Timestamp, first: Timestamp, bytes: u64) -> Timestamp {
        if start > self.left_at {
            self.left = 0;
            self.seek(start, first);
        }
        let mut missing = bytes;
        let mut at = start;
        loop {
            let used = missing.min(self.left);
            missing = missing.saturating_sub(used);
            self.left = self.left.saturating_sub(used);
            if missing == 0 || at == Timestamp::FAR_FUTURE {
                return at;
            }
            at = self.next(first);
            self.left = OPPORTUNITY;
            self.left_at = at;
            self.advance();
        }
    }

    /// Returns the time of the next opportunity.
    fn next(&self, first: Timestamp) -> Timestamp {
        let within = self.trace.opportunities.get(self.index).copied().unwrap_or(0);
        let since = self.round.saturating_mul(self.trace.period()).saturating_add(within);
        first + Duration::from_nanos(since.saturating_mul(NANOSECONDS_PER_MILLISECOND))
    }

    fn advance(&mut self) {
        self.index = self.index.saturating_add(1);
        if self.index >= self.trace.opportunities.len() {
            self.index = 0;
            self.round = self.round.saturating_add(1);
        }
    }

    /// Skips all opportunities before `start`.
    fn seek(&mut self, start: Timestamp, first: Timestamp) {
        if self.next(first) >= start {
            return;
        }
        let since = start.saturating_since(first).as_nanos();
        let since = since.div_ceil(u128::from(NANOSECONDS_PER_MILLISECOND));
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let period = self.trace.period();
        // An opportunity at the very end of a round is the last one of that round, not the first
        // one of the next.
        self.round = since.saturating_sub(1).checked_div(period).unwrap_or(0);
        let within = since.saturating_sub(self.round.saturating_mul(period));
        self.index = self.trace.opportunities.partition_point(|time| *time < within);
        if self.index >= self.trace.opportunities.len() {
            self.index = 0;
            self.round = self.round.saturating_add(1);
        }
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
