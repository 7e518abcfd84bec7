//! States that differ only in when they came about are one state.
//!
//! A state is told by the `Debug` text of its parts, which is hashed as it is written. Every absolute number in it is made
//! relative first:
//!
//! - times to now. They and durations are told apart by how often they can be halved before they are shorter than half a
//!   round trip;
//! - send indices to the next one. What was sent before all that is outstanding is the same index: whoever compares
//!   it with an index from now on gets the same answer. So it is with bytes delivered ([`Unit::Delivered`]);
//! - rounds to the current one, and no more than three of them are counted;
//! - sizes in halves of a datagram, rates in halves of a datagram a tick, other fractions in tenths.
//!
//! [`unit`] is the list of fields that are told apart in another way, or not at all, each with its reason. A field that
//! is not in it is told apart, so that one which is new, or has another name, costs time and hides nothing.
//!
//! Where that takes two states for one that are not, the second is not looked into. What is reported is always seen
//! in a real history.

use core::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hasher};

use clearway_congestion::Controller;

use super::rules::Books;
use super::sender::{ROUND_TRIP, SIZE, Sender, TICK};
use super::text::{Text, Value};

/// Times shorter than this are none, in nanoseconds: half a round trip.
const MOMENT: u64 = ROUND_TRIP.as_nanos() as u64 / 2;

/// What stands for all states that are the same but for the time.
pub(super) fn canonical<C: Controller>(sender: &Sender<C>, books: &Books, is_rated: bool) -> u64 {
    let mut form = Form::new(Origin::of(sender));
    form.sender(sender, is_rated);
    form.write(&sender.limitation);
    form.write(&sender.pacer);
    form.write(&sender.controller);
    form.write(books);
    form.hasher.finish()
}

/// What absolute numbers are counted from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    now: u64,
    next_index: u64,
    /// How many packets are outstanding, the last ones before `next_index`.
    outstanding: u64,
    round: u64,
    delivered: u64,
    /// What was delivered when the oldest outstanding packet was sent.
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

/// How the numbers of a field are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// By what the number is: see the top of this file.
    Standard,
    /// Not at all, and nothing below it.
    LeftOut,
    /// As every other number, whatever its size.
    Whole,
    /// Bytes delivered so far: whether packets sent from now on, or still outstanding, were sent before that.
    Delivered,
    /// Bytes lost so far.
    Lost,
    /// A round of the sender's.
    Round,
    /// The round that a controller is in, by its own count.
    OwnRound,
    /// A round by that count.
    SinceOwnRound,
    /// A fraction, in halves.
    Halves,
    /// Units of 10^-9 bytes, in datagrams.
    Level,
}

/// How `field` of `structure` is told apart.
fn unit(structure: &str, field: &str) -> Unit {
    use Unit::*;
    match (structure, field) {
        // They never change here.
        (_, "parameters" | "max_datagram_size") => LeftOut,
        // Which random numbers come next.
        ("Bbr", "random") => LeftOut,
        // Counters and what observers are told decide nothing.
        (_, "congestion_events" | "undone_events" | "suppressors") => LeftOut,
        // No loss is spurious here, so nothing is taken back.
        (_, "before_cut") | ("Bbr", "undo") => LeftOut,
        // Growth of less than a byte.
        (_, "carry") => LeftOut,
        // What follows from the controller's rate when the pacer is asked next.
        ("Pacer", "rate" | "capacity") => LeftOut,
        ("Pacer", "level") => Level,
        ("Limitation", "limited_round" | "window_limited_round") => Round,
        ("Rounds", "count") => OwnRound,
        ("Rounds", "ends_at") | ("Latest", "round_ends_at") | ("ProbeRtt", "marked") => Delivered,
        ("DeliverySnapshot" | "DeliveryRateSampler", "delivered" | "application_limited_until") => {
            Delivered
        }
        ("DeliverySnapshot" | "DeliveryRateSampler", "lost") => Lost,
        ("Cycle", "drain_began_in") => SinceOwnRound,
        // A random time.
        ("Cycle", "wait") => LeftOut,
        // CUBIC's curve begins where the window was cut to, and ends where it was: that is told apart.
        ("Curve", "datagram" | "w_max" | "k") | ("Aim", "gap") => LeftOut,
        ("Curve", "time") => Halves,
        ("Curve", "estimate") => Halves,
        // How long each of them still counts; the greatest is told apart.
        ("Aggregation", "excess") => LeftOut,
        _ => Standard,
    }
}

/// A hash that grows while a text is written.
struct Form {
    hasher: DefaultHasher,
    origin: Origin,
    text: Text<Unit>,
    own_round: u64,
}

impl Form {
    fn new(origin: Origin) -> Self {
        Self {
            hasher: DefaultHasher::new(),
            origin,
            text: Text::new(unit, Unit::Standard, Unit::LeftOut),
            own_round: 0,
        }
    }

    fn number(&mut self, number: i64) {
        self.hasher.write_i64(number);
    }

    fn write(&mut self, part: &impl Debug) {
        // Writing to a hash does not fail.
        let _ = write!(self, "{part:?},");
    }

    /// What is known of a sender without a text.
    fn sender<C: Controller>(&mut self, sender: &Sender<C>, is_rated: bool) {
        let outstanding = &sender.outstanding;
        // Classes that grow with the number: what is left of a burst counts when it runs out.
        self.number(i64::from(sender.waiting.next_power_of_two() + u32::from(sender.waiting == 0)));
        self.number(outstanding.len() as i64);
        // An acknowledgement is of the older half, or of all.
        let newest = outstanding.len().checked_sub(1);
        let middle = outstanding.len().div_ceil(2).checked_sub(1);
        for packet in [middle, newest].into_iter().flatten().filter_map(|at| outstanding.get(at)) {
            self.time(packet.sent_at.as_nanos());
        }
        self.index(sender.round_began_at.0);
        if let Some(rtt) = sender.rtt {
            // The newest sample comes with the event; the deviation is no controller's business.
            self.duration(rtt.smoothed.as_nanos() as u64);
            self.duration(rtt.minimum.as_nanos() as u64);
        }
        if is_rated {
            self.write(&sender.sampler);
            for packet in outstanding {
                self.write(&packet.delivery);
            }
        }
    }

    fn time(&mut self, nanoseconds: u64) {
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

    fn value(&mut self, unit: Unit, value: Value<'_>) {
        match (unit, value) {
            (Unit::LeftOut, _) => {}
            (_, Value::Word(word)) => self.hasher.write(word.as_bytes()),
            (_, Value::Wrapped("Timestamp" | "ReleaseTime", number)) => self.time(number),
            (_, Value::Wrapped("SendIndex", number)) => self.index(number),
            (_, Value::Wrapped("Rate", number)) => {
                let in_tick = u128::from(number) * TICK.as_nanos() / 1_000_000_000;
                self.bytes(in_tick as u64);
            }
            (_, Value::Duration(nanoseconds)) => self.duration(nanoseconds),
            (Unit::Halves, Value::Tenths(tenths)) => self.number((tenths / 5) as i64),
            (_, Value::Tenths(tenths)) => self.number(tenths as i64),
            (unit, Value::Wrapped(_, number) | Value::Number(number)) => self.plain(unit, number),
        }
    }

    fn plain(&mut self, unit: Unit, number: u64) {
        let origin = self.origin;
        match unit {
            Unit::Delivered => {
                let behind = origin.delivered.saturating_sub(number.max(origin.oldest_delivered));
                self.bytes(behind);
            }
            Unit::Lost => self.bytes(origin.lost.saturating_sub(number)),
            Unit::Round => self.number(origin.round.saturating_sub(number).min(3) as i64),
            Unit::OwnRound => self.own_round = number,
            Unit::SinceOwnRound => self.number(self.own_round.saturating_sub(number).min(9) as i64),
            Unit::Level => self.number((number / 1_000_000_000 / SIZE) as i64),
            Unit::Standard if number >= SIZE => self.bytes(number),
            _ => self.number(number as i64),
        }
    }
}

/// Numbers of a class are less than twice the smallest of them.
fn class(number: u64) -> i64 {
    number.checked_ilog2().map_or(0, |doublings| i64::from(doublings) + 1)
}

impl Write for Form {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let mut rest = piece;
        while !rest.is_empty() {
            let (value, after) = self.text.take(rest);
            rest = after;
            if let Some((unit, value)) = value {
                self.value(unit, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
