//! Tests with paths that reorder packets, and with queues, which do not reorder.

use super::*;

/// Returns a path with a rate of 20 Mbit/s, an individual delay of 1 to 31 ms for each packet, and
/// a queue of 100 kB.
fn jittery_path(seed: u64) -> Path {
    let mut link = Link::new(Some(megabits(20)), ms(1), 100_000, seed);
    link.jitter = ms(30);
    link.jitter_reorders = true;
    let mut path = Path::new(link, seed);
    path.tolerates_reordering = true;
    path
}

fn delay(path: &Path) -> Duration {
    path.bbr.jitter.delay()
}

/// The minimum RTT is 2 ms and the mean is 17 ms. Twice the bandwidth-delay product with the
/// minimum is 10 kB, but 42 kB have to be in flight.
#[test]
fn jitter_that_reorders_does_not_starve_the_path() {
    for seed in 0..20 {
        let mut path = jittery_path(seed);
        path.run_for(ms(1000));
        let goodput = path.goodput(ms(2000));
        assert!(goodput > 0.9 * 2_500_000.0, "seed {seed}: {goodput}, {:?}", path.bbr);
    }
}

/// Checks that the measured delay is the mean, not the maximum, and excludes the path's queue. A
/// packet is delayed by 15 ms on average. The first packet that overtakes it arrives 5 ms after it
/// was sent (one of the ten packets sent by then is that fast), and marks are 2.5 ms apart. The
/// expected result is therefore 9 ms, with a deviation of 1.4 ms in a round of 40 packets.
#[test]
fn the_mean_delay_of_reordering_is_measured() {
    for seed in 0..20 {
        let mut path = jittery_path(seed);
        path.run_for(ms(1000));
        for _ in 0..50 {
            path.run_for(ms(40));
            assert!((ms(5)..ms(18)).contains(&delay(&path)), "seed {seed}: {:?}", path.bbr);
        }
    }
}

/// One packet in twenty is 15 ms late: 0.75 ms on average.
#[test]
fn a_few_late_packets_add_little() {
    for seed in 0..20 {
        let mut path = path_with(megabits(20), ms(20), 4.0, seed);
        path.tolerates_reordering = true;
        path.link.late = Some((0..u64::MAX, ms(15)));
        path.link.late_every = 20;
        path.run_for(ms(1000));
        for _ in 0..50 {
            path.run_for(ms(40));
            assert!(delay(&path) < ms(3), "seed {seed}: {:?}", path.bbr);
        }
        assert!(path.goodput(ms(1000)) > 0.93 * 2_500_000.0, "seed {seed}: {:?}", path.bbr);
    }
}

/// Startup fills a queue of twenty bandwidth-delay products, and the jitter preserves the order.
#[test]
fn neither_a_queue_nor_jitter_in_order_is_taken_for_reordering() {
    for seed in 0..20 {
        let mut path = path_with(megabits(20), ms(40), 20.0, seed);
        path.link.jitter = if seed % 2 == 0 { ms(30) } else { Duration::ZERO };
        for _ in 0..100 {
            path.run_for(ms(50));
            assert_eq!(delay(&path), Duration::ZERO, "seed {seed}");
        }
    }
}

/// The added delay disappears a few rounds after reordering has ended, and does not return during
/// ProbeRTT or any probe.
#[test]
fn the_window_of_a_path_that_no_longer_reorders_is_that_of_the_draft() {
    for seed in 0..10 {
        let mut path = jittery_path(seed);
        path.run_for(ms(3000));
        assert!(delay(&path) > ms(5));
        path.link.jitter = Duration::ZERO;
        path.run_until(ms(500), |path| delay(path) < ms(1));
        path.run_until(ms(2000), |path| delay(path).is_zero());
        for _ in 0..100 {
            path.run_for(ms(100));
            assert!(delay(&path).is_zero());
        }
    }
}
