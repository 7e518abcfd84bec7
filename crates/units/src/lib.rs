//! Units that every room of Clearway shares.
//!
//! * [`Timestamp`]: when something happened. Nanoseconds since an origin that the driver chooses.
//! * [`ReleaseTime`]: when something may be sent. Deliberately another type (law 1 in
//!   ARCHITECTURE.md): a pacer's promise must never be mistaken for an event that happened.
//! * [`Rate`]: bytes per second.
//! * [`Random`]: the only source of randomness (law 11): seeded, reproducible on every machine.

mod random;
mod rate;
mod time;

pub use random::Random;
pub use rate::Rate;
pub use time::{ReleaseTime, Timestamp};
