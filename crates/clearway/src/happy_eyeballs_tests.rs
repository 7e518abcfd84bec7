use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;

use super::*;

/// A clock that the test sets, in milliseconds.
type Clock = Rc<Cell<u64>>;

/// A future that is ready at the given time.
struct At(Clock, u64);

impl Future for At {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.get() >= self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn v4(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 443).into()
}

fn v6(number: u16) -> SocketAddr {
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, number], 443).into()
}

/// An address's response: the delay in milliseconds, and the result.
type Behavior = (u64, Result<(), &'static str>);

#[derive(Default)]
struct Log {
    begun: Vec<(SocketAddr, u64)>,
    /// Number of attempts that have not been dropped yet.
    living: usize,
}

struct Living(Rc<RefCell<Log>>);

impl Drop for Living {
    fn drop(&mut self) {
        self.0.borrow_mut().living -= 1;
    }
}

struct Outcome {
    result: Result<SocketAddr, Vec<(SocketAddr, &'static str)>>,
    /// Time of the result, in milliseconds.
    at: u64,
    /// Time at which each attempt began.
    begun: Vec<(SocketAddr, u64)>,
}

/// Races the addresses in virtual time.
fn race(addresses: &[(SocketAddr, Behavior)]) -> Outcome {
    let (clock, log) = (Clock::default(), Rc::new(RefCell::new(Log::default())));
    let behaviors: BTreeMap<_, _> = addresses.iter().copied().collect();
    let attempt = |address| {
        let ((after, result), begun) = (behaviors[&address], clock.get());
        log.borrow_mut().begun.push((address, begun));
        log.borrow_mut().living += 1;
        let (living, end) = (Living(log.clone()), At(clock.clone(), begun + after));
        async move {
            let _living = living;
            end.await;
            result.map(|()| address)
        }
    };
    let delay = CONNECTION_ATTEMPT_DELAY.as_millis() as u64;
    let wait = || At(clock.clone(), clock.get() + delay);
    let mut race = Race::new(addresses.iter().map(|(address, _)| *address), attempt, wait);
    let mut context = Context::from_waker(Waker::noop());
    let result = loop {
        if let Poll::Ready(result) = race.poll(&mut context) {
            break result.map_err(ConnectAnyError::into_attempts);
        }
        clock.set(clock.get() + 10);
    };
    assert_eq!(log.borrow().living, 0, "losers are dropped");
    let begun = log.borrow().begun.clone();
    Outcome { result, at: clock.get(), begun }
}

const SILENT: Behavior = (20_000, Err("silent"));
const ANSWERS: Behavior = (30, Ok(()));
const REFUSES: Behavior = (10, Err("refused"));

#[test]
fn a_silent_address_costs_a_quarter_of_a_second() {
    let outcome = race(&[(v6(1), SILENT), (v4(1), ANSWERS)]);
    assert_eq!((outcome.result, outcome.at), (Ok(v4(1)), 250 + 30));
    assert_eq!(outcome.begun, [(v6(1), 0), (v4(1), 250)]);
}

#[test]
fn an_address_that_answers_in_time_is_the_only_one_that_is_tried() {
    let outcome = race(&[(v6(1), ANSWERS), (v4(1), ANSWERS)]);
    assert_eq!((outcome.result, outcome.at, outcome.begun.len()), (Ok(v6(1)), 30, 1));
}

#[test]
fn after_a_failure_the_next_one_begins_at_once() {
    let outcome = race(&[(v6(1), REFUSES), (v4(1), REFUSES), (v4(2), ANSWERS)]);
    assert_eq!((outcome.result, outcome.at), (Ok(v4(2)), 10 + 10 + 30));
    assert_eq!(outcome.begun, [(v6(1), 0), (v4(1), 10), (v4(2), 20)]);
}

#[test]
fn families_take_turns_and_duplicates_count_once() {
    let all = [v6(1), v6(2), v6(1), v6(3), v4(1), v4(2)];
    let outcome = race(&all.map(|address| (address, SILENT)));
    let order = [v6(1), v4(1), v6(2), v4(2), v6(3)];
    assert_eq!(outcome.begun, [0, 1, 2, 3, 4].map(|at| (order[at], 250 * at as u64)));
    assert_eq!(outcome.result, Err(order.map(|address| (address, "silent")).to_vec()));
    assert_eq!(outcome.at, 21_000);
}

#[test]
fn an_attempt_that_is_slow_may_still_win() {
    let outcome = race(&[(v4(1), (400, Ok(()))), (v6(1), SILENT)]);
    assert_eq!((outcome.result, outcome.at), (Ok(v4(1)), 400));
}

#[tokio::test]
async fn without_addresses_there_is_an_error() {
    let none = connect_any([], |_| async { Err::<(), _>(fmt::Error) }).await;
    let error = none.unwrap_err();
    assert_eq!(error.to_string(), "there is no address to connect to");
    assert!(core::error::Error::source(&error).is_none());
}

#[tokio::test]
async fn the_error_names_all_addresses_and_has_a_cause() {
    let failing = connect_any([v4(1), v4(2)], |_| async { Err::<(), _>(fmt::Error) }).await;
    let error = failing.unwrap_err();
    let text = "cannot connect to any of 192.0.2.1:443, 192.0.2.2:443";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.attempts().len(), 2);
    assert!(core::error::Error::source(&error).is_some());
}
