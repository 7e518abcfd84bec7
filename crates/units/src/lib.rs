//! Basic types that all Clearway crates share.
//!
//! * [`Timestamp`]: the time of an event, in nanoseconds since an origin that the driver chooses.
//! * [`ReleaseTime`]: the earliest time at which something may be sent. Deliberately a separate
//!   type (law 1 in ARCHITECTURE.md): the time at which a pacer releases a packet is not the time
//!   of an event.
//! * [`Rate`]: bytes per second.
//! * [`foreign`]: text from peers, files and other processes, escaped before it is shown.
//! * [`memory`]: parts of a state that use memory only while they are needed.
//! * [`packed`]: compact serialization of state.
//! * [`Timers`]: deadlines, at most one for each key.
//! * [`StreamKeys`]: a map from stream IDs to the keys of their states.
//! * [`AddressPrefix`] and [`FairShares`]: accounting of a limited resource by address prefix.
//! * [`Random`]: the only source of randomness (law 11): seeded, reproducible on every machine.
//!
//! ```
//! use clearway_units::{Random, Rate, Timestamp};
//! use std::time::Duration;
//!
//! let begin = Timestamp::from_nanos(5);
//! let end = begin + Duration::from_millis(10);
//! let rate = Rate::from_transfer(12_500, end.saturating_since(begin));
//! assert_eq!(rate, Some(Rate::from_bits_per_second(10_000_000)));
//! assert_eq!(Random::from_number(7).number(), Random::from_number(7).number());
//! ```

// The derived code refers to this crate by name.
#[cfg(test)]
extern crate self as clearway_units;

mod address_prefix;
mod fair_shares;
pub mod foreign;
pub mod memory;
pub mod packed;
mod random;
mod rate;
mod stream_keys;
mod time;
mod timers;

pub use address_prefix::{AddressPrefix, PeerAddress};
pub use fair_shares::{FairShares, Shortage};
pub use random::Random;
pub use rate::Rate;
pub use stream_keys::StreamKeys;
pub use time::{ReleaseTime, Timestamp};
pub use timers::Timers;
