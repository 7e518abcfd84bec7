//! Treats states that differ only in the time at which they were reached as one state.
//!
//! A state is identified by a hash of the values that its parts report ([`Inspect`]).
//! [`Form::value`] defines what a value's variant and name mean here. [`unit()`] lists the names
//! that are treated specially or left out, each with its reason. A value with any other name
//! distinguishes states, so a new or renamed one costs time but hides nothing.
//!
//! # Reductions that lose nothing
//!
//! - Absolute numbers are made relative: times to now, send indices to the next one, rounds to the current one, bytes
//!   delivered or lost to the totals so far. All indices before every outstanding packet are the same: any later
//!   comparison with them has the same result.
//! - Values that no longer affect anything are left out: a slow start threshold, a W_max and a
//!   cwnd_prior that the window has exceeded; more samples than HyStart++ requires; a CUBIC curve
//!   so high that every explored window grows as fast as it may.
//! - Parameters, counters for observers, and the state that an undo would restore are not reported
//!   by any part: no loss is spurious here.
//!
//! # Abstractions
//!
//! These merge states that may develop differently. The one that was reached first is explored, by
//! the shortest history; the consequences of the others may be missed. Every reported fault
//! occurred in a real history.
//!
//! - Times and durations are distinguished by how often they can be halved before they are shorter than half a round trip,
//!   the smoothed round-trip time among them; the time on CUBIC's curve in half seconds.
//! - Sizes, and CUBIC's estimate, are counted in halves of a datagram, rates in halves of a datagram per tick, the pacer's
//!   level in datagrams, growth of less than a byte not at all; rounds that were limited up to three, BBR's rounds of Drain
//!   up to nine.
//! - For a waiting burst, only whether nothing, less than a window or more is left is
//!   distinguished.
//! - For the outstanding packets, the send times of the newest and of the middle one are
//!   distinguished.
//! - BBR: the random wait for the next probe, the numbers that are drawn later, and how long each excess of aggregation
//!   still counts are left out (the greatest excess is distinguished).

use clearway_congestion::{Controller, Inspect, StateValue};
use clearway_units::Timestamp;

use super::hashing::Folded;
use super::rules::LastReduction;
use super::sender::{ROUND_TRIP, SIZE, Sender, TICK};

/// The duration below which times count as zero, in nanoseconds: half a round trip.
const MOMENT: u64 = ROUND_TRIP.as_nanos() as u64 / 2;
/// C (RFC 9438 §5), in datagrams per second cubed.
const CURVE: f64 = 0.4;
/// The height of a curve, in datagrams, from which on it is out of reach for every explored window:
/// whatever the time, a window grows by half of the acknowledged bytes.
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

/// The origins of absolute numbers.
#[derive(Clone, Copy, Debug)]
struct Origin {
    now: u64,
    next_index: u64,
    /// The number of outstanding packets, the last ones before `next_index`.
    outstanding: u64,
    round: u64,
    delivered: u64,
    /// The bytes delivered when the oldest outstanding packet was sent.
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
    /// According to its variant: see the top of this file.
    Standard,
    /// The value is left out.
    LeftOut,
    /// The controller's current round, by its own count.
    OwnRound,
    /// A round by that count.
    SinceOwnRound,
    /// Units of 10^-9 bytes, in datagrams.
    Level,
    /// The number of delivered bytes until which the sender counts as application-limited; zero if
    /// it does not.
    Until,
    /// The number of samples that HyStart++ has.
    Samples,
    /// The window, in bytes.
    Window,
    /// Bytes that matter as long as the window is smaller.
    BeyondWindow,
    /// CUBIC's cwnd_prior, in bytes, which determines when the estimate grows faster.
    Prior,
    /// W_max of CUBIC's curve, in datagrams.
    CurveEnd,
    /// K of CUBIC's curve, in seconds.
    CurveLength,
    /// The time on CUBIC's curve, in seconds.
    CurveTime,
    /// W_est, in datagrams.
    Estimate,
}

/// Returns how the value with this name distinguishes states.
fn unit(name: &str) -> Unit {
    use Unit::*;
    match name {
        // Growth of less than a byte.
        "carry" => LeftOut,
        // These follow from the controller's rate when the pacer is next used.
        "pacer_rate" | "pacer_capacity" => LeftOut,
        "pacer_level" => Level,
        "round_count" => OwnRound,
        "drain_start_round" => SinceOwnRound,
        "application_limited_until" => Until,
        "hystart_samples" => Samples,
        "window" => Window,
        // Until the next reduction, which sets them again, a window only grows. Values that it has
        // exceeded do not matter.
        "slow_start_threshold" | "w_max" | "aim" => BeyondWindow,
        "cwnd_prior" => Prior,
        // A random time.
        "bw_probe_wait" => LeftOut,
        "curve_w_max" => CurveEnd,
        "curve_k" => CurveLength,
        "curve_time" => CurveTime,
        "w_est" => Estimate,
        // How long each of them still counts. The greatest is distinguished.
        "excess" | "excess_round" => LeftOut,
        _ => Standard,
    }
}

/// A hash that is extended with each part of a state.
struct Form {
    hash: Folded,
    origin: Origin,
    /// Values of the current part that later values of it depend on.
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

    /// Adds the state of a sender outside its parts.
    fn sender<C: Controller>(&mut self, sender: &Sender<C>, is_rated: bool) {
        let outstanding = &sender.outstanding;
        self.number(waiting(sender));
        self.number(outstanding.len() as i64);
        // An acknowledgment covers the older half, or all.
        let newest = outstanding.len().checked_sub(1);
        let middle = outstanding.len().div_ceil(2).checked_sub(1);
        for packet in [middle, newest].into_iter().flatten().filter_map(|at| outstanding.get(at)) {
            self.time(packet.sent_at);
        }
        self.index(sender.round_began_at.0);
        if let Some(rtt) = sender.rtt {
            // The newest sample comes with the event, and controllers do not use the deviation.
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
            // Whether packets sent from now on, or still outstanding, were sent before that.
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
                // Once it is reached, it stays.
                self.halves(if number >= prior { 0.0 } else { prior });
            }
            _ => self.number((number * 10.0) as i64),
        }
    }

    /// Adds CUBIC's curve, `time` seconds after it is back at its end.
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

/// Returns what is left of a burst: nothing, less than a window, or more.
fn waiting<C: Controller>(sender: &Sender<C>) -> i64 {
    let window = sender.controller.window() / SIZE;
    i64::from(sender.waiting > 0) + i64::from(u64::from(sender.waiting) >= window)
}

/// Returns the class of a number. Numbers of a class are less than twice the smallest of them.
fn class(number: u64) -> i64 {
    number.checked_ilog2().map_or(0, |doublings| i64::from(doublings) + 1)
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
