//! The draft's conditions, on either side of their boundaries.

use clearway_units::Random;

use super::*;
use crate::bbr::cycle::Feedback;
use crate::bbr::gain::Gain;
use crate::{Bbr, RateSample, Suppressor};

fn bbr(state: BbrState) -> Bbr {
    let mut bbr = Bbr::new(&parameters_of(1));
    bbr.state = state;
    bbr
}

#[test]
fn a_probe_after_excess_loss_ends_when_no_more_datagram_fits_below_the_bound() {
    let goes_down = |prior_in_flight, bound| {
        let mut bbr = bbr(BbrState::ProbeUp);
        bbr.cycle.was_too_high = true;
        bbr.long_term.bound = bound;
        bbr.is_time_to_go_down(&Sample { prior_in_flight, ..sample() })
    };
    assert!(goes_down(10 * SIZE, Some(11 * SIZE - 1)));
    assert!(!goes_down(10 * SIZE, Some(11 * SIZE)));
    assert!(!goes_down(10 * SIZE, Some(20 * SIZE)));
    assert!(!goes_down(10 * SIZE, None));
}

#[test]
fn the_target_in_flight_includes_the_quantization_budget() {
    // Without an RTT sample, the bandwidth-delay product is the initial window.
    let bbr = bbr(BbrState::ProbeUp);
    let rate = bbr.bandwidth.maximum();
    let product = bbr.parameters.initial_window();
    assert_eq!(bbr.in_flight_for(rate, Gain::ONE), product + 2 * SIZE);
}

#[test]
fn a_restart_from_idle_lasts_until_something_is_delivered() {
    let mut bbr = bbr(BbrState::ProbeCruise);
    bbr.is_restarting = true;
    bbr.check_probe_rtt(&Sample { delivered: 0, ..sample() });
    assert!(bbr.is_restarting);
    bbr.check_probe_rtt(&Sample { delivered: 1, ..sample() });
    assert!(!bbr.is_restarting);
}

#[test]
fn down_lasts_until_a_packet_sent_in_it_is_acknowledged() {
    // Startup sends at full rate into a path that had become empty: little is in flight, and nearly
    // all of it is queued.
    let after = |growing, has_passed_a_round| {
        let mut bbr = bbr(BbrState::ProbeDown);
        bbr.full_pipe.was_reached = true;
        bbr.cycle.begin(sample().now, &mut Random::from_number(1));
        if has_passed_a_round {
            bbr.cycle.feedback = Feedback::None;
        }
        bbr.update_probe_bandwidth(&Sample { growing, in_flight: 0, ..sample() });
        bbr.state
    };
    assert_eq!(after(SIZE, false), BbrState::ProbeDown);
    assert_eq!(after(SIZE, true), BbrState::ProbeCruise);
    // An application-limited sender leaves no queue.
    assert_eq!(after(0, false), BbrState::ProbeCruise);
}

#[test]
fn probe_rtt_ends_even_if_the_sender_has_little_to_send() {
    // The transition depends on time and a round, not on bandwidth (draft, HandleProbeRTT and
    // CheckProbeRTTDone).
    for is_application_limited in [false, true] {
        let mut bbr = bbr(BbrState::ProbeRtt);
        bbr.full_pipe.was_reached = true;
        bbr.probe_rtt.reached_at = Some(sample().now);
        bbr.rounds.is_start = true;
        let mut later = Sample { is_application_limited, ..sample() };
        later.newest.delivery.is_application_limited = is_application_limited;
        later.now = sample().now + ms(200);
        bbr.check_probe_rtt(&later);
        assert_eq!(bbr.state, BbrState::ProbeRtt);
        later.now = sample().now + ms(201);
        bbr.check_probe_rtt(&later);
        assert_eq!(bbr.state, BbrState::ProbeCruise);
    }
}

#[test]
fn a_sample_is_application_limited_if_its_packet_or_its_rate_is() {
    let is_limited = |packet_is, rate_is| {
        let mut newest = packet(1, SIZE);
        newest.delivery.is_application_limited = packet_is;
        let rate_sample = RateSample {
            rate: megabits(1),
            delivered: SIZE,
            interval: ms(10),
            prior_delivered: 0,
            is_application_limited: rate_is,
        };
        let acked = [newest];
        let event =
            Acknowledgement { rate_sample: Some(rate_sample), ..acknowledgement(&acked, &[]) };
        Sample::of(&event).unwrap().is_application_limited
    };
    assert!(!is_limited(false, false));
    assert!(is_limited(true, false));
    assert!(is_limited(false, true));
}

#[test]
fn a_short_term_bound_is_in_force_below_the_model() {
    let mut bbr = bbr(BbrState::ProbeCruise);
    let (maximum, window) = (megabits(20), 30 * SIZE);
    assert!(!bbr.short_term.is_bound(maximum, window));
    bbr.short_term.rate = Some(megabits(19));
    assert!(bbr.short_term.is_bound(maximum, window));
    bbr.short_term.rate = Some(maximum);
    assert!(!bbr.short_term.is_bound(maximum, window));
    bbr.short_term.in_flight = Some(window);
    assert!(bbr.short_term.is_bound(maximum, window));
    bbr.short_term.in_flight = Some(window + 1);
    assert!(!bbr.short_term.is_bound(maximum, window));
}

#[test]
fn a_long_term_bound_is_reported_where_it_is_in_force_and_below_the_model() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeCruise);
    let mut bbr = path.bbr;
    let is_told = |bbr: &Bbr| bbr.snapshot().suppressors.since(Suppressor::LongTermBound).is_some();
    bbr.long_term.bound = Some(5 * SIZE);
    assert!(bbr.is_long_term_bound());
    bbr.long_term.bound = Some(1_000 * SIZE);
    assert!(!bbr.is_long_term_bound());
    bbr.long_term.bound = None;
    assert!(!bbr.is_long_term_bound() && !is_told(&bbr));
    bbr.long_term.bound = Some(5 * SIZE);
    bbr.state = BbrState::Drain;
    assert!(!bbr.is_long_term_bound());
}

#[test]
fn a_longer_round_trip_is_adopted_if_queues_cannot_explain_it() {
    // Queues of flows with a correct model raise the RTT to at most 2.25 times the minimum.
    let adopted = |rtt: Duration| {
        let (mut bbr, now, minimum) = (bbr(BbrState::ProbeRtt), sample().now, ms(8));
        bbr.minimum_rtt.adopt(now, minimum);
        let path = &mut bbr.longer_path;
        path.note_jump(now, minimum, minimum);
        path.note_jump(now + ms(1), ms(80), minimum);
        path.note(rtt, true, false);
        path.begin_probe(u64::MAX, true);
        path.note_probe(rtt);
        bbr.longer_rtt()
    };
    assert_eq!(adopted(ms(18)), None);
    let longer = ms(18) + Duration::from_nanos(1);
    assert_eq!(adopted(longer), Some(longer));
}
