use core::time::Duration;

use clearway_units::{ReleaseTime, Timestamp};

use super::{Held, Limitation, SendLimit};

const BEGIN: Timestamp = Timestamp::from_nanos(7_000_000_000);

fn at(milliseconds: u64) -> Timestamp {
    BEGIN + Duration::from_millis(milliseconds)
}

fn pacer(milliseconds: u64) -> SendLimit {
    SendLimit::Pacer(ReleaseTime::at(at(milliseconds)))
}

fn held(was_limited: bool, was_window_limited: bool, milliseconds: u64) -> Held {
    Held { was_limited, was_window_limited, limited_time: Duration::from_millis(milliseconds) }
}

#[test]
fn only_window_and_pacer_are_congestion_control() {
    assert!(SendLimit::Window.is_congestion_control());
    assert!(pacer(1).is_congestion_control());
    for limit in [
        SendLimit::Application,
        SendLimit::Amplification,
        SendLimit::FlowControl,
        SendLimit::Keys,
        SendLimit::Path,
        SendLimit::Batch,
    ] {
        assert!(!limit.is_congestion_control(), "{limit:?}");
    }
}

#[test]
fn nothing_was_held_back_before_sending_stopped() {
    assert_eq!(Limitation::default().take(at(5), 0, 1), held(false, false, 0));
}

#[test]
fn data_held_back_by_the_window_is_window_limited_for_that_long() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    assert_eq!(limitation.take(at(10), 1, 2), held(true, true, 10));
    // The limitation continues, and no period is reported twice.
    assert_eq!(limitation.take(at(14), 2, 3), held(true, true, 4));
}

#[test]
fn data_held_back_by_the_pacer_is_not_window_limited() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), pacer(3), 1, false);
    assert_eq!(limitation.pacer_deadline, Some(at(3)));
    assert_eq!(limitation.take(at(2), 1, 2), held(true, false, 2));
    limitation.on_stopped(at(3), SendLimit::Window, 2, false);
    assert_eq!(limitation.pacer_deadline, None);
}

#[test]
fn a_limit_counts_in_its_round_and_the_next() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    limitation.on_stopped(at(6), SendLimit::Application, 1, true);
    assert_eq!(limitation.take(at(8), 1, 2), held(true, true, 6));
    assert_eq!(limitation.take(at(9), 2, 3), held(false, false, 0));
}

#[test]
fn data_held_until_the_application_runs_out_was_held_in_that_round() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    limitation.on_stopped(at(6), SendLimit::FlowControl, 5, true);
    assert_eq!(limitation.take(at(8), 5, 6), held(true, true, 6));
}

#[test]
fn data_released_at_once_was_not_held_in_that_round() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    limitation.take(at(0), 1, 1);
    limitation.on_stopped(at(0), SendLimit::Application, 5, true);
    assert_eq!(limitation.take(at(8), 5, 6), held(false, false, 0));
}

#[test]
fn a_window_that_holds_data_until_the_pacer_takes_over_was_the_limit_in_that_round() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    limitation.on_stopped(at(6), pacer(9), 5, false);
    assert_eq!(limitation.take(at(8), 5, 6), held(true, true, 8));
}

#[test]
fn a_window_that_released_its_data_long_ago_is_not_the_limit() {
    let mut limitation = Limitation::default();
    limitation.on_stopped(at(0), SendLimit::Window, 1, false);
    limitation.on_stopped(at(2), SendLimit::Application, 1, true);
    limitation.on_stopped(at(9), pacer(12), 5, false);
    assert_eq!(limitation.take(at(11), 5, 6), held(true, false, 4));
}

#[test]
fn only_a_sender_that_could_have_sent_is_application_limited() {
    let cases = [
        (SendLimit::Application, true, true),
        (SendLimit::FlowControl, true, true),
        (SendLimit::Application, false, false),
        (SendLimit::Window, true, false),
        // The caller continues immediately.
        (SendLimit::Batch, true, false),
    ];
    for (limit, permitted, expected) in cases {
        let mut limitation = Limitation::default();
        limitation.on_stopped(at(0), limit, 1, permitted);
        assert_eq!(limitation.is_application_limited, expected, "{limit:?}, {permitted}");
    }
}

/// If the pacer allows nothing when the data runs out, the sender becomes application-limited
/// later, without any event.
#[test]
fn a_sender_without_data_is_application_limited_from_the_release_on() {
    for (sent_at, expected) in [(2, false), (3, false), (4, true), (60, true)] {
        let mut limitation = Limitation::default();
        limitation.on_stopped(at(0), SendLimit::Application, 1, false);
        limitation.on_waiting_for_data(ReleaseTime::at(at(3)));
        assert_eq!(limitation.take_application_limited(at(sent_at)), expected, "{sent_at}");
        assert!(
            !limitation.take_application_limited(at(100)),
            "the packets after it follow immediately"
        );
        limitation.on_waiting_for_data(ReleaseTime::at(at(3)));
        limitation.on_stopped(at(1), pacer(5), 1, false);
        assert!(!limitation.take_application_limited(at(60)), "data has been waiting since then");
    }
}
