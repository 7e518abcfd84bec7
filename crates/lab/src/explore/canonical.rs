//! Treats states that differ only in the time at which they were reached as one state.
//!
//! A state is identified by a hash of the values that its parts report ([`Inspect`]).
//! [`Form::value`] defines what a value's variant and name mean here. [`unit()`] lists the names
//! that are treated specially or left out, each with its reason. Values with any other name
//! distinguish states, so a new or renamed value costs time but hides nothing.
//!
//! # Reductions that lose nothing
//!
//! - Absolute numbers are made relative: times to now, send indices to the next one, rounds to the
//!   current one, bytes delivered or lost to the totals so far. All indices before the first
//!   outstanding packet are treated as equal, because any later comparison with them has the same
//!   result.
//! - Values that no longer affect anything are left out: a slow start threshold, a W_max and a
//!   cwnd_prior that the window has exceeded; more samples than HyStart++ requires; and a CUBIC
//!   curve so high that every explored window grows at the maximum rate.
//! - Parameters, counters for observers, and the state that an undo would restore are not reported
//!   by any part, because no loss is spurious in this search.
//!
//! # Abstractions
//!
//! The following rules merge states that may develop differently. Only the state that was reached
//! first, by the shortest sequence of moves, is explored; the consequences of the others may be
//! missed. Every reported fault occurred in a real sequence of moves.
//!
//! - Times and durations, including the smoothed RTT, are distinguished by how often they can be
//!   halved before they are shorter than half a round trip. The time on CUBIC's curve is counted in
//!   half seconds.
//! - Sizes and CUBIC's estimate are counted in half datagrams, rates in half datagrams per tick,
//!   and the pacer's level in datagrams. Growth of less than a byte is ignored. Limited rounds are
//!   counted up to three, and BBR's Drain rounds up to nine.
//! - For a waiting burst, only three cases are distinguished: nothing is left, less than a window
//!   is left, or more.
//! - For the outstanding packets, only the send times of the newest and the middle packet are
//!   distinguished.
//! - For BBR, the following is left out: the random wait until the next probe, random numbers drawn
//!   later, and how long each excess due to ACK aggregation remains valid. The greatest excess is
//!   distinguished.

use clearway_congestion::{Controller, Inspect, StateValue};
use clearway_units::Timestamp;

use super::hashing::Folded;
use super::rules::LastReduction;
use super::sender::{ROUND_TRIP, SIZE, Sender, TICK};

/// The duration below which times count as zero, in nanoseconds; half a round trip.
const MOMENT: u64 = ROUND_TRIP.as_nanos() as u64 / 2;
/// C (RFC 9438 §5), in datagrams per second cubed.
const CURVE: f64 = 0.4;
/// The height of a CUBIC curve, in datagrams, beyond the reach of every explored window. Regardless
/// of the time, a window then grows by half of the acknowledged bytes.
const OUT_OF_REACH: f64 = 40.0;
/// The number of samples that HyStart++ needs in a round (RFC 9406 §4.3).
const SAMPLES: u64 = 8;

/// Returns a hash that is the same for all states that differ only in time.
pub(super) fn canonical<C: Controller + Inspect>(
    sender: &Sender<C>,
    reduction: &LastReduction,
    is_rated: bool,
) -> u64 {
    let mut form = Form::new(Origin::of(sender));
    form.sender(sender, is_rated);
    form.inspect(&sender.limitation);
    form.inspect(&sender.pacer);
    form.inspect(&sender.controller);
    form.inspect(reduction);
    form.hash.finish()
}

/// The reference points for absolute numbers.
#[derive(Clone, Copy, Debug)]
struct Origin {
    now: u64,
    next_index: u64,
    /// The number of outstanding packets, which are the last ones before `next_index`.
    outstanding: u64,
    round: u64,
    delivered: u64,
    /// The number of bytes delivered when the oldest outstanding packet was sent.
    oldest_delivered: u64,
    lost: u64,
}

impl Origin {
    fn of<C: Controller>(sender: &Sender<C>) -> Self {
        let delivered = sender.sampler.delivered();
        let oldest = sender.outstanding.front();
        Self {
            now: sender.now.as_nanos(),
            next_index: sender.next_index.0,
            outstanding: sender.outstanding.len() as u64,
            round: sender.round,
            delivered,
            oldest_delivered: oldest.map_or(delivered, |packet| packet.delivery.delivered),
            lost: sender.sampler.lost(),
        }
    }
}

/// The way in which a value distinguishes states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// The value is distinguished according to its variant: see the top of this file.
    Standard,
    /// The value is left out.
    LeftOut,
    /// The controller's current round, by the controller's own count.
    OwnRound,
    /// A round, by the controller's own count.
    SinceOwnRound,
    /// A level in units of 10^-9 bytes, counted in datagrams.
    Level,
    /// The number of delivered bytes until which the sender counts as application-limited; zero if
    /// it is not.
    Until,
    /// The number of samples that HyStart++ has collected.
    Samples,
    /// The window, in bytes.
    Window,
    /// Bytes that matter only while the window is smaller.
    BeyondWindow,
    /// CUBIC's cwnd_prior, in bytes, which determines when the estimate grows faster.
    Prior,
    /// W_max, the end of CUBIC's curve, in datagrams.
    CurveEnd,
    /// K, the length of CUBIC's curve, in seconds.
    CurveLength,
    /// The time on CUBIC's curve, in seconds.
    CurveTime,
    /// CUBIC's W_est, in datagrams.
    Estimate,
}

/// Returns how the value with this name distinguishes states.
fn unit(name: &str) -> Unit {
    use Unit::*;
    match name {
        // Growth of less than a byte is left out.
        "carry" => LeftOut,
        // These values follow from the controller's rate when the pacer is next used.
        "pacer_rate" | "pacer_capacity" => LeftOut,
        "pacer_level" => Level,
        "round_count" => OwnRound,
        "drain_start_round" => SinceOwnRound,
        "application_limited_until" => Until,
        "hystart_samples" => Samples,
        "window" => Window,
        // Until the next reduction, which sets these values again, a window only grows. Values that
        // it has exceeded no longer matter.
        "slow_start_threshold" | "w_max" | "aim" => BeyondWindow,
        "cwnd_prior" => Prior,
        // The time is random.
        "bw_probe_wait" => LeftOut,
        "curve_w_max" => CurveEnd,
        "curve_k" => CurveLength,
        "curve_time" => CurveTime,
        "w_est" => Estimate,
        // How long each excess remains valid is left out. The greatest excess is distinguished.
        "excess" | "excess_round" => LeftOut,
        _ => Standard,
    }
}

/// A hash that is extended with each part of a state.
struct Form {
    hash: Folded,
    origin: Origin,
    /// Values of the current part on which its later values depend.
    own: Own,
}

#[derive(Clone, Copy, Default)]
struct Own {
    round: u64,
    window: u64,
    prior: u64,
    curve_end: f64,
    curve_length: f64,
}

impl Form {
    fn new(origin: Origin) -> Self {
        Self { hash: Folded::new(), origin, own: Own::default() }
    }

    fn number(&mut self, number: i64) {
        self.hash.number(number.cast_unsigned());
    }

    fn inspect(&mut self, part: &impl Inspect) {
        part.inspect(&mut |name, value| self.value(unit(name), value));
    }

    /// Adds the sender's own state, in addition to the state that its parts report.
    fn sender<C: Controller>(&mut self, sender: &Sender<C>, is_rated: bool) {
        let outstanding = &sender.outstanding;
        self.number(waiting(sender));
        self.number(outstanding.len() as i64);
        // An acknowledgment covers either the older half of the outstanding packets or all of them.
        let newest = outstanding.len().checked_sub(1);
        let middle = outstanding.len().div_ceil(2).checked_sub(1);
        for packet in [middle, newest].into_iter().flatten().filter_map(|at| outstanding.get(at)) {
            self.time(packet.sent_at);
        }
        self.index(sender.round_began_at.0);
        if let Some(rtt) = sender.rtt {
            // The newest sample comes with the event, and controllers do not use the RTT variation.
            self.duration(rtt.smoothed.as_nanos() as u64);
            self.duration(rtt.minimum.as_nanos() as u64);
        }
        if is_rated {
            self.inspect(&sender.sampler);
            for packet in outstanding {
                self.inspect(&packet.delivery);
            }
        }
    }

    fn time(&mut self, time: Timestamp) {
        self.nanoseconds(time.as_nanos());
    }

    fn nanoseconds(&mut self, nanoseconds: u64) {
        let now = self.origin.now;
        let class = class(now.abs_diff(nanoseconds) / MOMENT);
        self.number(if nanoseconds > now { -class } else { class });
    }

    fn duration(&mut self, nanoseconds: u64) {
        self.number(class(nanoseconds / MOMENT));
    }

    fn index(&mut self, index: u64) {
        let behind = self.origin.next_index.saturating_sub(index);
        self.number(behind.min(self.origin.outstanding) as i64);
    }

    fn bytes(&mut self, bytes: u64) {
        self.number((bytes / (SIZE / 2)) as i64);
    }

    fn value(&mut self, unit: Unit, value: StateValue) {
        let origin = self.origin;
        match value {
            _ if unit == Unit::LeftOut => {}
            StateValue::Absent => self.hash.word("absent"),
            StateValue::Flag(holds) => self.number(i64::from(holds)),
            StateValue::Word(word) => self.hash.word(word),
            StateValue::Time(time) => self.time(time),
            StateValue::Duration(duration) => self.duration(duration.as_nanos() as u64),
            StateValue::Index(index) => self.index(index.0),
            StateValue::Rate(rate) => self.bytes(rate.bytes_in(TICK)),
            StateValue::Fraction(number) => self.fraction(unit, number),
            // Whether packets that are outstanding or will be sent later were sent before that
            // point.
            StateValue::Delivered(number) => {
                let behind = origin.delivered.saturating_sub(number.max(origin.oldest_delivered));
                self.bytes(behind);
            }
            StateValue::Lost(number) => self.bytes(origin.lost.saturating_sub(number)),
            StateValue::Round(number) => {
                self.number(origin.round.saturating_sub(number).min(3) as i64);
            }
            StateValue::Count(number) | StateValue::Bytes(number) => self.plain(unit, number),
        }
    }

    fn fraction(&mut self, unit: Unit, number: f64) {
        match unit {
            Unit::CurveEnd => self.own.curve_end = number,
            Unit::CurveLength => self.own.curve_length = number,
            Unit::CurveTime => self.curve(number - self.own.curve_length),
            Unit::Estimate => {
                self.halves(number);
                let prior = self.own.prior as f64 / SIZE as f64;
                // Once the window has reached this value, the effect is permanent.
                self.halves(if number >= prior { 0.0 } else { prior });
            }
            _ => self.number((number * 10.0) as i64),
        }
    }

    /// Adds CUBIC's curve `time` seconds after K, the time at which the curve reaches W_max.
    fn curve(&mut self, time: f64) {
        if CURVE * time * time * time + self.own.curve_end >= OUT_OF_REACH {
            return self.number(i64::MAX);
        }
        self.halves(time);
        self.halves(self.own.curve_end);
    }

    fn halves(&mut self, number: f64) {
        self.number((number * 2.0).floor() as i64);
    }

    fn plain(&mut self, unit: Unit, number: u64) {
        let origin = self.origin;
        match unit {
            Unit::Until => {
                self.number(i64::from(number > 0));
                self.bytes(number.saturating_sub(origin.delivered));
            }
            Unit::OwnRound => self.own.round = number,
            Unit::SinceOwnRound => {
                self.number(self.own.round.saturating_sub(number).min(9) as i64);
            }
            Unit::Level => self.number((number / 1_000_000_000 / SIZE) as i64),
            Unit::Samples => self.number(number.min(SAMPLES) as i64),
            Unit::Window => {
                self.own.window = number;
                self.bytes(number);
            }
            Unit::BeyondWindow => {
                self.bytes(if number <= self.own.window { 0 } else { number });
            }
            Unit::Prior => self.own.prior = number,
            _ if number >= SIZE => self.bytes(number),
            _ => self.number(number as i64),
        }
    }
}

/// Returns how much of a burst is left: nothing, less than a window, or more.
fn waiting<C: Controller>(sender: &Sender<C>) -> i64 {
    let window = sender.controller.window() / SIZE;
    i64::from(sender.waiting > 0) + i64::from(u64::from(sender.waiting) >= window)
}

/// Returns the size class of a number. All numbers in a class are less than twice the smallest one.
fn class(number: u64) -> i64 {
    number.checked_ilog2().map_or(0, |doublings| i64::from(doublings) + 1)
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
