//! Watches a run, keeps books of its own, and says which property was violated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_transport::{Observation, Observer};
use clearway_units::Timestamp;

use crate::world::EndId;

/// A property that did not hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// Its ID, such as "L1".
    pub property: &'static str,
    /// When.
    pub at: Timestamp,
    /// At which end.
    pub end: EndId,
    /// What was seen, and what should have been.
    pub explanation: String,
    /// What happened last, the newest at the end.
    pub last_events: Vec<String>,
}

/// Watches all ends of a run. Clones watch the same run.
#[derive(Clone, Debug, Default)]
pub struct Checker(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    violation: Option<Violation>,
    /// The smallest window of each server.
    lowest_window: Vec<Option<(u64, u64)>>,
}

impl Checker {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What watches the connection at `end`.
    pub fn observer(&self, end: EndId) -> Box<dyn Observer> {
        Box::new(Eye { end, checker: self.clone() })
    }

    /// A datagram of `size` bytes was handed to the network.
    pub fn on_submitted(&self, _now: Timestamp, _from: EndId, _size: usize) {}

    /// The network delivered a datagram of `size` bytes.
    pub fn on_delivered(&self, _now: Timestamp, _to: EndId, _size: usize) {}

    /// An end has done all that it can do now.
    pub fn on_settled(
        &self,
        _now: Timestamp,
        _end: EndId,
        _deadline: Option<Timestamp>,
        _has_backlog: bool,
    ) {
    }

    /// Whether a property was violated.
    pub fn is_violated(&self) -> bool {
        self.books().violation.is_some()
    }

    /// The property that was violated, if one was.
    pub fn violation(&self) -> Option<Violation> {
        self.books().violation.clone()
    }

    /// Whether the window of the sender at `end` reached the least that its controller ever sets.
    pub fn reached_floor(&self, end: EndId) -> bool {
        let books = self.books();
        let lowest = books.lowest_window.get(end.flow).copied().flatten();
        lowest.is_some_and(|(window, minimum)| window <= minimum)
    }
}

struct Eye {
    end: EndId,
    checker: Checker,
}

impl Observer for Eye {
    fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
        if let Observation::Metrics(metrics) = observation
            && self.end.side == crate::world::Side::Server
        {
            let mut books = self.checker.books();
            if books.lowest_window.len() <= self.end.flow {
                books.lowest_window.resize(self.end.flow + 1, None);
            }
            let seen = (metrics.congestion.window, metrics.congestion.minimum_window);
            let lowest = &mut books.lowest_window[self.end.flow];
            *lowest = Some(lowest.map_or(seen, |lowest| lowest.min(seen)));
        }
    }
}
