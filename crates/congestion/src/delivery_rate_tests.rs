use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use super::DeliveryRateSampler;
use crate::testing::ms;
use crate::{SendIndex, SentPacket};

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(ms(milliseconds))
}

struct Path {
    sampler: DeliveryRateSampler,
    next: u64,
    in_flight: u64,
}

impl Path {
    fn new() -> Self {
        Self { sampler: DeliveryRateSampler::new(at(0)), next: 0, in_flight: 0 }
    }

    fn send(&mut self, now: Timestamp, bytes: u64) -> SentPacket {
        let delivery = self.sampler.on_sent(now, bytes, self.in_flight);
        self.in_flight += bytes;
        self.next += 1;
        SentPacket { index: SendIndex(self.next), bytes, sent_at: now, delivery }
    }

    fn deliver(&mut self, now: Timestamp, packets: &[SentPacket]) {
        for packet in packets {
            self.in_flight -= packet.bytes;
            self.sampler.on_delivered(now, packet);
        }
    }
}

fn bytes_per_second(bytes: u64) -> Rate {
    Rate::from_bytes_per_second(bytes)
}

#[test]
fn without_deliveries_there_is_no_sample() {
    let mut path = Path::new();
    assert_eq!(path.sampler.sample(None), None);
    path.send(at(1), 1000);
    path.sampler.on_lost(1000);
    assert_eq!(path.sampler.sample(None), None);
    assert_eq!((path.sampler.delivered(), path.sampler.lost()), (0, 1000));
}

#[test]
fn a_steady_flow_is_measured_exactly() {
    let mut path = Path::new();
    // A packet of 1000 bytes is sent every millisecond and acknowledged 20 ms later.
    let mut packets = Vec::new();
    for now in 0..200 {
        if now >= 20 {
            let packet = packets[now as usize - 20];
            path.deliver(at(now), &[packet]);
            let sample = path.sampler.sample(Some(ms(20))).unwrap();
            if now > 60 {
                assert_eq!(sample.rate, bytes_per_second(1_000_000));
                assert_eq!(sample.interval, ms(20));
                assert_eq!(sample.delivered, 20_000);
                assert_eq!(sample.prior_delivered, packet.delivery.delivered);
            }
        }
        packets.push(path.send(at(now), 1000));
    }
}

#[test]
fn compressed_acknowledgements_do_not_raise_the_rate() {
    let mut path = Path::new();
    let first = path.send(at(0), 1000);
    path.deliver(at(20), &[first]);
    path.sampler.sample(None);
    // Ten packets are sent over 100 ms, and one event acknowledges all of them.
    let packets: Vec<_> = (0..10).map(|i| path.send(at(30 + 10 * i), 1000)).collect();
    path.deliver(at(125), &packets);
    let sample = path.sampler.sample(Some(ms(5))).unwrap();
    assert_eq!((sample.delivered, sample.interval), (10_000, ms(95)));
    assert!(sample.rate <= bytes_per_second(10_000 * 1000 / 90));
}

#[test]
fn a_falling_delay_does_not_raise_the_rate() {
    let mut path = Path::new();
    // Ten packets are sent in 100 ms. The first takes 90 ms, and the others catch up with it.
    let early = path.send(at(0), 1000);
    let packets: Vec<_> = (1..9).map(|i| path.send(at(10 * i), 1000)).collect();
    path.deliver(at(90), &[early]);
    path.sampler.sample(None);
    let late = path.send(at(100), 1000);
    path.deliver(at(119), &packets);
    path.deliver(at(120), &[late]);
    let sample = path.sampler.sample(Some(ms(20))).unwrap();
    assert_eq!((sample.delivered, sample.interval), (9000, ms(100)));
}

#[test]
fn sending_in_a_burst_does_not_raise_the_rate() {
    let mut path = Path::new();
    let packets: Vec<_> = (0..10).map(|_| path.send(at(10), 1000)).collect();
    path.deliver(at(110), &packets);
    let sample = path.sampler.sample(None).unwrap();
    assert_eq!(sample.rate, bytes_per_second(100_000));
}

#[test]
fn the_most_recently_sent_packet_gives_the_sample_in_any_order() {
    let mut path = Path::new();
    let old = path.send(at(0), 1000);
    path.deliver(at(50), &[old]);
    path.sampler.sample(None).unwrap();
    let (a, b) = (path.send(at(60), 1000), path.send(at(80), 1000));
    path.deliver(at(130), &[b, a]);
    let sample = path.sampler.sample(None).unwrap();
    assert_eq!(sample.prior_delivered, b.delivery.delivered);
    assert_eq!((sample.delivered, sample.interval), (2000, ms(70)));
    // The send time of the next flight is measured from the packet that yielded the sample.
    let c = path.send(at(130), 1000);
    assert_eq!(c.delivery.first_sent_at, at(130), "nothing was in flight");
    let d = path.send(at(131), 1000);
    path.deliver(at(180), &[c]);
    path.sampler.sample(None);
    assert_eq!(path.send(at(181), 1000).delivery.first_sent_at, c.sent_at);
    assert_eq!(d.delivery.in_flight, 2000);
}

#[test]
fn an_interval_shorter_than_the_minimum_rtt_gives_no_sample() {
    let mut path = Path::new();
    let packet = path.send(at(0), 1000);
    path.deliver(at(19), &[packet]);
    assert_eq!(path.sampler.sample(Some(ms(20))), None);
    assert_eq!(path.sampler.delivered(), 1000, "it still counts as delivered");
    let packet = path.send(at(30), 1000);
    path.deliver(at(50), &[packet]);
    assert!(path.sampler.sample(Some(ms(20))).is_some());
    assert_eq!(path.sampler.sample(None), None, "one sample for each event");
}

#[test]
fn no_time_or_no_bytes_give_no_sample() {
    let mut path = Path::new();
    let packet = path.send(at(5), 1000);
    path.deliver(at(5), &[packet]);
    assert_eq!(path.sampler.sample(None), None);
    let packet = path.send(at(5), 0);
    path.deliver(at(6), &[packet]);
    assert_eq!(path.sampler.sample(None), None, "row 125: no zero samples");
}

#[test]
fn idle_time_is_not_measured() {
    let mut path = Path::new();
    let packet = path.send(at(0), 1000);
    path.deliver(at(20), &[packet]);
    path.sampler.sample(None);
    let packet = path.send(at(100_000), 1000);
    path.deliver(at(100_020), &[packet]);
    assert_eq!(path.sampler.sample(None).unwrap().interval, ms(20));
}

#[test]
fn application_limited_packets_are_marked_until_the_flight_is_delivered() {
    let mut path = Path::new();
    path.sampler.on_application_limited(0);
    let a = path.send(at(0), 1000);
    path.sampler.on_application_limited(path.in_flight);
    let b = path.send(at(1), 1000);
    assert!(a.delivery.is_application_limited && b.delivery.is_application_limited);
    path.deliver(at(20), &[a]);
    assert!(path.sampler.sample(None).unwrap().is_application_limited);
    assert!(path.send(at(20), 1000).delivery.is_application_limited, "limited up to the marker");
    path.deliver(at(21), &[b]);
    let c = path.send(at(21), 1000);
    assert!(!c.delivery.is_application_limited);
    path.deliver(at(41), &[c]);
    assert!(!path.sampler.sample(None).unwrap().is_application_limited);
}

#[test]
fn losses_are_recorded_in_the_packets_sent_after_them() {
    let mut path = Path::new();
    path.send(at(0), 1000);
    path.in_flight -= 1000;
    path.sampler.on_lost(1000);
    assert_eq!(path.send(at(1), 1000).delivery.lost, 1000);
}

#[test]
fn ten_gigabits_over_two_seconds_and_beyond_do_not_overflow() {
    // Row 134.
    let mut path = Path::new();
    let packet = path.send(at(0), 2_500_000_000);
    path.deliver(at(2000), &[packet]);
    let sample = path.sampler.sample(None).unwrap();
    assert_eq!(sample.rate, bytes_per_second(1_250_000_000));
    let packet = path.send(at(2000), u64::MAX);
    path.in_flight = u64::MAX;
    path.sampler.on_application_limited(u64::MAX);
    path.sampler.on_lost(u64::MAX);
    path.sampler.on_lost(u64::MAX);
    path.deliver(at(2000) + Duration::from_nanos(1), &[packet]);
    let sample = path.sampler.sample(None).unwrap();
    assert_eq!(sample.rate, Rate::MAX);
}

#[test]
fn the_interval_ends_with_the_delivery_not_with_the_call() {
    let mut path = Path::new();
    let packets = [path.send(at(0), 1000), path.send(at(5), 1000)];
    path.deliver(at(25), &packets);
    // Losses are detected 30 ms later, and nothing was delivered in the meantime.
    path.sampler.on_lost(1000);
    let sample = path.sampler.sample(Some(ms(20))).unwrap();
    assert_eq!((sample.delivered, sample.interval), (2000, ms(25)));
}
