//! Combines several observers of one connection.

use clearway::{Observation, Observer, Timestamp};

/// Returns an observer that forwards everything to all of `observers`; `None` if there are none.
pub(crate) fn together(mut observers: Vec<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
    match observers.len() {
        0 | 1 => observers.pop(),
        _ => Some(Box::new(Together(observers))),
    }
}

struct Together(Vec<Box<dyn Observer>>);

impl Observer for Together {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        for observer in &mut self.0 {
            observer.observe(now, observation);
        }
    }
}
