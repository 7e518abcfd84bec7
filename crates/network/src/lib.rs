//! What a network does to datagrams, as a pure state machine that takes the time.
//!
//! A [`Link`] is a wire between one side called the client and one called the server. Each of its two
//! directions has its own [`Conditions`]: rate and queue, delay and jitter, loss, reordering,
//! duplication, corruption, a largest datagram, what happens to ECN. A [`Rebind`] makes the NAT in
//! front of the client forget its mapping. The lab drives a link in virtual time, a relay drives the
//! same link in real time over UDP sockets.
//!
//! ```
//! use clearway_network::{Conditions, Datagram, Ecn, Link, LinkConfig, Way, parse_rate};
//! use clearway_units::Timestamp;
//! use std::time::Duration;
//!
//! let slow = Conditions {
//!     delay: Duration::from_millis(15),
//!     rate: Some(parse_rate("10mbit")?),
//!     ..Conditions::default()
//! };
//! let mut link = Link::new(LinkConfig { to_server: slow, seed: 7, ..LinkConfig::default() });
//! let datagram = Datagram { payload: vec![0; 1250], ecn: Ecn::NotEct, flow: 0 };
//! link.submit(Timestamp::ORIGIN, Way::ToServer, datagram);
//! // 1 ms on the wire, then 15 ms of delay.
//! assert_eq!(link.deadline(), Some(Timestamp::from_nanos(16_000_000)));
//! # Ok::<(), clearway_network::ParseError>(())
//! ```
//!
//! # The way of a datagram
//!
//! All is decided at the moment in which a datagram enters, in this order:
//!
//! 1. ECN bleaching; a datagram larger than the direction's limit is dropped.
//! 2. The bottleneck: it waits in the queue (or finds it full), then takes its time on the wire. A
//!    long wait may mark it CE.
//! 3. Loss. A lost datagram has still taken its place in the queue and its time on the wire.
//! 4. Corruption, then duplication: the copy is as corrupt as the original and arrives with it.
//! 5. Delay, jitter, reordering, and the tick of the release times.
//!
//! # Randomness
//!
//! The seed decides everything. Each direction and each impairment draws from a source of its own, for
//! every datagram that enters, whatever the other impairments do to it. So two runs that differ in one
//! impairment can be compared: the others do to the same datagrams what they did before.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod bottleneck;
mod conditions;
mod counters;
mod datagram;
mod direction;
mod link;
mod loss;
mod parse;
mod probability;
mod rebind;
mod window;

#[cfg(test)]
mod testing;

pub use conditions::{Conditions, Corrupt, Jitter, QueueLimit, Reorder, Step};
pub use counters::{Counters, WayCounters};
pub use datagram::{Datagram, Delivery, DropReason, Ecn, Outcome, Way};
pub use direction::PIPE_LIMIT;
pub use link::{Link, LinkConfig};
pub use loss::{LossModel, LossRule};
pub use parse::{ParseError, parse_duration, parse_probability, parse_rate, parse_size};
pub use probability::Probability;
pub use rebind::Rebind;
pub use window::Window;
