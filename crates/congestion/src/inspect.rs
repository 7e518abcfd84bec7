//! Controller states as named values, so that a state-space search can distinguish them.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::SendIndex;

/// Reports every value that the next decisions depend on.
///
/// A search over the states that a controller can reach treats two states as equal if they have the
/// same values. A missing value hides states, so implementations destructure their fields by name,
/// and the compiler reports each new field. The following is not included: parameters, which never
/// change; counters that are only for observers; state saved to undo a reduction, which matters
/// only if losses turn out to be spurious; and random numbers drawn later.
pub trait Inspect {
    /// Calls `visit` with each value and its name. The names and their order are always the same,
    /// except for the parts of an optional value, which follow a [`StateValue::Flag`] that
    /// indicates whether the parts are present.
    fn inspect(&self, visit: &mut Visit<'_>);
}

/// Receives a name (lower-case letters, digits and underscores) and its value.
pub type Visit<'a> = dyn FnMut(&'static str, StateValue) + 'a;

/// One value of a state. The variant determines what it can be compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StateValue {
    /// There is currently no value.
    Absent,
    /// A Boolean.
    Flag(bool),
    /// One of a fixed set of names.
    Word(&'static str),
    /// A count.
    Count(u64),
    /// An amount of data in bytes.
    Bytes(u64),
    /// The path's total delivered bytes at some point in time.
    Delivered(u64),
    /// The path's total lost bytes at some point in time.
    Lost(u64),
    /// The number of a round trip.
    Round(u64),
    /// A packet's position in send order.
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
    /// Applies `make` to `value`; returns [`Absent`](Self::Absent) if there is none.
    pub fn optional<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, make)
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
