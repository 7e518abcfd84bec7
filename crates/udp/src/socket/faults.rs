//! Fault injection for tests: makes the kernel appear to reject calls on a socket, which never
//! happens on loopback. Requires the cargo feature `faults`.

use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;

/// The injected outcome of a call to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The call fails with this error.
    Error(Errno),
    /// The call sends or receives at most this many messages.
    AtMost(usize),
}

/// The direction of a call to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// sendmsg(2) or sendmmsg(2).
    Send,
    /// recvmmsg(2).
    Receive,
}

/// A fault that begins at a given call on a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The direction of the affected calls.
    pub call: Call,
    /// The number of the first affected call, among the calls of its direction.
    pub number: usize,
    /// The injected outcome.
    pub fault: Fault,
    /// Duration for which subsequent calls in this direction are also affected.
    pub lasts: Duration,
}

/// Counts the calls on a socket, and injects faults into some of them. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    plan: Option<Plan>,
    /// The time at which the fault began.
    began: Option<Instant>,
    sends: usize,
    receives: usize,
    /// If set, every batch whose number is divisible by this is rejected for lack of room.
    shortage: Option<usize>,
    offered: usize,
}

impl Faults {
    /// Creates the state for at most one planned fault.
    pub fn planned(plan: Option<Plan>) -> Self {
        Self(Arc::new(Mutex::new(State { plan, ..State::default() })))
    }

    /// Creates state that makes the socket reject every batch whose number is divisible by `every`
    /// for lack of room.
    pub fn shortage(every: Option<usize>) -> Self {
        Self(Arc::new(Mutex::new(State { shortage: every, ..State::default() })))
    }

    /// Returns the number of calls so far in a direction.
    pub fn calls(&self, call: Call) -> usize {
        let mut state = self.lock();
        *state.counter(call)
    }

    /// Returns whether the fault has begun.
    pub fn has_begun(&self) -> bool {
        self.lock().began.is_some()
    }

    /// Returns whether there is room for the next batch. If there is none, the batch keeps its
    /// number.
    pub(super) fn admits(&self) -> bool {
        let mut state = self.lock();
        let number = state.offered + 1;
        let admits = state.shortage.is_none_or(|every| !number.is_multiple_of(every));
        state.offered = number - usize::from(!admits);
        admits
    }

    /// Returns whether there is no room for the next batch. There will be room when sending is
    /// retried.
    pub(super) fn refuses(&self) -> bool {
        let refuses = !self.admits();
        self.lock().offered += usize::from(refuses);
        refuses
    }

    /// Counts a call. Returns the maximum number of messages that it may carry.
    ///
    /// # Errors
    /// Returns the injected error.
    pub(super) fn on_call(&self, call: Call) -> io::Result<usize> {
        let mut state = self.lock();
        match state.next(call) {
            None => Ok(usize::MAX),
            Some(Fault::AtMost(messages)) => Ok(messages),
            Some(Fault::Error(errno)) => Err(errno.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn counter(&mut self, call: Call) -> &mut usize {
        match call {
            Call::Send => &mut self.sends,
            Call::Receive => &mut self.receives,
        }
    }

    fn next(&mut self, call: Call) -> Option<Fault> {
        let counter = self.counter(call);
        let number = *counter;
        *counter += 1;
        let plan = self.plan.filter(|plan| plan.call == call)?;
        let is_first = number == plan.number;
        if is_first {
            self.began = Some(Instant::now());
        }
        let lasts = self.began.is_some_and(|began| began.elapsed() < plan.lasts);
        (is_first || lasts).then_some(plan.fault)
    }
}
