use super::*;

const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

#[test]
fn a_peer_that_does_not_read_is_told_less_and_less_often() {
    let mut timer = BlockedTimer::default();
    let mut waits = Vec::new();
    for _ in 0..9 {
        waits.push(timer.wait(PROBE_TIMEOUT, None).as_millis());
        timer.repeated += 1;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000]);
    timer.repeated = u32::MAX;
    assert_eq!(timer.wait(PROBE_TIMEOUT, None), LONGEST_WAIT);
    timer.on_limit();
    assert_eq!(timer.wait(PROBE_TIMEOUT, None), PROBE_TIMEOUT);
}

#[test]
fn no_wait_is_shorter_than_a_probe_timeout() {
    let probe_timeout = Duration::from_secs(20);
    for idle_timeout in [None, Some(Duration::from_secs(1))] {
        assert_eq!(BlockedTimer::default().wait(probe_timeout, idle_timeout), probe_timeout);
    }
}

#[test]
fn the_idle_timeout_does_not_run_out() {
    let timer = BlockedTimer { repeated: 30 };
    let idle_timeout = Duration::from_secs(6);
    assert_eq!(timer.wait(PROBE_TIMEOUT, Some(idle_timeout)), Duration::from_secs(2));
}
