use core::time::Duration;

use clearway_network::{Conditions, Step, Trace};
use clearway_units::Rate;

use super::capacity;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_rate_that_changes_is_added_up() {
    let step = |after, value| Step { after: seconds(after), value };
    let conditions = Conditions {
        rate: Some(Rate::from_bytes_per_second(1000)),
        rate_steps: vec![
            step(4, Some(Rate::from_bytes_per_second(2000))),
            step(2, Some(Rate::ZERO)),
        ],
        ..Conditions::default()
    };
    assert_eq!(capacity(&conditions, seconds(1)), Some(1000));
    assert_eq!(capacity(&conditions, seconds(3)), Some(2000));
    assert_eq!(capacity(&conditions, seconds(6)), Some(6000));
}

#[test]
fn without_a_limit_there_is_no_capacity() {
    assert_eq!(capacity(&Conditions::default(), seconds(1)), None);
    let conditions = Conditions {
        rate: Some(Rate::from_bytes_per_second(1000)),
        rate_steps: vec![Step { after: seconds(2), value: None }],
        ..Conditions::default()
    };
    assert_eq!(capacity(&conditions, seconds(2)), Some(2000));
    assert_eq!(capacity(&conditions, seconds(3)), None);
}

#[test]
fn of_a_recorded_rate_the_mean_counts() {
    let trace = Trace::parse("10\n20\n").unwrap();
    let conditions = Conditions { trace: Some(trace), ..Conditions::default() };
    assert_eq!(capacity(&conditions, seconds(1)), Some(150_000));
}
