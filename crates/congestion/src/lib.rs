//! Congestion control as pure state machines: no clock, no socket, no transport.
//!
//! A transport reports to a [`Controller`] each packet that it sends ([`Controller::on_sent`]) and,
//! once per received acknowledgment, all its consequences ([`Controller::on_acknowledgement`]). The
//! controller provides a window and a pacing rate. Whether the sender was limited by the window,
//! and for how long, is part of the event, so that no controller has to infer it (laws 3, 4 and 6
//! in ARCHITECTURE.md).
//!
//! ```
//! use std::time::Duration;
//!
//! use clearway_congestion::{
//!     Acknowledgement, Algorithm, ControllerFactory, ControllerParameters, DeliverySnapshot, RttSnapshot,
//!     SendIndex, SentPacket,
//! };
//! use clearway_units::Timestamp;
//!
//! let mut controller = Algorithm::Cubic.build(&ControllerParameters {
//!     max_datagram_size: 1200,
//!     initial_window: None,
//!     maximum_window: 1 << 30,
//!     seed: 7,
//! });
//! assert_eq!(controller.window(), 12_000);
//!
//! // One packet is sent, and acknowledged 50 ms later, while more data waits for the window.
//! let packet = SentPacket {
//!     index: SendIndex(0),
//!     bytes: 1200,
//!     sent_at: Timestamp::from_nanos(1),
//!     delivery: DeliverySnapshot::default(),
//! };
//! controller.on_sent(&packet, 12_000);
//! let rtt = Duration::from_millis(50);
//! controller.on_acknowledgement(&Acknowledgement {
//!     now: packet.sent_at + rtt,
//!     acked: &[packet],
//!     lost: &[],
//!     next_index: SendIndex(10),
//!     largest_acked: Some(packet.index),
//!     rtt: Some(RttSnapshot { latest: rtt, smoothed: rtt, minimum: rtt, variation: rtt / 2, is_new: true }),
//!     prior_in_flight: 12_000,
//!     bytes_in_flight: 10_800,
//!     persistent_congestion: false,
//!     newly_ce_marked: 0,
//!     rate_sample: None,
//!     total_delivered: 1200,
//!     total_lost: 0,
//!     round: 1,
//!     was_limited: true,
//!     was_window_limited: true,
//!     limited_time: rtt,
//! });
//! assert_eq!(controller.window(), 13_200, "slow start: a byte for each byte acknowledged");
//! ```

mod algorithm;
mod base;
mod bbr;
pub mod conformance;
mod controller;
mod cubic;
mod delivery_rate;
mod episode;
mod hystart;
mod inspect;
mod limitation;
mod pacer;
mod prr;
mod reno;
mod sent_packet;

#[cfg(test)]
mod testing;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use bbr::Bbr;
pub use controller::{
    Acknowledgement, CongestionResponse, Controller, ControllerFactory, ControllerParameters,
    Metric, Phase, Quantity, RttSnapshot, Snapshot, SpuriousLoss, Suppressor, Suppressors,
    UnpackController,
};
pub use cubic::Cubic;
pub use delivery_rate::{DeliveryRateSampler, RateSample};
pub use inspect::{Inspect, StateValue, Visit};
pub use limitation::{Held, Limitation, SendLimit};
pub use pacer::Pacer;
pub use reno::Reno;
pub use sent_packet::{DeliverySnapshot, SendIndex, SentPacket};
