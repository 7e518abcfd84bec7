use super::*;
use crate::testing::{at_ms, ms};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Asserts that `window` is open from `from` on and, if there is an `until`, closed from then on.
fn assert_open(state: &WindowState, from: Timestamp, until: Option<Timestamp>) {
    let first = at_ms(10);
    assert!(!state.is_open(from.checked_sub(NANOSECOND).unwrap(), first), "too early");
    assert!(state.is_open(from, first), "not at the start");
    match until {
        Some(until) => {
            assert!(state.is_open(until.checked_sub(NANOSECOND).unwrap(), first), "ends early");
            assert!(!state.is_open(until, first), "ends late");
        }
        None => assert!(state.is_open(Timestamp::from_nanos(u64::MAX - 1), first)),
    }
}

#[test]
fn always_is_always() {
    let state = WindowState::new(Window::Always);
    assert!(state.is_open(Timestamp::ORIGIN, Timestamp::ORIGIN));
    assert!(state.is_open(Timestamp::FAR_FUTURE, Timestamp::ORIGIN));
}

#[test]
fn from_the_first_datagram() {
    let window = Window::FromFirstDatagram { after: ms(5), length: Some(ms(20)) };
    assert_open(&WindowState::new(window), at_ms(15), Some(at_ms(35)));
    let window = Window::FromFirstDatagram { after: ms(5), length: None };
    assert_open(&WindowState::new(window), at_ms(15), None);
}

#[test]
fn absolute() {
    let window = Window::Absolute { from: at_ms(3), until: at_ms(4) };
    assert_open(&WindowState::new(window), at_ms(3), Some(at_ms(4)));
}

#[test]
fn after_bytes_of_the_named_way() {
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 1000, length: Some(ms(20)) };
    let mut state = WindowState::new(window);
    state.on_passed(at_ms(11), Way::ToServer, 5000);
    state.on_passed(at_ms(12), Way::ToClient, 999);
    assert!(!state.is_open(at_ms(13), at_ms(10)));
    state.on_passed(at_ms(14), Way::ToClient, 1000);
    // What passes later does not move it.
    state.on_passed(at_ms(15), Way::ToClient, 2000);
    assert_open(&state, at_ms(14), Some(at_ms(34)));
}
