use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::ORIGIN + Duration::from_secs(seconds)
}

fn health() -> Health {
    let settings = HealthSettings {
        interval: Duration::from_secs(2),
        up_after: 2,
        down_after: 3,
        slow_start: Duration::from_secs(90),
    };
    Health::new(settings, at(0))
}

fn fail(health: &mut Health, times: u32) {
    for _ in 0..times {
        health.on_failure();
    }
}

#[test]
fn checks_begin_every_interval() {
    let mut health = health();
    assert_eq!(health.deadline(), at(0));
    assert!(health.begin_check(at(0)));
    assert!(!health.begin_check(at(1)));
    assert_eq!(health.deadline(), at(2));
    assert!(health.begin_check(at(3)));
    assert_eq!(health.deadline(), at(4), "a late check does not delay the next one");
    assert!(health.begin_check(at(30)));
    assert_eq!(health.deadline(), at(32), "missed checks are not made up for");
}

#[test]
fn the_first_outcome_decides() {
    let mut up = health();
    assert_eq!(up.state(), ServerState::Down);
    assert!(up.on_success(at(1)));
    assert_eq!(up.state(), ServerState::Active);
    let mut down = health();
    assert!(!down.on_failure());
    assert!(!down.on_success(at(1)), "it now takes two successes");
    assert!(down.on_success(at(2)));
}

#[test]
fn a_server_that_is_taken_to_be_up_has_its_full_part() {
    let mut health = Health::assumed_up(health().settings, at(0));
    assert!(health.begin_check(at(0)));
    for (now, row) in [(at(0), 2), (at(1), 1)] {
        assert_eq!(
            (health.state(), health.weight(now)),
            (ServerState::Active, Health::FULL_WEIGHT)
        );
        assert_eq!(health.next_weight(now), None);
        fail(&mut health, row);
        assert!(!health.on_success(now), "it is still up");
    }
    fail(&mut health, 3);
    assert_eq!((health.state(), health.weight(at(2))), (ServerState::Down, 0));
    health.on_success(at(2));
    health.on_success(at(2));
    assert_eq!((health.state(), health.weight(at(2))), (ServerState::Active, 1));
}

#[test]
fn a_row_is_broken_by_one_other_outcome() {
    let mut health = health();
    health.on_success(at(0));
    assert!(!health.on_failure() && !health.on_failure());
    assert!(!health.on_success(at(1)));
    assert!(!health.on_failure() && !health.on_failure());
    assert!(health.on_failure());
    assert_eq!((health.state(), health.weight(at(500))), (ServerState::Down, 0));
    assert!(!health.on_success(at(2)));
    assert!(!health.on_failure());
    assert!(!health.on_success(at(3)));
    assert!(health.on_success(at(4)));
    assert_eq!(health.state(), ServerState::Active);
}

#[test]
fn the_weight_grows_by_a_tenth_after_each_ninth_of_the_slow_start() {
    let mut health = health();
    health.on_success(at(1_000));
    let (mut now, mut weights) = (at(1_000), Vec::new());
    while let Some(next) = health.next_weight(now) {
        weights.push(health.weight(now));
        assert_eq!(next, now + Duration::from_secs(10));
        let before = next.checked_sub(Duration::from_nanos(1)).unwrap();
        assert_eq!(Some(&health.weight(before)), weights.last());
        now = next;
    }
    assert_eq!(weights, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((now, health.weight(now)), (at(1_090), Health::FULL_WEIGHT));
}

#[test]
fn a_server_that_comes_up_again_starts_slowly_again() {
    let mut health = health();
    health.on_success(at(0));
    assert_eq!(health.weight(at(90)), 10);
    fail(&mut health, 3);
    health.on_success(at(100));
    health.on_success(at(102));
    assert_eq!((health.weight(at(102)), health.next_weight(at(102))), (1, Some(at(112))));
}

#[test]
fn without_slow_start_the_weight_is_full_at_once() {
    let settings = HealthSettings { slow_start: Duration::ZERO, ..HealthSettings::default() };
    let mut health = Health::new(settings, at(0));
    health.on_success(at(5));
    assert_eq!((health.weight(at(5)), health.next_weight(at(5))), (10, None));
}

#[test]
fn draining_is_not_being_down() {
    let mut health = health();
    health.set_draining(true);
    assert_eq!(health.state(), ServerState::Down);
    health.on_success(at(0));
    assert_eq!((health.state(), health.weight(at(50))), (ServerState::Draining, 0));
    assert_eq!(health.next_weight(at(0)), None);
    health.set_draining(false);
    assert_eq!((health.state(), health.weight(at(50))), (ServerState::Active, 6));
    health.set_draining(true);
    fail(&mut health, 3);
    assert_eq!(health.state(), ServerState::Down);
}

#[test]
fn thresholds_of_zero_are_one() {
    let settings = HealthSettings { up_after: 0, down_after: 0, ..HealthSettings::default() };
    let mut health = Health::new(settings, at(0));
    health.on_success(at(0));
    assert!(health.on_failure());
    assert!(health.on_success(at(1)));
}

#[test]
fn where_nothing_listens_a_second_check_at_once_is_enough() {
    let settings = HealthSettings { down_after: 100, up_after: 2, ..HealthSettings::default() };
    let mut health = Health::assumed_up(settings, at(0));
    assert!(health.begin_check(at(0)));
    assert!(!health.begin_check(at(0)));
    assert!(!health.on_unreachable(at(0)));
    // The report may be forged.
    assert!(health.begin_check(at(0)));
    assert!(!health.on_success(at(0)));
    assert!(!health.begin_check(at(0)));
    for is_reported in [false, true] {
        let mut health = health.clone();
        assert!(!health.on_unreachable(at(0)));
        assert!(health.begin_check(at(0)));
        assert!(if is_reported { health.on_unreachable(at(0)) } else { health.on_failure() });
        assert_eq!((health.state(), health.weight(at(0))), (ServerState::Down, 0));
        assert!(!health.begin_check(at(0)));
        // The server comes up again as after any other failure.
        assert!(!health.on_success(at(1)));
        assert!(!health.on_unreachable(at(1)));
        assert!(!health.on_success(at(2)));
        assert!(health.on_success(at(3)));
    }
}

proptest! {
    /// For any sequence of outcomes, the state changes only after as many consecutive outcomes as
    /// its threshold requires, and the weight changes only at a time returned by `next_weight` or
    /// with a state change.
    #[test]
    fn any_outcomes(
        outcomes in prop::collection::vec((any::<bool>(), 0_u64..8), 1..200),
        up_after in 1_u32..4, down_after in 1_u32..4
    ) {
        let settings = HealthSettings { up_after, down_after, ..HealthSettings::default() };
        let mut health = Health::new(settings, at(0));
        let (mut now, mut row, mut last) = (at(0), 0, None);
        for (success, seconds) in outcomes {
            let (weight, next) = (health.weight(now), health.next_weight(now));
            now += Duration::from_secs(seconds);
            if next.is_none_or(|next| next > now) {
                prop_assert_eq!(health.weight(now), weight);
            } else {
                prop_assert!(health.weight(now) > weight);
            }
            row = if last == Some(success) { row + 1 } else { 1 };
            let is_first = last.is_none();
            last = Some(success);
            let was_up = health.state() == ServerState::Active;
            let changed = if success { health.on_success(now) } else { health.on_failure() };
            prop_assert_eq!(changed, (health.state() == ServerState::Active) != was_up);
            let needed = if success { up_after } else { down_after };
            if changed {
                prop_assert!(is_first || row >= needed);
            } else if success != was_up {
                prop_assert!(row < needed || !success && is_first);
            }
            prop_assert_eq!(health.weight(now) > 0, health.state() == ServerState::Active);
        }
    }
}
