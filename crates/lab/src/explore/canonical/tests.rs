use clearway_congestion::{Cubic, Reno, SendIndex};
use clearway_units::{Rate, Timestamp};

use super::*;
use crate::explore::moves::Move;

#[derive(Debug)]
#[expect(dead_code, reason = "it is read as text")]
struct Parts {
    since: Option<Timestamp>,
    boundary: SendIndex,
    limited_round: u64,
    window: u64,
    rate: Rate,
    is_open: bool,
}

fn parts(later: u64) -> Parts {
    Parts {
        since: Some(Timestamp::from_nanos(4_000_000_000 + later * (40 * MOMENT))),
        boundary: SendIndex(60 + later),
        limited_round: 8 + later,
        window: 7300,
        rate: Rate::from_bytes_per_second(90_000),
        is_open: false,
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

#[derive(Debug)]
#[expect(dead_code, reason = "it is read as text")]
struct Limitation {
    limited_round: u64,
}

fn form(part: &impl Debug, origin: Origin) -> u64 {
    let mut form = Form::new(origin);
    form.write(part);
    form.hash.finish()
}

#[test]
fn what_is_relative_is_the_same_later() {
    let without_round = |later| Parts { limited_round: 0, ..parts(later) };
    assert_eq!(form(&without_round(0), origin(0)), form(&without_round(3), origin(3)));
    assert_ne!(form(&without_round(0), origin(0)), form(&without_round(3), origin(4)));
    let round = |later: u64| Limitation { limited_round: 8 + later };
    assert_eq!(form(&round(0), origin(0)), form(&round(3), origin(3)));
    assert_ne!(form(&round(0), origin(0)), form(&round(0), origin(1)));
}

#[test]
fn sizes_count_in_halves_of_a_datagram() {
    let with = |window| form(&Parts { window, ..parts(0) }, origin(0));
    assert_eq!(with(7300), with(7799));
    assert_ne!(with(7300), with(7800));
    assert_ne!(form(&Parts { is_open: true, ..parts(0) }, origin(0)), with(7300));
}

#[test]
fn an_index_before_all_that_is_outstanding_is_any_such_index() {
    let with = |index| form(&Parts { boundary: SendIndex(index), ..parts(0) }, origin(0));
    assert_eq!(with(3), with(58));
    assert_ne!(with(58), with(59));
}

/// The forms of states that come one after the other.
fn forms<C: Controller + Clone>(mut sender: Sender<C>, moves: &[Move], is_rated: bool) -> Vec<u64> {
    let form = |step: &Move| {
        sender.make(*step);
        canonical(&sender, &Books::default(), is_rated)
    };
    moves.iter().map(form).collect()
}

#[test]
fn a_cycle_of_round_trips_leads_to_the_same_states_again() {
    // At its maximum a window does not change. The pacer makes flights of ten and of two datagrams alternate.
    let moves = [[Move::SendBurst, Move::AckAll]; 12].concat();
    let states = forms(Sender::new(Reno::new, 10, 10), &moves, false);
    let (before, last) = states[states.len() - 8..].split_at(4);
    assert_eq!(before, last);
    let states = forms(Sender::new(Cubic::new, 10, 10), &moves, false);
    assert_ne!(states[0], states[1]);
}

#[derive(Debug)]
#[expect(dead_code, reason = "it is read as text")]
struct Base {
    window: u64,
    slow_start_threshold: Option<u64>,
}

#[test]
fn what_the_window_has_grown_beyond_is_not_told_apart() {
    let with = |window, threshold| {
        let slow_start_threshold = Some(threshold);
        form(&Base { window, slow_start_threshold }, origin(0))
    };
    assert_eq!(with(12_000, 12_000), with(12_000, 2_400));
    assert_ne!(with(12_000, 12_000), with(12_000, 14_400));
    assert_ne!(with(12_000, 14_400), with(12_000, 18_000));
}

#[derive(Debug)]
#[expect(dead_code, reason = "it is read as text")]
struct Curve {
    w_max: f64,
    k: f64,
    time: f64,
}

#[test]
fn a_curve_is_told_apart_until_it_is_out_of_reach() {
    let at = |time| form(&Curve { w_max: 16.0, k: 2.0, time }, origin(0));
    assert_eq!(at(1.1), at(1.4));
    assert_ne!(at(1.4), at(1.6));
    assert_ne!(at(1.6), at(5.0));
    assert_eq!(at(6.0), at(60.0));
}
