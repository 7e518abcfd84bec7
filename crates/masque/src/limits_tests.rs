use proptest::prelude::*;

use super::*;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_nanos(milliseconds * 1_000_000)
}

fn client(name: &str) -> Arc<str> {
    name.into()
}

#[test]
fn tunnels_are_limited_in_total_and_per_client() {
    let limits = Limits { tunnels: 3, tunnels_per_client: 2, ..Limits::default() };
    let mut limiter = Limiter::new(limits, at(0));
    let (a, b) = (client("a"), client("b"));
    assert_eq!(limiter.open(&a, at(0)), Ok(()));
    assert_eq!(limiter.open(&a, at(0)), Ok(()));
    assert_eq!(limiter.open(&a, at(0)), Err(LimitReached::TunnelsPerClient));
    assert_eq!(limiter.open(&b, at(0)), Ok(()));
    assert_eq!(limiter.open(&b, at(0)), Err(LimitReached::Tunnels));
    limiter.close("a");
    assert_eq!((limiter.tunnels(), limiter.open(&b, at(0))), (2, Ok(())));
    for name in ["a", "a", "a", "b", "b", "c"] {
        limiter.close(name);
    }
    assert_eq!(limiter.tunnels(), 0);
    assert_eq!(LimitReached::Tunnels.proxy_error().status(), 503);
}

#[test]
fn bandwidth_is_limited_in_total_and_per_client() {
    let limits = Limits {
        bandwidth: Some(Rate::from_bytes_per_second(1_000_000)),
        bandwidth_per_client: Some(Rate::from_bytes_per_second(700_000)),
        burst: Duration::from_secs(1),
        ..Limits::default()
    };
    let mut limiter = Limiter::new(limits, at(0));
    let (a, b) = (client("a"), client("b"));
    limiter.open(&a, at(0)).unwrap();
    limiter.open(&b, at(0)).unwrap();
    assert_eq!(limiter.take("a", 700_000, at(0)), Ok(()));
    assert_eq!(limiter.take("a", 1, at(0)), Err(LimitReached::BandwidthPerClient));
    assert_eq!(limiter.take("b", 300_001, at(0)), Err(LimitReached::Bandwidth));
    assert_eq!(limiter.take("b", 300_000, at(0)), Ok(()));
    // A new tunnel does not restore the bandwidth.
    limiter.close("a");
    limiter.open(&a, at(0)).unwrap();
    assert_eq!(limiter.take("a", 100_000, at(100)), Err(LimitReached::BandwidthPerClient));
    assert_eq!(limiter.take("a", 70_000, at(100)), Ok(()));
    let mut unlimited = Limiter::new(Limits::default(), at(0));
    assert_eq!(unlimited.take("a", u64::MAX, at(0)), Ok(()));
}

#[test]
fn clients_without_tunnels_are_forgotten() {
    let limits = Limits {
        tunnels: usize::MAX,
        bandwidth_per_client: Some(Rate::from_bytes_per_second(65_536)),
        ..Limits::default()
    };
    let mut limiter = Limiter::new(limits, at(0));
    for index in 0..10 * KEPT as u64 {
        let name = client(&index.to_string());
        limiter.open(&name, at(index)).unwrap();
        limiter.take(&name, 6_553, at(index)).unwrap();
        limiter.close(&name);
        // A bucket is full again after 100 ms.
        assert!(limiter.clients.len() <= KEPT + 1, "{index}");
    }
}

#[test]
fn a_bucket_fills_at_its_rate() {
    let rate = Rate::from_bytes_per_second(1000);
    let mut bucket = TokenBucket::new(Some(rate), Duration::ZERO, at(0));
    assert!(bucket.is_full(at(0)) && bucket.take(65_536, at(0)));
    assert!(!bucket.take(1, at(0)) && !bucket.has(1, at(0)));
    assert_eq!(bucket.available_at(500, at(0)), Some(at(500)));
    assert_eq!(bucket.available_at(65_537, at(0)), None);
    assert!(!bucket.take(500, at(499)));
    assert!(bucket.take(500, at(500)));
    // Time does not run backwards.
    assert!(!bucket.take(1, at(0)));
    assert!(bucket.is_full(at(500 + 65_536)) && !bucket.take(65_537, at(1_000_000)));
}

/// Tests the requirements of RFC 9298 §3.1.
#[test]
fn section_3_1_tunnels_are_idle_after_two_minutes_or_more() {
    let mut timer = IdleTimer::new(Duration::from_secs(1), at(0));
    assert_eq!(timer.deadline(), at(120_000));
    timer.restart(at(10));
    timer.restart(at(5));
    assert!(!timer.is_expired(at(120_009)) && timer.is_expired(at(120_010)));
    let timer = IdleTimer::new(Duration::from_secs(300), at(0));
    assert_eq!(timer.deadline(), at(300_000));
}

/// Tests the limits that RFC 9298 §7 suggests.
#[test]
fn section_7_a_target_that_never_answers_receives_little() {
    for size in [1, 1280, 65_527] {
        let mut guard = UnansweredGuard::new(at(0));
        let sent = (0..1000).filter(|_| guard.permits(size, at(0))).count() as u64;
        assert_eq!(sent, 64.min(UNANSWERED_BYTES / size), "{size}");
        assert!(!guard.permits(size, at(999)));
        assert!(guard.permits(size, at(1000)) && !guard.permits(size, at(1999)));
        assert!(!guard.is_answered());
        guard.on_answer();
        assert!(guard.is_answered());
        assert!((0..1000).all(|_| guard.permits(size, at(0))));
    }
}

proptest! {
    #[test]
    fn a_bucket_never_exceeds_its_rate(
        rate in 1u64..10_000_000,
        takes in proptest::collection::vec((0u64..50, 1u64..70_000), 1..100),
    ) {
        let mut bucket =
            TokenBucket::new(Some(Rate::from_bytes_per_second(rate)), Duration::ZERO, at(0));
        let (mut now, mut taken) = (0, 0u128);
        for (wait, bytes) in takes {
            now += wait;
            if bucket.take(bytes, at(now)) {
                taken += u128::from(bytes);
            }
            prop_assert!(taken <= 65_536 + u128::from(rate) * u128::from(now) / 1000);
            if let Some(then) = bucket.available_at(bytes, at(now)) {
                let mut later = bucket;
                prop_assert!(later.has(bytes, then));
            }
        }
    }
}
