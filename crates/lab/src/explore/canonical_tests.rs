use clearway_congestion::{Bbr, Cubic, Reno, SendIndex, Visit};
use clearway_units::{Rate, Timestamp};

use super::*;
use crate::explore::moves::Move;

/// A part of a sender that reports the given values.
struct Values<'a>(&'a [(&'static str, StateValue)]);

impl Inspect for Values<'_> {
    fn inspect(&self, visit: &mut Visit<'_>) {
        self.0.iter().for_each(|(name, value)| visit(name, *value));
    }
}

fn origin(later: u64) -> Origin {
    Origin {
        now: 5_000_000_000 + later * (40 * MOMENT),
        next_index: 70 + later,
        outstanding: 12,
        round: 9 + later,
        delivered: 24_000 + later * SIZE,
        oldest_delivered: 20_000 + later * SIZE,
        lost: later * SIZE,
    }
}

fn form(values: &[(&'static str, StateValue)], origin: Origin) -> u64 {
    let mut form = Form::new(origin);
    form.inspect(&Values(values));
    form.hash.finish()
}

#[test]
fn what_is_relative_is_the_same_later() {
    let at = |later: u64, origin| {
        let since = Timestamp::from_nanos(4_000_000_000 + later * (40 * MOMENT));
        let values = [
            ("since", StateValue::Time(since)),
            ("boundary", StateValue::Index(SendIndex(60 + later))),
            ("window", StateValue::Bytes(7300)),
            ("rate", StateValue::Rate(Rate::from_bytes_per_second(90_000))),
            ("is_open", StateValue::Flag(false)),
        ];
        form(&values, origin)
    };
    assert_eq!(at(0, origin(0)), at(3, origin(3)));
    assert_ne!(at(0, origin(0)), at(3, origin(4)));
    let of = |value: fn(u64) -> StateValue, number: u64, later: u64| {
        form(&[("some", value(number))], origin(later))
    };
    assert_eq!(of(StateValue::Round, 8, 0), of(StateValue::Round, 11, 3));
    assert_ne!(of(StateValue::Round, 8, 0), of(StateValue::Round, 8, 1));
    let (delivered, lost) = (StateValue::Delivered, StateValue::Lost);
    assert_eq!(of(delivered, 22_000, 0), of(delivered, 22_000 + 3 * SIZE, 3));
    assert_ne!(of(delivered, 22_000, 0), of(delivered, 22_000, 1));
    assert_eq!(of(lost, 0, 0), of(lost, 3 * SIZE, 3));
    assert_ne!(of(lost, 0, 0), of(lost, 0, 3));
}

#[test]
fn sizes_count_in_halves_of_a_datagram() {
    let with = |window| form(&[("inflight", StateValue::Bytes(window))], origin(0));
    assert_eq!(with(7300), with(7799));
    assert_ne!(with(7300), with(7800));
}

/// States that differ only in a value with an unknown name are not merged: that would hide states
/// from the search.
#[test]
fn values_of_unknown_names_are_distinguished() {
    let with = |value| form(&[("nobody_knows_it", value)], origin(0));
    let values = [
        StateValue::Absent,
        StateValue::Flag(true),
        StateValue::Word("startup"),
        StateValue::Word("drain"),
        StateValue::Count(7),
        StateValue::Bytes(2400),
        StateValue::Fraction(1.5),
    ];
    for (place, one) in values.into_iter().enumerate() {
        for other in &values[place + 1..] {
            assert_ne!(with(one), with(*other), "{one:?} {other:?}");
        }
    }
}

#[test]
fn an_index_before_all_that_is_outstanding_is_any_such_index() {
    let with = |index| form(&[("boundary", StateValue::Index(SendIndex(index)))], origin(0));
    assert_eq!(with(3), with(58));
    assert_ne!(with(58), with(59));
}

/// Returns the hashed forms of consecutive states.
fn forms<C: Controller + Inspect + Clone>(
    mut sender: Sender<C>,
    moves: &[Move],
    is_rated: bool,
) -> Vec<u64> {
    let form = |step: &Move| {
        sender.make(*step);
        canonical(&sender, &LastReduction::default(), is_rated)
    };
    moves.iter().map(form).collect()
}

#[test]
fn a_cycle_of_round_trips_leads_to_the_same_states_again() {
    // At its maximum, a window does not change. The pacer makes flights of ten and two datagrams
    // alternate.
    let moves = [[Move::SendBurst, Move::AckAll]; 12].concat();
    let states = forms(Sender::new(Reno::new, 10, 10), &moves, false);
    let (before, last) = states[states.len() - 8..].split_at(4);
    assert_eq!(before, last);
    let states = forms(Sender::new(Cubic::new, 10, 10), &moves, false);
    assert_ne!(states[0], states[1]);
}

#[test]
fn values_below_the_window_are_not_distinguished() {
    let with = |window, threshold| {
        let window = ("window", StateValue::Bytes(window));
        form(&[window, ("slow_start_threshold", StateValue::Bytes(threshold))], origin(0))
    };
    assert_eq!(with(12_000, 12_000), with(12_000, 2_400));
    assert_ne!(with(12_000, 12_000), with(12_000, 14_400));
    assert_ne!(with(12_000, 14_400), with(12_000, 18_000));
}

#[test]
fn a_curve_is_distinguished_until_it_is_out_of_reach() {
    let at = |time| {
        let values = [
            ("curve_w_max", StateValue::Fraction(16.0)),
            ("curve_k", StateValue::Fraction(2.0)),
            ("curve_time", StateValue::Fraction(time)),
        ];
        form(&values, origin(0))
    };
    assert_eq!(at(1.1), at(1.4));
    assert_ne!(at(1.4), at(1.6));
    assert_ne!(at(1.6), at(5.0));
    assert_eq!(at(6.0), at(60.0));
}

/// Returns the names of the values that a sender's parts report.
fn names<C: Controller + Inspect>(sender: &Sender<C>) -> Vec<&'static str> {
    let mut names = Vec::new();
    sender.limitation.inspect(&mut |name, _| names.push(name));
    sender.pacer.inspect(&mut |name, _| names.push(name));
    sender.controller.inspect(&mut |name, _| names.push(name));
    sender.sampler.inspect(&mut |name, _| names.push(name));
    names
}

#[test]
fn every_specially_treated_name_is_reported_by_a_controller() {
    let lossy = [Move::SendBurst, Move::LoseOne, Move::AckAll, Move::SendBurst, Move::AckAll];
    let mut given = names(&Sender::new(Reno::new, 10, 64));
    let mut cubic = Sender::new(Cubic::new, 10, 64);
    for step in lossy {
        cubic.make(step);
    }
    given.extend(names(&cubic));
    given.extend(names(&Sender::new(Bbr::new, 10, 64)));
    given.push("aim");
    let own = [
        "carry",
        "pacer_rate",
        "pacer_capacity",
        "pacer_level",
        "round_count",
        "drain_start_round",
        "application_limited_until",
        "hystart_samples",
        "window",
        "slow_start_threshold",
        "w_max",
        "cwnd_prior",
        "bw_probe_wait",
        "curve_w_max",
        "curve_k",
        "curve_time",
        "w_est",
        "excess",
        "excess_round",
        "aim",
    ];
    for name in own {
        assert_ne!(unit(name), Unit::Standard, "{name}");
        assert!(given.contains(&name), "{name}");
    }
    let own_units = given.iter().filter(|name| unit(name) != Unit::Standard);
    assert!(own_units.into_iter().all(|name| own.contains(name)));
}
