//! A network simulator for datagrams: a pure state machine that takes the time as an argument.
//!
//! A [`Link`] is a wire between two sides, called the client and the server. Each of its two
//! directions has its own [`Conditions`]: rate and queue, delay and jitter, loss, reordering,
//! duplication, corruption, maximum datagram size, and changes to the ECN field. A [`Rebind`] makes
//! the NAT in front of the client change its mapping; a [`Disturbance`] happens once, at a chosen
//! point. The lab drives a link in virtual time; a relay drives the same link in real time over UDP
//! sockets.
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
//! # The path of a datagram through a link
//!
//! When a datagram enters, all its random values are drawn. It is dropped for the first of these
//! reasons that applies: the direction drops its ECN codepoint, it is too large, the link is full,
//! the policer has too few tokens, the queue is full, or a loss rule applies. A datagram dropped by
//! a loss rule still takes up space in the queue and time on the wire. Changes to the ECN field and
//! corruption are applied at this point too. Then the following happens, in this order:
//!
//! 1. The datagram waits in the queue. An ACK filter may drop it there, and the queue's
//!    [`Discipline`] may drop or mark it when it reaches the head. It then occupies the wire for a
//!    time that follows from a rate or a recorded [`Trace`].
//! 2. If its queueing delay was long, it may be marked CE. It may be duplicated: the copy is as
//!    corrupt as the original and arrives with it.
//! 3. Delay, jitter and reordering, and then the [`Freezes`] and the tick, determine when it is
//!    delivered.
//! 4. The NAT drops datagrams addressed to an old mapping.
//! 5. The receiving [`Host`] has a socket buffer that may be full, and a thread that takes time per
//!    datagram.
//!
//! Each datagram has a number. [`Outcome`], [`Delivery`] and [`Dropped`] contain it, so that a
//! checker can account for every datagram: each datagram that has entered is delivered, dropped or
//! still inside.
//!
//! # Randomness
//!
//! The seed determines everything. Each direction and each impairment has its own random source and
//! draws from it for every datagram that enters, regardless of the other impairments. So two runs
//! that differ in one impairment can be compared: the other impairments treat the same datagrams as
//! before.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod ack_filter;
mod bottleneck;
mod conditions;
mod corruption;
mod counters;
mod datagram;
mod direction;
mod disturbance;
mod flows;
mod freeze;
mod host;
mod impairments;
mod inside;
mod link;
mod loss;
mod parse;
mod pipe;
mod policer;
mod probability;
mod queue;
mod queue_limit;
mod rate;
mod rebind;
mod trace;
mod travel;
mod ways;
mod window;

#[cfg(test)]
mod testing;

pub use ack_filter::AckFilter;
pub use conditions::{Conditions, Corrupt, Jitter, Reorder, Step};
pub use counters::{Counters, WayCounters};
pub use datagram::{Datagram, Delivery, DropReason, Dropped, Ecn, EcnTreatment, Outcome, Way};
pub use direction::PIPE_LIMIT;
pub use disturbance::{Disturbance, Effect, Fate, Moment};
pub use flows::{FLOW_LIMIT, FlowCounters, FlowDelay};
pub use freeze::Freezes;
pub use host::Host;
pub use link::{Link, LinkConfig};
pub use loss::{LossModel, LossRule};
pub use parse::{ParseError, parse_duration, parse_probability, parse_rate, parse_size};
pub use policer::Policer;
pub use probability::Probability;
pub use queue::{CoDel, Discipline, DualPi2};
pub use queue_limit::QueueLimit;
pub use rebind::Rebind;
pub use trace::{Cellular, Trace, TraceError};
pub use window::Window;
