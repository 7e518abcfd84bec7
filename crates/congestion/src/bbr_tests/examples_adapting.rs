//! The example test cases of the draft's appendix: aggregation, small and changing bandwidths,
//! policers.

use super::link::Policer;
use super::*;

#[test]
fn achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let mut path = path_with(megabits(20), ms(40), 8.0, 1);
    path.link.aggregation = Some(ms(15));
    path.run_to_state(BbrState::Drain);
    assert!(path.bbr.aggregation.maximum() > 5 * SIZE);
    let product = megabits(20).bytes_in(ms(40));
    assert!(path.bbr.window() > 2 * product, "{} {product}", path.bbr.window());
    let estimate = path.bbr.bandwidth.maximum();
    assert!(estimate >= megabits(20).scaled(98, 100), "{estimate:?}");
    path.run_for(ms(500));
    assert!(path.goodput(ms(2000)) > 0.95 * 2_500_000.0);
}

#[test]
fn achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let mut path = path_with(megabits(20), ms(40), 8.0, 1);
    path.run_to_state(BbrState::ProbeCruise);
    path.run_for(ms(1000));
    assert_eq!(path.state(), BbrState::ProbeCruise);
    assert!(path.bbr.aggregation.maximum() <= 2 * SIZE);
    path.link.aggregation = Some(ms(30));
    path.run_for(ms(500));
    let slot = megabits(20).bytes_in(ms(30));
    let excess = path.bbr.aggregation.maximum();
    assert!((slot * 8 / 10..slot * 3 / 2).contains(&excess), "{excess} {slot}");
    assert!(path.bbr.window() >= 2 * path.bbr.bandwidth_delay_product() + excess - SIZE);
    assert!(path.goodput(ms(3000)) > 0.95 * 2_500_000.0);
    // Without aggregation, the estimate is forgotten ten rounds after the delivered amount first
    // falls below what the bandwidth explains, which is after the next ProbeRTT at the latest.
    path.link.aggregation = None;
    path.run_to_state(BbrState::ProbeRtt);
    path.run_out_of(BbrState::ProbeRtt);
    path.run_for(ms(500));
    assert!(path.bbr.aggregation.maximum() < slot / 2);
}

#[test]
fn correctly_managing_sub_packet_bdps() {
    let rate = Rate::from_bits_per_second(64_000);
    let mut path = Path::new(Link::new(Some(rate), ms(5), 20 * SIZE, 1), 1);
    path.run_to_state(BbrState::ProbeCruise);
    assert_estimates(&path, rate);
    assert_eq!(path.bbr.minimum_window(), 4 * SIZE);
    path.run_for(Duration::from_secs(20));
    // The window is twice the minimum of four packets, plus the ACK aggregation; it is larger in
    // the middle of a probe.
    path.run_to_state(BbrState::ProbeCruise);
    let most = 8 * SIZE + path.bbr.aggregation.maximum();
    assert!(path.bbr.aggregation.maximum() <= SIZE);
    assert!((4 * SIZE..=most).contains(&path.bbr.window()));
    assert_estimates(&path, rate);
    assert!(path.bbr.pacing.rate.unwrap() >= rate.scaled(85, 100));
    assert!(path.bbr.pacing.rate.unwrap() <= rate.scaled(130, 100));
    path.link.acknowledge_every = 2;
    assert!(path.goodput(Duration::from_secs(40)) > 0.95 * 8000.0);
}

#[test]
fn increasing_bandwidth_tenfold() {
    let mut path = path_with(megabits(10), ms(40), 0.15, 1);
    path.run_until(Duration::from_secs(20), |path| {
        path.bbr.long_term.bound.is_some() && path.state() == BbrState::ProbeCruise
    });
    path.link.set_rate(path.now, megabits(100));
    path.link.buffer = megabits(100).bytes_in(ms(40));
    let (began, mut round, mut bounds) = (path.now, 0, Vec::new());
    while path.bbr.bandwidth.maximum() < megabits(98) {
        path.run_for(Duration::from_micros(500));
        if path.state() == BbrState::ProbeUp && path.bbr.rounds.count > round {
            round = path.bbr.rounds.count;
            bounds.push(path.bbr.long_term.bound.unwrap() / SIZE);
        }
        assert!(path.now.saturating_since(began) < ms(5000), "{:?}", path.bbr);
    }
    let steps: Vec<_> = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert!(
        // The window grows until the pacing rate is the limit rather than the bound.
        steps.windows(4).any(|run| run.windows(2).all(|it| it[0] > 0 && it[1] * 4 >= it[0] * 6)),
        "{steps:?}"
    );
    path.run_for(ms(1000));
    assert_estimates(&path, megabits(100));
}

#[test]
fn decreasing_bandwidth_tenfold() {
    let mut path = path_with(megabits(100), ms(40), 1.0, 1);
    path.run_to_state(BbrState::ProbeCruise);
    path.run_for(ms(200));
    path.link.set_rate(path.now, megabits(10));
    path.link.buffer = megabits(10).bytes_in(ms(40));
    path.run_until(ms(3000), |path| {
        path.bbr.short_term.rate < Some(megabits(15)) && path.bbr.short_term.rate.is_some()
    });
    path.run_until(Duration::from_secs(12), |path| path.bbr.bandwidth.maximum() < megabits(11));
    path.run_for(ms(3000));
    assert_estimates(&path, megabits(10));
    assert!(path.goodput(ms(5000)) > 0.93 * 1_250_000.0);
}

#[test]
fn handling_token_bucket_policers() {
    let mut path = Path::new(Link::new(None, ms(20), 0, 1), 1);
    let (rate, burst) = (megabits(10), 64 * SIZE);
    path.link.policer = Some(Policer { rate, burst, tokens: burst, filled_at: path.now });
    path.run_until(Duration::from_secs(10), |path| path.bbr.short_term.rate.is_some());
    path.run_for(Duration::from_secs(10));
    let (sent, lost) = (path.sent_bytes, path.lost_bytes);
    let goodput = path.goodput(Duration::from_secs(20));
    let loss = (path.lost_bytes - lost) as f64 / (path.sent_bytes - sent) as f64;
    assert!(goodput > 0.85 * 1_250_000.0, "{goodput}");
    assert!(loss < 0.05, "{loss}");
}
