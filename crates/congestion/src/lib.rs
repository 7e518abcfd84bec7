//! Congestion control as pure state machines: no clock, no socket, no transport.
//!
//! A transport tells a [`Controller`] what was handed to the network ([`Controller::on_sent`]) and,
//! once per received acknowledgement, everything that it taught ([`Controller::on_acknowledgement`]).
//! A controller answers with a window and a pacing rate. It never guesses: whether the sender was
//! limited by the window, and for how long, are facts in the event (laws 3, 4 and 6 in ARCHITECTURE.md).

mod algorithm;
mod base;
mod bbr;
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

#[cfg(test)]
mod testing;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use bbr::Bbr;
pub use controller::{
    Acknowledgement, Controller, ControllerFactory, ControllerParameters, Figure, Phase, Quantity,
    RttSnapshot, SendIndex, SentPacket, Snapshot, SpuriousLoss, Suppressor, Suppressors,
};
pub use cubic::Cubic;
pub use delivery_rate::{DeliveryRateSampler, DeliverySnapshot, RateSample};
pub use inspect::{Inspect, StateValue, Visit};
pub use limitation::{Held, Limitation, SendLimit};
pub use pacer::Pacer;
pub use reno::Reno;
