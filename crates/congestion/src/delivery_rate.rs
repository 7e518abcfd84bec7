//! The delivery-rate sampler (draft-ietf-ccwg-bbr-06, "Delivery Rate Samples").

use core::time::Duration;

use crate::DeliverySnapshot;
use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;
use clearway_units::{Rate, Timestamp};

/// The network's delivery rate, measured over one flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub struct RateSample {
    /// The delivery rate.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// The length of the interval.
    pub interval: Duration,
    /// `DeliverySnapshot::delivered` of the sampled packet.
    pub prior_delivered: u64,
    /// Whether the sender was application-limited, which makes the rate a lower bound.
    pub is_application_limited: bool,
}

/// Measures the network's delivery rate, using the snapshot taken when each packet was sent.
#[derive(Clone, Debug, Pack)]
pub struct DeliveryRateSampler {
    delivered: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    lost: u64,
    /// Packets sent before this many bytes are delivered were sent while application-limited; 0 if
    /// none.
    application_limited_until: u64,
    /// The most recently sent of the packets delivered since the last sample.
    newest: Option<crate::SentPacket>,
}

impl DeliveryRateSampler {
    /// Creates a sampler that has not recorded any delivery.
    pub fn new(now: Timestamp) -> Self {
        Self {
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            lost: 0,
            application_limited_until: 0,
            newest: None,
        }
    }

    /// Records that a packet of `bytes` bytes was sent while `in_flight_before` bytes were in
    /// flight.
    pub fn on_sent(
        &mut self,
        now: Timestamp,
        bytes: u64,
        in_flight_before: u64,
    ) -> DeliverySnapshot {
        if in_flight_before == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliverySnapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: in_flight_before.saturating_add(bytes),
            lost: self.lost,
            is_application_limited: self.application_limited_until != 0,
        }
    }

    /// Records that a packet was newly acknowledged.
    pub fn on_delivered(&mut self, now: Timestamp, packet: &crate::SentPacket) {
        self.delivered = self.delivered.saturating_add(packet.bytes);
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| newest.index < packet.index) {
            self.newest = Some(*packet);
        }
        if self.delivered > self.application_limited_until {
            self.application_limited_until = 0;
        }
    }

    /// Records that bytes were declared lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
    }

    /// Records that the sender ran out of data with `in_flight` bytes in flight.
    pub fn on_application_limited(&mut self, in_flight: u64) {
        self.application_limited_until = self.delivered.saturating_add(in_flight).max(1);
    }

    /// Returns the sample for the event whose deliveries were recorded since the last call; `None`
    /// if nothing was delivered, or if the interval is too short to be meaningful. The interval ends
    /// with the newest delivery, regardless of when this is called.
    pub fn sample(&mut self, minimum_rtt: Option<Duration>) -> Option<RateSample> {
        let packet = self.newest.take()?;
        let noted = packet.delivery;
        self.first_sent_at = packet.sent_at;
        let send_elapsed = packet.sent_at.saturating_since(noted.first_sent_at);
        let ack_elapsed = self.delivered_at.saturating_since(noted.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        if minimum_rtt.is_some_and(|minimum| interval < minimum) {
            return None;
        }
        let delivered = self.delivered.saturating_sub(noted.delivered);
        let rate = Rate::from_transfer(delivered, interval).filter(|rate| *rate > Rate::ZERO)?;
        Some(RateSample {
            rate,
            delivered,
            interval,
            prior_delivered: noted.delivered,
            is_application_limited: noted.is_application_limited,
        })
    }

    /// Returns the bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the bytes declared lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Inspect for DeliverySnapshot {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            delivered,
            delivered_at,
            first_sent_at,
            in_flight,
            lost,
            is_application_limited,
        } = *self;
        visit("sent_when_delivered", StateValue::Delivered(delivered));
        visit("sent_after_delivery_at", StateValue::Time(delivered_at));
        visit("flight_began_at", StateValue::Time(first_sent_at));
        visit("sent_when_in_flight", StateValue::Bytes(in_flight));
        visit("sent_when_lost", StateValue::Lost(lost));
        visit("sent_when_application_limited", StateValue::Flag(is_application_limited));
    }
}

impl Inspect for DeliveryRateSampler {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            delivered,
            delivered_at,
            first_sent_at,
            lost,
            application_limited_until,
            newest,
        } = *self;
        visit("delivered", StateValue::Delivered(delivered));
        visit("delivered_at", StateValue::Time(delivered_at));
        visit("first_sent_at", StateValue::Time(first_sent_at));
        visit("lost", StateValue::Lost(lost));
        visit("application_limited_until", StateValue::Bytes(application_limited_until));
        visit("has_newest", StateValue::Flag(newest.is_some()));
        if let Some(crate::SentPacket { index, bytes, sent_at, delivery }) = newest {
            visit("newest_index", StateValue::Index(index));
            visit("newest_bytes", StateValue::Bytes(bytes));
            visit("newest_sent_at", StateValue::Time(sent_at));
            delivery.inspect(visit);
        }
    }
}

#[cfg(test)]
#[path = "delivery_rate_tests.rs"]
mod tests;
