//! States as named values, so that a search over histories can distinguish them.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::SendIndex;

/// Reports every value that the next decisions depend on.
///
/// A search over the states that a controller can reach treats two states as one if they have the
/// same values. A missing value hides states, so implementations destructure their fields by name,
/// and the compiler reports each new field. Not included are parameters, which never change;
/// counters for observers only; state saved to undo a reduction, which matters only where losses
/// turn out to be spurious; and random numbers drawn later.
pub trait Inspect {
    /// Calls `visit` with each value and its name: always the same names in the same order, except
    /// for the parts of an optional value, which follow a [`StateValue::Flag`] that says whether
    /// they are present.
    fn inspect(&self, visit: &mut Visit<'_>);
}

/// Receives a name (lower-case letters, digits and underscores) and its value.
pub type Visit<'a> = dyn FnMut(&'static str, StateValue) + 'a;

/// One value of a state. The variant determines what it may be compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StateValue {
    /// There is no value now.
    Absent,
    /// Whether something holds.
    Flag(bool),
    /// One of a fixed set of names.
    Word(&'static str),
    /// A number of things.
    Count(u64),
    /// An amount of data in bytes.
    Bytes(u64),
    /// The total bytes that had been delivered on the path at some time.
    Delivered(u64),
    /// The total bytes that had been lost on the path at some time.
    Lost(u64),
    /// The number of a round trip.
    Round(u64),
    /// A packet's place in the order of sending.
    Index(SendIndex),
    /// A point in time.
    Time(Timestamp),
    /// A length of time.
    Duration(Duration),
    /// A rate.
    Rate(Rate),
    /// A number that need not be an integer.
    Fraction(f64),
}

impl StateValue {
    /// `make` applied to `value`, or [`Absent`](Self::Absent).
    pub fn optional<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, make)
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
