//! Busy polling: a thread polls for datagrams for a short time before it sleeps.
//!
//! Falling asleep and being woken can take longer than the arrival of the next datagram: on a
//! virtual machine whose core goes idle, tens of microseconds, most of which is CPU time. If
//! datagrams are further apart, polling is wasted. The outcome of recent polls determines whether
//! to poll.

use core::time::Duration;

use crate::clock::Clock;
use clearway_units::Timestamp;

/// Maximum time that a thread should poll before it sleeps.
pub const MAX_BUSY_POLL: Duration = Duration::from_millis(1);
/// Maximum number of consecutive sleeps that skip polling.
const MAX_LEFT_OUT: u32 = 63;

/// The way in which a thread waited for events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// Polling found an event.
    Polled,
    /// Polling found no event, and the thread slept afterward.
    PolledThenSlept,
    /// The thread slept without polling.
    Slept,
}

/// Waits for events, and decides before each sleep whether to poll.
///
/// Falling asleep and being woken can take longer than the arrival of the next datagram. If
/// datagrams are further apart, polling is wasted. So after fruitless polls, an increasing number
/// of sleeps skip polling.
#[derive(Debug, Default)]
pub struct BusyPoll {
    /// Number of sleeps that skip polling after the last fruitless poll.
    pause: u32,
    /// Number of those sleeps that are still to come.
    left_out: u32,
}

impl BusyPoll {
    /// Waits with `poll` until something is ready, or until `deadline`, and may busy-poll for at
    /// most `limit` first. `poll` waits for the given time, or indefinitely if it gets none, and
    /// returns whether something is ready. It returns true if a signal interrupts it.
    pub fn wait(
        &mut self,
        clock: &Clock,
        limit: Duration,
        deadline: Option<Timestamp>,
        poll: &mut dyn FnMut(Option<Duration>) -> bool,
    ) -> Waited {
        let polls = !limit.is_zero() && self.begins();
        if polls {
            let has_found = poll_until(clock, clock.now() + limit, deadline, poll);
            self.on_end(has_found);
            if has_found {
                return Waited::Polled;
            }
        }
        let timeout = deadline.map(|deadline| deadline.saturating_since(clock.now()));
        // An interruption by a signal is a spurious wake-up.
        poll(timeout);
        if polls { Waited::PolledThenSlept } else { Waited::Slept }
    }

    /// Returns whether to poll before this sleep.
    fn begins(&mut self) -> bool {
        let is_due = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_due
    }

    /// Schedules the next poll: after n consecutive fruitless polls, the next 2^n - 1 sleeps skip
    /// polling.
    fn on_end(&mut self, has_found: bool) {
        self.pause = if has_found { 0 } else { (2 * self.pause + 1).min(MAX_LEFT_OUT) };
        self.left_out = self.pause;
    }
}

/// Polls at least once, until `end` or `deadline`. Returns whether there is something to do.
fn poll_until(
    clock: &Clock,
    end: Timestamp,
    deadline: Option<Timestamp>,
    poll: &mut dyn FnMut(Option<Duration>) -> bool,
) -> bool {
    loop {
        if poll(Some(Duration::ZERO)) {
            return true;
        }
        let now = clock.now();
        if now >= end {
            return false;
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

    use super::*;
    use crate::clock::poll;

    #[test]
    fn a_wait_ends_with_something_to_do_or_at_its_deadline() {
        let clock = Clock::start();
        let [nothing, something] = [0, 1].map(|it| eventfd(it, EventfdFlags::empty()).unwrap());
        let soon = || Some(clock.now() + Duration::from_millis(2));
        let wait = |busy_poll: &mut BusyPoll, limit: Duration, deadline, event| {
            let mut descriptors = [PollFd::from_borrowed_fd(event, PollFlags::IN)];
            let mut poll = |timeout| poll(&mut descriptors, timeout) != Ok(0);
            let waited = busy_poll.wait(&clock, limit, deadline, &mut poll);
            (waited, descriptors[0].revents().contains(PollFlags::IN))
        };
        let mut busy_poll = BusyPoll::default();
        let (shortest, longest) = (Duration::from_nanos(1), Duration::from_secs(1000));
        for (limit, expected) in [(Duration::ZERO, Waited::Slept), (shortest, Waited::Polled)] {
            let found = wait(&mut busy_poll, limit, None, something.as_fd());
            assert_eq!(found, (expected, true));
        }
        let at_deadline = wait(&mut busy_poll, longest, soon(), nothing.as_fd());
        assert_eq!(at_deadline, (Waited::Polled, false));
        for expected in [Waited::PolledThenSlept, Waited::Slept, Waited::PolledThenSlept] {
            let deadline = soon();
            let in_vain = wait(&mut busy_poll, shortest, deadline, nothing.as_fd());
            assert_eq!(in_vain, (expected, false));
            assert!(deadline.unwrap() <= clock.now());
        }
    }

    #[test]
    fn attempts_in_vain_become_rare_and_one_that_finds_something_makes_them_usual_again() {
        let mut busy_poll = BusyPoll::default();
        let mut sleeps_until_next = |has_found| {
            busy_poll.on_end(has_found);
            (0..).position(|_| busy_poll.begins()).unwrap()
        };
        let in_vain: Vec<_> = (0..8).map(|_| sleeps_until_next(false)).collect();
        assert_eq!(in_vain, [1, 3, 7, 15, 31, 63, 63, 63]);
        assert_eq!(sleeps_until_next(true), 0);
        assert_eq!(sleeps_until_next(false), 1);
    }
}
