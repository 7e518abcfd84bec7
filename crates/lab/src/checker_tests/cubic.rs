//! Tests of S24: CUBIC's window must stay between the growth that RFC 9438 requires and the growth
//! that it allows.

use clearway_congestion::{Algorithm, Phase};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Window};

use super::story::{SIZE, Story, ms, setup};
use crate::checker::Checker;
use crate::checker::Property::S24;
use crate::run::{Extras, run};
use crate::setup::{Setup, Traffic};

/// Returns an event sequence with a hundred datagrams in flight, one of which is lost: W_max and
/// cwnd_prior are 100, cwnd_epoch is 70, and K is cbrt(30 / 0.4) = 4.217 s.
fn reduced() -> Story {
    let mut story = Story::new("cubic", S24);
    story.hold();
    story.round(100);
    story.cut(70);
    story
}

/// Sets the given windows (in datagrams) after recovery, one after each round trip in which a whole
/// window arrives and data is waiting.
fn follow(story: &mut Story, windows: impl IntoIterator<Item = f64>) {
    story.hold();
    story.set_phase(Phase::CongestionAvoidance);
    for window in windows {
        step(story, window);
        story.hold();
    }
}

/// Adds a round trip in which a whole window arrives; after it the window is `window` datagrams.
fn step(story: &mut Story, window: f64) {
    let (first, last) = story.flight();
    story.wait(story.rtt);
    story.acknowledge(first, last);
    story.metrics.congestion.window = (window * SIZE as f64) as u64;
    story.report();
}

/// Returns W_cubic after `rounds` rounds of 100 ms. The first round ends recovery, and the curve's
/// time begins with the second.
fn curve(w_max: f64, k: f64, rounds: u32) -> f64 {
    0.4 * (f64::from(rounds.saturating_sub(1)) * 0.1 - k).powi(3) + w_max
}

fn concave(rounds: u32) -> f64 {
    curve(100.0, 75.0_f64.cbrt(), rounds)
}

/// Returns the verdict on an event sequence with the given `windows`.
fn verdict(mut story: Story, windows: impl IntoIterator<Item = f64>) -> Option<&'static str> {
    follow(&mut story, windows);
    story.violation()
}

#[test]
fn s24_the_window_follows_the_curve() {
    let mut story = reduced();
    follow(&mut story, (1..=55).map(concave));
    assert_eq!(story.checker().violation(), None);
    assert_eq!(story.checker().stages_judged(), 1);
    assert_eq!(verdict(reduced(), (1..=55).map(|rounds| concave(rounds + 1) + 0.9)), None);
}

#[test]
fn s24_the_window_is_not_ahead_of_its_target() {
    // One round trip ahead of the curve, plus one datagram.
    let ahead = |more: f64| {
        let windows = (1..=30).map(concave).chain([concave(32) + more]);
        verdict(reduced(), windows)
    };
    assert_eq!(ahead(0.9), None);
    assert_eq!(ahead(1.1), Some("S24"));
}

#[test]
fn s24_the_window_is_not_behind_the_curve() {
    // One datagram behind the curve.
    let behind = |less: f64| {
        let windows = (1..=30).map(concave).chain([concave(31) - less]);
        verdict(reduced(), windows)
    };
    assert_eq!(behind(0.9), None);
    assert_eq!(behind(1.1), Some("S24"));
    // A window that does not grow is a violation.
    assert_eq!(verdict(reduced(), [70.0; 5]), Some("S24"));
}

#[test]
fn s24_k_is_that_of_the_window_at_the_beginning() {
    // Two losses in a row: cwnd_epoch is 49, and fast convergence makes W_max 59.5.
    let windows = |k: f64| {
        let mut story = reduced();
        follow(&mut story, [70.0]);
        story.cut(49);
        verdict(story, (1..=10).map(|rounds| curve(59.5, k, rounds).max(49.0)))
    };
    assert_eq!(windows((10.5_f64 / 0.4).cbrt()), None);
    // K as computed from W_max (1 - beta), without fast convergence: the curve begins below the
    // window, which stays unchanged.
    assert_eq!(windows((59.5_f64 * 0.3 / 0.4).cbrt()), Some("S24"));
    // K is zero: the window is at W_max from the first round.
    assert_eq!(windows(0.0), Some("S24"));
}

/// Fast convergence applies to a window below W_max, not to a window at W_max: 0.85 of 168,001
/// bytes is 142,800.85, and the window is kept in whole bytes.
#[test]
fn s24_a_window_at_w_max_is_not_below_it() {
    let grown = |w_max: f64, least: f64| {
        let k = ((w_max - least) / 0.4).cbrt();
        move |rounds| curve(w_max, k, rounds).max(least)
    };
    let windows = |w_max: f64| {
        let mut story = Story::new("cubic", S24);
        story.hold();
        story.round(200);
        story.cut(140);
        follow(&mut story, [168_001.5 / SIZE as f64]);
        story.cut(98);
        follow(&mut story, (1..=37).map(grown(119.0, 98.0)).chain([119.0]));
        story.cut(84);
        verdict(story, (1..=20).map(grown(w_max, 84.0)))
    };
    assert_eq!(windows(119.0), None);
    assert_eq!(windows(119.0 * 0.85), Some("S24"));
}

/// Returns W_est after each round, starting at seven datagrams after a reduction from ten; from ten
/// datagrams on, the additive factor is `alpha`.
fn estimate(alpha: f64) -> impl Iterator<Item = f64> {
    let mut window = 7.0_f64;
    (0..40).map(move |_| {
        let factor = if window < 10.0 { 0.9 / 1.7 } else { alpha };
        window += factor * window.floor() / window;
        window
    })
}

fn small() -> Story {
    let mut story = Story::new("cubic", S24);
    story.rtt = ms(20);
    story.hold();
    story.cut(7);
    story
}

#[test]
fn s24_alpha_is_one_beyond_the_window_before() {
    assert_eq!(verdict(small(), estimate(1.0)), None);
    assert_eq!(verdict(small(), estimate(0.9 / 1.7)), Some("S24"));
    assert_eq!(verdict(small(), estimate(1.5)), Some("S24"));
}

#[test]
fn s24_alpha_is_less_than_one_before_that() {
    let windows = |alpha: f64| (1..=6).map(move |round| 7.0 + alpha * f64::from(round));
    assert_eq!(verdict(small(), windows(0.53)), None);
    assert_eq!(verdict(small(), windows(1.0)), Some("S24"));
}

#[test]
fn s24_time_in_which_the_application_sends_nothing_is_not_on_the_curve() {
    let pause = |counts: bool| {
        let mut story = reduced();
        follow(&mut story, (1..=10).map(concave));
        let (first, last) = story.flight();
        story.wait(ms(100));
        story.limit(clearway_transport::SendLimit::Application);
        story.acknowledge(first, last);
        story.report();
        story.wait(ms(5000));
        story.hold();
        for rounds in 11..=14 {
            // The target is at most one and a half windows.
            let most = 1.4 * story.metrics.congestion.window as f64 / SIZE as f64;
            step(&mut story, concave(rounds + if counts { 50 } else { 0 }).min(most));
            story.hold();
        }
        story.violation()
    };
    assert_eq!(pause(false), None);
    assert_eq!(pause(true), Some("S24"));
}

#[test]
fn s24_slow_start_that_hystart_ends_leads_to_the_plateau() {
    let windows = |alpha: f64| {
        let mut story = Story::new("cubic", S24);
        story.rtt = ms(20);
        story.hold();
        story.round(20);
        story.set_threshold(20);
        verdict(story, (0..20).map(|round| 20.0 + alpha * f64::from(round)))
    };
    assert_eq!(windows(1.0), None);
    assert_eq!(windows(0.9 / 1.7), Some("S24"));
    assert_eq!(windows(1.5), Some("S24"));
}

#[test]
fn s24_what_cannot_be_known_is_not_judged() {
    let undone = |story: &mut Story| {
        story.metrics.congestion.undone_events += 1;
        story.set_window(100);
        story.report();
    };
    let collapsed = |story: &mut Story| {
        story.set_window(2);
        story.set_phase(Phase::SlowStart);
        story.metrics.congestion.congestion_events += 1;
        story.report();
        story.set_window(70);
    };
    for disturb in [undone as fn(&mut Story), collapsed] {
        let mut story = reduced();
        disturb(&mut story);
        follow(&mut story, [100.0; 20]);
        assert_eq!(story.checker().violation(), None);
        assert_eq!(story.checker().stages_judged(), 0);
    }
    // Reno's window does not follow a curve.
    let mut story = Story::new("reno", S24);
    story.hold();
    story.cut(5);
    follow(&mut story, [5.0; 20]);
    assert_eq!(story.checker().stages_judged(), 0);
}

/// Runs downloads over one path on which W_est is above the curve, and over one on which the curve
/// is above W_est.
#[test]
fn s24_judges_what_connections_do() {
    for (delay, size) in [(5, 4_000_000), (50, 4_000_000)] {
        let numbers = vec![30, 200, 500, 1300];
        let to_client = Conditions {
            delay: ms(delay),
            loss: vec![LossRule { model: LossModel::List { numbers }, window: Window::Always }],
            ..Conditions::default()
        };
        let to_server = Conditions { delay: ms(delay), ..Conditions::default() };
        let network = LinkConfig { to_client, to_server, ..LinkConfig::default() };
        let mut setup = Setup { limit: ms(60_000), ..setup(network, S24) };
        setup.flows[0].traffic = Traffic::Download { size };
        let checker = Checker::new(&setup, "cubic", true).unwrap();
        let eyes = checker.clone();
        let observers = Box::new(move |end| Some(eyes.observer(end)));
        let extras = Extras { observers: Some(observers), ..Extras::default() };
        let outcome = run(&setup, &Algorithm::Cubic.into(), 1, extras).unwrap();
        assert!(outcome.took().is_some());
        assert_eq!(checker.violation(), None);
        assert!(checker.stages_judged() >= 3, "{delay}: {}", checker.stages_judged());
    }
}
