//! States as named values, so that a search over histories can distinguish them.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::SendIndex;

/// Reports all values that later decisions depend on.
///
/// A search over the states of a controller takes two with the same values for one. A value that is missing here hides
/// states, so implementations destructure themselves by field name, and the compiler reports each new field. Left out are
/// parameters, which never change; counters for observers; values that are saved to undo a reduction, which matter only
/// where losses turn out to be spurious; and random numbers to be drawn later.
pub trait Inspect {
    /// Calls `visit` for each value with its name: always the same names in the same order, except for the parts of an
    /// optional value, which follow a [`StateValue::Flag`] that is set if they are present.
    fn inspect(&self, visit: &mut Visit<'_>);
}

/// Takes a value and its name: lower-case letters, digits and underscores.
pub type Visit<'a> = dyn FnMut(&'static str, StateValue) + 'a;

/// A value of a state. Its variant determines what it can be compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StateValue {
    /// There is none now.
    Absent,
    /// Whether something holds.
    Flag(bool),
    /// One of a fixed set of names.
    Word(&'static str),
    /// A number of things.
    Count(u64),
    /// An amount of data in bytes.
    Bytes(u64),
    /// How many bytes had been delivered on the path at some time, in all.
    Delivered(u64),
    /// How many bytes had been lost on the path at some time, in all.
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
    /// A number that need not be whole.
    Fraction(f64),
}

impl StateValue {
    /// What `make` makes of `value`, or [`Absent`](Self::Absent).
    pub fn optional<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, make)
    }
}
