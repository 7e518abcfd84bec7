//! Properties that no single event can show: they hold across the flows of a run, or between a run
//! and its twin, which is the same setup in a changed network.
//!
//! Each property has a module that creates a [`Comparison`] from a [`Subject`]: it determines which
//! runs of the subject's setup and of its twins are needed, and judges their outcomes. Fairness is
//! in [`fairness`]; the other modules compare runs. [`standard()`] contains all comparisons that
//! Clearway's controllers must pass.

pub mod acknowledgement_aggregation;
pub mod batches;
mod comparison;
pub mod datagram_size;
pub mod deleted_losses;
pub mod fairness;
pub mod idle_time;
pub mod jitter;
mod median;
pub mod round_trip_range;
mod standard;
pub mod start_order;
pub mod tap;
pub mod time_scale;
mod twin;
mod verdict;

pub use comparison::Comparison;
pub use standard::standard;
pub use twin::{Inapplicable, Subject};
pub use verdict::{Bound, Unit, Verdict};
