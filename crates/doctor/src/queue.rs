//! The queue of one socket over time: what fills it, what empties it, and what prevents the reader
//! from emptying it.

use crate::span::seconds;
use crate::{Certainty, RunState};

/// The queue and its reader at one snapshot. Counters are relative to the first sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Time of the sample, in nanoseconds.
    pub(crate) at: u64,
    /// Length of the queue, in charged bytes.
    pub(crate) queue: u64,
    pub(crate) buffer: Option<u64>,
    pub(crate) drops: u64,
    /// Number of datagrams read from the socket, if they were counted for this socket alone.
    pub(crate) reads: Option<u64>,
    pub(crate) reader: Option<Reader>,
}

/// The thread that reads the socket. Times are in nanoseconds, relative to the first sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) state: RunState,
    pub(crate) ran: u64,
    pub(crate) waited: u64,
    pub(crate) throttled: u64,
}

/// The interval between two samples.
#[derive(Clone, Copy)]
struct Interval<'a> {
    from: &'a Sample,
    to: &'a Sample,
}

impl Interval<'_> {
    fn seconds(&self) -> f64 {
        seconds(self.to.at.saturating_sub(self.from.at))
    }

    fn drops(&self) -> u64 {
        self.to.drops.saturating_sub(self.from.drops)
    }

    fn reads(&self) -> Option<u64> {
        Some(self.to.reads?.saturating_sub(self.from.reads?))
    }

    /// Returns for how many seconds the reader was ready to run but did not run, and for how many
    /// of these its cgroup was throttled.
    fn off(&self) -> Option<(f64, f64)> {
        let (from, to) = (self.from.reader?, self.to.reader?);
        let rise = |get: fn(&Reader) -> u64| seconds(get(&to).saturating_sub(get(&from)));
        let (waited, throttled) = (rise(|it| it.waited), rise(|it| it.throttled));
        let most = self.seconds();
        // The kernel counts a wait only when it ends, and a wait may outlast all snapshots.
        let still_waits =
            most >= TICKS && self.is_in(RunState::Runnable) == [true; 2] && self.ran() == Some(0);
        let waited = if still_waits { most } else { waited };
        // Kernels differ in whether a throttled thread counts as waiting, so throttling is not
        // added twice.
        Some((waited.max(throttled).min(most), throttled.min(most)))
    }

    fn is_in(&self, state: RunState) -> [bool; 2] {
        [self.from, self.to].map(|it| it.reader.is_some_and(|reader| reader.state == state))
    }

    fn ran(&self) -> Option<u64> {
        Some(self.to.reader?.ran.saturating_sub(self.from.reader?.ran))
    }
}

/// The kernel updates a thread's running time at each clock tick, which is at least a hundred times
/// a second: after two ticks, it is visible that the thread ran.
const TICKS: f64 = 0.02;

/// Why a socket overflows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Why {
    Rate,
    Burst,
    Stopped,
    Blocked,
    /// Fraction of the time during which the reader waited for a CPU.
    CpuPressure(f64),
    Throttled(f64),
    Unknown,
}

/// Measurements of the socket's queue and reader.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Measured {
    pub(crate) why: Why,
    pub(crate) certainty: Certainty,
    /// Arriving datagrams per second while the socket overflowed.
    pub(crate) arrival_rate: Option<f64>,
    pub(crate) drain_rate: Option<f64>,
    /// Arriving minus read datagrams per second, unless the queue was emptied in between.
    pub(crate) surplus: Option<f64>,
    /// Bytes charged to the receive buffer per datagram.
    pub(crate) charge: Option<f64>,
    /// Size of the receive buffer, in charged bytes.
    pub(crate) buffer: u64,
    /// Maximum number of datagrams dropped in one burst, which ends when the queue is seen less
    /// than half full.
    pub(crate) longest_run: u64,
    /// Number of samples during the overflow with the queue at least half full, and number of those
    /// with the queue less than half full.
    pub(crate) full: u64,
    pub(crate) not_full: u64,
    /// Seconds during the overflow in which the reader was prevented from running.
    pub(crate) off: Option<f64>,
}

/// Minimum number of samples, all with a full queue, that make it certain that the queue was full
/// in between.
const CERTAIN: u64 = 8;

/// Analyzes how a queue changes over time.
pub(crate) fn measure(samples: &[Sample]) -> Measured {
    let all: Vec<Interval<'_>> = samples
        .iter()
        .zip(samples.iter().skip(1))
        .map(|(from, to)| Interval { from, to })
        .collect();
    let buffer = samples.iter().map(|it| it.buffer.unwrap_or(it.queue)).max().unwrap_or(0);
    let loses = |it: &Interval<'_>| it.drops() > 0;
    let first = all.iter().position(loses).unwrap_or(0);
    let last = all.iter().rposition(loses).unwrap_or(0);
    let during = all.get(first..=last).unwrap_or_default();
    let losing: Vec<Interval<'_>> = during.iter().copied().filter(loses).collect();
    // From the first loss to the last one. Before and after, the queue may be in any state.
    let inside: Vec<u64> = during.iter().skip(1).map(|it| it.from.queue).collect();
    let count = |items: usize| u64::try_from(items).unwrap_or(u64::MAX);
    let is_full = |queue: u64| buffer > 0 && queue >= buffer.div_euclid(2);
    let full = count(inside.iter().filter(|queue| is_full(**queue)).count());
    let empty = count(inside.iter().filter(|queue| **queue == 0).count());
    let drain_rate = drain_rate(during);
    let charge = charge(samples);
    let mut measured = Measured {
        why: Why::Unknown,
        certainty: Certainty::Possible,
        arrival_rate: arrival_rate(during, charge),
        drain_rate,
        surplus: surplus(during),
        charge,
        buffer,
        longest_run: longest_run(during, is_full),
        full,
        not_full: count(inside.len()).saturating_sub(full),
        off: off(&losing).map(|(off, _)| off),
    };
    if losing.is_empty() {
        return measured;
    }
    if let Some((why, certainty)) = halted(&losing) {
        return Measured { why, certainty, ..measured };
    }
    let kept_off = KeptOff::new(&losing);
    if kept_off.as_ref().is_some_and(KeptOff::explains_all) {
        let kept_off = kept_off.as_ref();
        let is_certain = kept_off.is_some_and(KeptOff::explains_twice);
        let certainty = if is_certain { Certainty::Certain } else { Certainty::Possible };
        let why = kept_off.map_or(Why::Unknown, KeptOff::why);
        return Measured { why, certainty, ..measured };
    }
    let next = all.get(last.saturating_add(1)).map(|it| it.to.queue);
    let end = during.last().map_or(0, |it| it.to.queue);
    measured.why = match inside.len() {
        // Everything was lost between two samples. A queue that is still full afterward does not
        // indicate a burst.
        0 if is_full(end) && next.is_none_or(is_full) => Why::Rate,
        0 => Why::Burst,
        _ if full == count(inside.len()) => Why::Rate,
        // A reader that takes many datagrams at once leaves the queue short only for a moment, so
        // the queue is never seen empty.
        3.. if empty == 0 => Why::Rate,
        // Even if pauses of the senders let the reader empty the queue, no buffer could have held
        // the datagrams that the reader had no time for.
        3.. if had_time(during) == Some(false) => Why::Rate,
        _ => Why::Burst,
    };
    let is_not_kept_off = kept_off.is_some_and(|it| it.explains_little());
    let is_measured = measured.arrival_rate.is_some() && measured.drain_rate.is_some();
    let is_certain = is_not_kept_off
        && is_measured
        && match measured.why {
            Why::Rate => {
                let is_long = during.len().saturating_mul(2) >= all.len();
                is_long && full >= CERTAIN && measured.not_full == 0
            }
            _ => empty >= CERTAIN && empty.saturating_mul(2) >= count(inside.len()),
        };
    measured.certainty = if is_certain { Certainty::Certain } else { Certainty::Possible };
    measured
}

/// Returns for how many seconds of these intervals the reader was ready to run but did not run, and
/// for how many of these its cgroup was throttled.
fn off(intervals: &[Interval<'_>]) -> Option<(f64, f64)> {
    let follows = |one: &Interval<'_>, next: &Interval<'_>| core::ptr::eq(one.to, next.from);
    intervals.chunk_by(follows).try_fold((0.0, 0.0), |(off, throttled), span| {
        let of_span = off_of_span(span)?;
        Some((off + of_span.0, throttled + of_span.1))
    })
}

/// Like [`off`], for contiguous intervals.
fn off_of_span(span: &[Interval<'_>]) -> Option<(f64, f64)> {
    let (first, last) = (span.first()?, span.last()?);
    let whole = Interval { from: first.from, to: last.to };
    let single = sum_of(span, |it| it.off().map(|(off, _)| off))?;
    let (counted, throttled) = whole.off()?;
    // The kernel counts a wait only when it ends. A thread that always had something to read, was
    // runnable and did not run must have waited.
    let is_ready = span.iter().all(|it| {
        it.is_in(RunState::Runnable) == [true; 2] && it.from.queue > 0 && it.to.queue > 0
    });
    let ran = seconds(whole.ran()?);
    let not_run = if is_ready { (whole.seconds() - ran).max(0.0) } else { 0.0 };
    Some((counted.max(single).max(not_run), throttled))
}

/// Returns whether the reader had enough idle time to read the lost datagrams at the rate of its
/// busy time; `None` if unknown.
fn had_time(during: &[Interval<'_>]) -> Option<bool> {
    let total: f64 = during.iter().map(Interval::seconds).sum();
    let ran = sum_of(during, |it| it.ran().map(seconds))?;
    let (off, _) = off(during)?;
    let reads = sum_of(during, |it| it.reads().map(|reads| reads as f64))?;
    let drops = during.iter().map(Interval::drops).fold(0_u64, u64::saturating_add) as f64;
    let idle = (total - ran - off).max(0.0);
    (ran > 0.0).then(|| reads / ran * idle >= drops)
}

/// Detects a reader that was stopped or blocked while most of the datagrams were lost.
fn halted(losing: &[Interval<'_>]) -> Option<(Why, Certainty)> {
    let drops_of = |which: &dyn Fn(&Interval<'_>) -> bool| {
        let drops = losing.iter().filter(|it| which(it)).map(Interval::drops);
        drops.fold(0_u64, u64::saturating_add)
    };
    let total = drops_of(&|_| true);
    let is_most = |drops: u64| drops > total.div_euclid(2);
    if is_most(drops_of(&|it| it.is_in(RunState::Stopped).contains(&true))) {
        let stood_still =
            losing.iter().any(|it| it.is_in(RunState::Stopped) == [true; 2] && it.ran() == Some(0));
        let certainty = if stood_still { Certainty::Certain } else { Certainty::Possible };
        return Some((Why::Stopped, certainty));
    }
    let is_blocked = |it: &Interval<'_>| it.is_in(RunState::Blocked) == [true; 2];
    is_most(drops_of(&is_blocked)).then_some((Why::Blocked, Certainty::Possible))
}

/// How long the reader was prevented from running, and an estimate of the datagrams that it missed
/// meanwhile.
struct KeptOff {
    seconds: f64,
    off: f64,
    throttled: f64,
    drops: f64,
    /// Estimated number of datagrams that the reader missed while it was prevented from running, at
    /// its usual rate; `None` if the rate is unknown.
    missed: Option<f64>,
}

impl KeptOff {
    /// Returns `None` if nothing is known about the reader's threads. If the reader read nothing,
    /// its rate is unknown.
    fn new(losing: &[Interval<'_>]) -> Option<Self> {
        let (off, throttled) = off(losing)?;
        let seconds = losing.iter().map(Interval::seconds).sum::<f64>();
        let drops = losing.iter().map(Interval::drops).fold(0_u64, u64::saturating_add) as f64;
        let on = seconds - off;
        let reads = sum_of(losing, |it| it.reads().map(|reads| reads as f64));
        let missed = reads
            .filter(|reads| *reads > 0.0)
            .map(|reads| if on > 0.0 { reads / on * off } else { f64::INFINITY });
        Some(Self { seconds, off, throttled, drops, missed })
    }

    /// Returns whether the reader could have read all lost datagrams in the time in which it was
    /// prevented from running. If this socket's reads are unknown, it is sufficient that this was
    /// most of the time.
    fn explains_all(&self) -> bool {
        match self.missed {
            Some(missed) => self.off > 0.0 && missed >= self.drops,
            None => self.off > self.seconds / 2.0,
        }
    }

    /// Returns whether the reader could have read twice the number of lost datagrams in the time in
    /// which it was prevented from running.
    fn explains_twice(&self) -> bool {
        self.missed.is_some_and(|missed| missed >= 2.0 * self.drops)
    }

    /// Returns whether at least half of the lost datagrams would have been lost even if the reader
    /// had been able to run.
    fn explains_little(&self) -> bool {
        self.missed.is_some_and(|missed| 2.0 * missed <= self.drops)
    }

    fn why(&self) -> Why {
        let part = |of: f64| if self.seconds > 0.0 { (of / self.seconds).min(1.0) } else { 0.0 };
        match self.throttled > self.off / 2.0 {
            true => Why::Throttled(part(self.throttled)),
            false => Why::CpuPressure(part(self.off)),
        }
    }
}

/// Returns the sum of a value over all intervals; `None` if it is missing in one.
fn sum_of(intervals: &[Interval<'_>], get: impl Fn(&Interval<'_>) -> Option<f64>) -> Option<f64> {
    intervals.iter().try_fold(0.0, |sum, it| Some(sum + get(it)?))
}

fn arrival_rate(during: &[Interval<'_>], charge: Option<f64>) -> Option<f64> {
    let seconds: f64 = during.iter().map(Interval::seconds).sum();
    let reads = sum_of(during, |it| it.reads().map(|reads| reads as f64))?;
    let drops = during.iter().map(Interval::drops).fold(0_u64, u64::saturating_add) as f64;
    // Datagrams by which the queue has grown have arrived, too.
    let (from, to) = (during.first()?.from.queue as f64, during.last()?.to.queue as f64);
    let queued = charge.map_or(0.0, |charge| (to - from) / charge);
    (seconds > 0.0).then(|| ((reads + drops + queued) / seconds).max(0.0))
}

/// Returns the drops per second, if the queue was never seen empty between the losses: the rate is
/// then the excess of arriving over read datagrams, regardless of who else reads.
fn surplus(during: &[Interval<'_>]) -> Option<f64> {
    let is_emptied = during.iter().skip(1).any(|it| it.from.queue == 0);
    let seconds: f64 = during.iter().map(Interval::seconds).sum();
    let drops = during.iter().map(Interval::drops).fold(0_u64, u64::saturating_add);
    (!is_emptied && seconds > 0.0 && drops > 0).then(|| drops as f64 / seconds)
}

/// Returns how fast the queue was emptied while it was not empty: the rate in intervals with a
/// nonempty queue at both ends, or, if there are none, in intervals with an overflow.
fn drain_rate(during: &[Interval<'_>]) -> Option<f64> {
    let is_backlogged = |it: &Interval<'_>| it.from.queue > 0 && it.to.queue > 0;
    let backlogged: Vec<_> = during.iter().copied().filter(is_backlogged).collect();
    let chosen = if backlogged.is_empty() { during } else { &backlogged };
    let seconds: f64 = chosen.iter().map(Interval::seconds).sum();
    let reads = sum_of(chosen, |it| it.reads().map(|reads| reads as f64))?;
    (seconds > 0.0).then(|| reads / seconds)
}

/// Returns the maximum number of datagrams dropped in one burst, where a burst ends when the queue
/// is seen less than half full.
fn longest_run(during: &[Interval<'_>], is_full: impl Fn(u64) -> bool) -> u64 {
    let (mut longest, mut run) = (0_u64, 0_u64);
    for interval in during {
        if !is_full(interval.from.queue) {
            run = 0;
        }
        run = run.saturating_add(interval.drops());
        longest = longest.max(run);
    }
    longest
}

/// Minimum number of bytes charged for a datagram: the kernel's two structures for it, on any
/// 64-bit machine.
const LEAST_CHARGE: u64 = 512;

/// Returns the bytes charged per datagram, if the charge is the same for all datagrams: every queue
/// length is then a multiple of it. In nine of ten cases, four different lengths have no larger
/// common divisor by chance.
fn charge(samples: &[Sample]) -> Option<f64> {
    let lengths: std::collections::BTreeSet<u64> =
        samples.iter().map(|it| it.queue).filter(|queue| *queue > 0).collect();
    let divisor = lengths.iter().copied().fold(0, common_divisor);
    (lengths.len() >= 4 && divisor >= LEAST_CHARGE).then_some(divisor as f64)
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one.checked_rem(other).unwrap_or(0));
    }
    one
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
