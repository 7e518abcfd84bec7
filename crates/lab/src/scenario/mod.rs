//! Networks, traffic, and what is expected of them.

mod expectations;

pub use expectations::{Expectations, ShareBound};
