//! Properties that one event cannot show: they hold between the flows of a run, or between a run and
//! its twin in another network.
//!
//! Each property has a module that makes a [`Comparison`] of a [`Subject`]: it says which runs are needed,
//! of the subject's setup and of its twins, and judges what comes of them. Fairness is in [`fairness`], the
//! rest compares runs. [`standard`] has all that is asked of our controllers.

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
