use super::*;

#[test]
fn a_quotient_is_the_same_on_both_sides_of_64_bits() {
    // 18_446_744_074 x 10^9 is the first multiple that does not fit.
    for bytes in [0, 1, 18_446_744_073, 18_446_744_074, 1 << 40, u64::MAX] {
        for interval in [1, 7, 999_999_999, 1_000_000_000, 3_600_000_000_000] {
            let exact = u128::from(bytes) * NANOSECONDS_PER_SECOND / interval;
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            let interval = Duration::from_nanos(interval as u64);
            assert_eq!(Rate::from_transfer(bytes, interval), Some(Rate(exact)));
        }
    }
    let (rate, hour) = (Rate(10_000_000_000), Duration::from_secs(3600));
    assert_eq!(rate.bytes_in(hour), 36_000_000_000_000);
    assert_eq!(rate.bytes_in(Duration::from_nanos(3)), 30);
    assert_eq!(rate.scaled(5, 4), Rate(12_500_000_000));
    assert_eq!(Rate(1 << 62).scaled(6, 3), Rate(1 << 63));
}

#[test]
fn what_does_not_fit_saturates_and_nothing_is_divided_by_zero() {
    assert_eq!(Rate::from_transfer(1, Duration::ZERO), None);
    assert_eq!(Rate::from_transfer(u64::MAX, Duration::ZERO), None);
    assert_eq!(Rate::MAX.bytes_in(Duration::from_secs(2)), u64::MAX);
    assert_eq!(Rate::MAX.scaled(2, 1), Rate::MAX);
    assert_eq!(Rate(7).scaled(2, 0), Rate(7));
    assert_eq!(Rate::MAX.scaled(2, 0), Rate::MAX);
}
