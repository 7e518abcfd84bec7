//! The delivery-rate sampler (draft-cheng-iccrg-delivery-rate-estimation-02).

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

/// What the sampler notes when a packet is handed to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliverySnapshot {
    /// Bytes delivered so far.
    pub delivered: u64,
    /// When the most recent delivery became known.
    pub delivered_at: Timestamp,
    /// When the first packet of this sending flight was sent.
    pub first_sent_at: Timestamp,
    /// Bytes in flight, this packet included.
    pub in_flight: u64,
    /// Bytes declared lost so far.
    pub lost: u64,
    /// Whether the sender had run out of data.
    pub is_application_limited: bool,
}

/// How fast the network delivered, measured over one flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// The delivery rate.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// Over which time.
    pub interval: Duration,
    /// `DeliverySnapshot::delivered` of the packet that the sample was taken from.
    pub prior_delivered: u64,
    /// Whether the sender had run out of data: then the rate is a lower bound.
    pub is_application_limited: bool,
}
