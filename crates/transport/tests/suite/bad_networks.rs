//! Tests of handshakes over very bad networks (RFC 9002 §6.2, RFC 9000 §8.1).

use crate::support::{
    self, Pair, both, delayed, large_tls, lossy, milliseconds, probability, quiet, seconds, tls,
};
use clearway_network::{Conditions, Corrupt, LinkConfig, LossModel, LossRule, Way, Window};
use clearway_transport::{Side, TransportConfig};
use clearway_wire::PacketType;

/// RFC 9002 §6.2.2.1: a client keeps sending probes. `Pair` checks every datagram against the
/// anti-amplification limit (RFC 9000 §8.1).
#[test]
fn completes_under_30_percent_loss_both_ways_on_every_seed() {
    for seed in 0..40 {
        let tls = if seed % 2 == 0 { tls() } else { large_tls() };
        let mut pair = Pair::with_tls(lossy(30.0, 15, seed), quiet(), quiet(), tls);
        pair.establish_within(seconds(300));
    }
}

#[test]
fn totals_are_those_of_the_statistics() {
    let mut pair = Pair::with_tls(lossy(30.0, 15, 3), quiet(), quiet(), large_tls());
    pair.establish_within(seconds(300));
    let mut eventful = 0;
    for (totals, statistics) in [
        (pair.client().totals(), pair.client().statistics()),
        (pair.server().totals(), pair.server().statistics()),
    ] {
        eventful += totals.packets_lost + totals.probe_timeouts;
        assert_eq!(totals.packets_sent, statistics.packets_sent);
        assert_eq!(totals.packets_received, statistics.packets_received);
        assert_eq!(totals.packets_dropped, statistics.packets_dropped);
        assert_eq!(totals.packets_lost, statistics.packets_lost);
        assert_eq!(totals.packets_spuriously_lost, statistics.packets_spuriously_lost);
        assert_eq!(totals.probe_timeouts, statistics.probe_timeouts);
    }
    assert!(eventful > 0);
}

/// RFC 9001 §5.3: a packet that was corrupted in transit is dropped without any other effect.
#[test]
fn completes_when_30_percent_of_the_datagrams_are_corrupted() {
    for seed in 0..40 {
        for within in [None, Some(40)] {
            let corrupt = Corrupt { probability: probability(30.0), within, ..Corrupt::default() };
            let conditions =
                Conditions { delay: milliseconds(15), corrupt, ..Conditions::default() };
            let mut pair = Pair::new(both(conditions, seed));
            pair.establish_within(seconds(300));
        }
    }
}

#[test]
fn completes_over_a_satellite() {
    let mut pair = Pair::with_tls(delayed(375, 1), quiet(), quiet(), large_tls());
    let start = pair.now;
    pair.establish();
    let took = pair.now.saturating_since(start);
    // The handshake takes one round trip for address validation, because the server's first flight
    // is large, and two for the rest.
    assert!(took <= milliseconds(3 * 750), "{took:?}");
    let rtt = pair.client().statistics().minimum_rtt;
    assert_eq!(rtt, Some(milliseconds(750)));
}

#[test]
fn a_large_certificate_uses_up_the_anti_amplification_limit() {
    let mut pair = Pair::with_tls(delayed(20, 1), quiet(), quiet(), large_tls());
    pair.establish();
    let (received, sent) = pair.before_validation;
    assert_eq!(sent, 3600, "the limit is used up; {received} bytes were received");
}

/// RFC 9002 §6.2.2.1: the server is at the anti-amplification limit, and everything that it sent is
/// lost. Only the client can break the deadlock, and it must do so although it has nothing in
/// flight.
#[test]
fn the_client_breaks_the_deadlock_of_a_server_at_its_limit() {
    let mut pair = Pair::with_tls(delayed(20, 1), quiet(), quiet(), large_tls());
    let (mut from_client, mut from_server) = (0, 0);
    pair.filter = Some(Box::new(move |_, way, payload| {
        // Of the server's first flight, only the Initial packet arrives, which acknowledges the
        // client's Initial packet; the client's ACK of it is lost.
        match way {
            Way::ToServer => from_client += 1,
            Way::ToClient => from_server += 1,
        }
        match (way, from_client, from_server) {
            (Way::ToClient, _, 1) => payload.truncate(first_packet_len(payload)),
            (Way::ToClient, _, 2 | 3) | (Way::ToServer, 2, _) => return false,
            _ => {}
        }
        true
    }));
    pair.establish_within(seconds(20));
    let probes = pair.watch.sent(Side::Client);
    assert!(probes.iter().any(|packet| packet.is_probe), "the client sent no probe");
}

/// RFC 9001 §5.7: Handshake packets that arrive before the Initial packet with their keys are
/// buffered.
#[test]
fn packets_that_arrive_before_their_keys_are_kept() {
    let mut pair = Pair::with_tls(delayed(20, 1), quiet(), quiet(), large_tls());
    let first = std::rc::Rc::new(std::cell::RefCell::new(None));
    let place = first.clone();
    pair.filter = Some(Box::new(move |_, way, payload| {
        let is_first = way == Way::ToClient && place.borrow().is_none();
        if is_first {
            *place.borrow_mut() = Some(payload.clone());
        }
        !is_first
    }));
    pair.run_for(milliseconds(41));
    assert!(pair.watch.received(Side::Client).is_empty());
    let mut late = first.borrow_mut().clone().unwrap();
    pair.deliver(Way::ToClient, support::address(support::SERVER), &mut late);
    pair.establish_within(milliseconds(100));
    let early = pair.watch.sent(Side::Server);
    let early = early.iter().filter(|packet| packet.packet_type == PacketType::Handshake);
    // The first packet was in the delayed datagram; the second and third arrived before it.
    let early: Vec<u64> = early.take(3).map(|packet| packet.number).collect();
    let received = pair.watch.received(Side::Client);
    let is_received = |number: &u64| {
        received
            .iter()
            .any(|packet| packet.packet_type == PacketType::Handshake && packet.number == *number)
    };
    assert!(early.iter().all(is_received), "{early:?} {received:?}");
}

/// RFC 9002 §6.2.4: when the server's first flight is lost and the probe timeout expires, the
/// entire flight is retransmitted, twice, so that the repeated loss of one of those datagrams does
/// not matter.
#[test]
fn a_lost_first_flight_costs_one_probe_timeout() {
    let mut pair = Pair::new(delayed(15, 1));
    let start = pair.now;
    let mut from_server_later = 0;
    pair.filter = Some(Box::new(move |now, way, _| {
        let is_first_flight = now.saturating_since(start) < milliseconds(500);
        from_server_later += usize::from(way == Way::ToClient && !is_first_flight);
        way == Way::ToServer || from_server_later > 1
    }));
    pair.establish_within(milliseconds(1100));
}

/// RFC 9002 §6.2.3: an endpoint that receives retransmitted CRYPTO data retransmits its own without
/// waiting for its probe timeout, which is one second here.
#[test]
fn retransmitted_crypto_data_is_answered_before_the_probe_timeout() {
    let mut pair = Pair::new(delayed(15, 1));
    let start = pair.now;
    let (mut from_client, mut from_server) = (0, 0);
    let repetition = std::rc::Rc::new(std::cell::RefCell::new(None));
    let place = repetition.clone();
    pair.filter = Some(Box::new(move |now, way, payload| {
        if way == Way::ToServer {
            // These are the client's probes, and the first datagram with its Finished message.
            from_client += 1;
            return !(2..=4).contains(&from_client);
        }
        if now.saturating_since(start) < milliseconds(500) {
            return false;
        }
        from_server += 1;
        if from_server == 2 {
            *place.borrow_mut() = Some(payload.clone());
        }
        from_server != 2
    }));
    pair.run_for(milliseconds(1100));
    assert!(!pair.client().is_handshaking() && pair.server().is_handshaking());
    let mut repetition = repetition.borrow_mut().take().unwrap();
    pair.deliver(Way::ToClient, support::address(support::SERVER), &mut repetition);
    pair.establish_within(milliseconds(100));
}

/// A client and a server with the default handshake timeout complete the handshake under 30 % loss
/// in both directions, and rarely need longer than the second probe timeout.
#[test]
fn heavy_loss_does_not_exceed_the_default_handshake_timeout() {
    let with_defaults = || TransportConfig::builder().max_idle_timeout(None).build().unwrap();
    let mut slow = 0;
    for seed in 0..200 {
        let mut pair = Pair::with(lossy(30.0, 15, seed), with_defaults(), with_defaults());
        let start = pair.now;
        pair.establish_within(seconds(20));
        slow += usize::from(pair.now.saturating_since(start) > milliseconds(3200));
    }
    assert!(slow < 20, "{slow} of 200 handshakes took longer than 3.2 s");
}

/// Returns the length of the Initial packet at the start of a datagram; 0 if it starts with another
/// packet.
fn first_packet_len(datagram: &[u8]) -> usize {
    use clearway_wire::header::ProtectedHeader;
    match ProtectedHeader::decode(datagram, 8) {
        Ok(header) if header.packet_type().is_some_and(|(kind, _)| kind == PacketType::Initial) => {
            header.packet_len
        }
        _ => 0,
    }
}

/// RFC 9000 §14.1: a datagram with an Initial packet from a client, or with an ack-eliciting Initial packet
/// from a server, has at least 1200 bytes.
#[test]
fn datagrams_with_initial_packets_are_expanded() {
    for seed in 0..6 {
        let link = lossy(20.0, 15, seed);
        let mut pair = Pair::with_tls(link, quiet(), quiet(), large_tls());
        pair.filter = Some(Box::new(move |_, way, payload| {
            let has_initial = first_packet_len(payload) > 0;
            assert!(!has_initial || way == Way::ToClient || payload.len() >= 1200);
            true
        }));
        pair.establish_within(seconds(300));
    }
}

/// RFC 9001 §4.9: Initial and Handshake keys are discarded by the time the handshake is confirmed,
/// and nothing is sent with them afterward.
#[test]
fn only_1_rtt_packets_are_sent_after_confirmation() {
    let mut pair = Pair::new(lossy(20.0, 15, 3));
    pair.establish_within(seconds(100));
    let confirmed = pair.now;
    pair.client().ping();
    pair.server().ping();
    pair.run_for(seconds(30));
    for side in [Side::Client, Side::Server] {
        for packet in pair.watch.sent(side).iter().filter(|packet| packet.at > confirmed) {
            assert_eq!(packet.packet_type, PacketType::OneRtt, "{packet:?}");
        }
    }
}

/// The path delivers nothing in one direction for ten seconds, and then works.
#[test]
fn completes_after_an_outage_of_ten_seconds() {
    for way in [Way::ToServer, Way::ToClient] {
        let mut pair = Pair::new(delayed(20, 1));
        let start = pair.now;
        pair.filter = Some(Box::new(move |now, to, _| to != way || now >= start + seconds(10)));
        pair.establish_within(seconds(60));
    }
}

#[test]
fn the_first_datagrams_of_either_end_may_be_lost() {
    for lost in 1..8 {
        let rule = |count| {
            vec![LossRule {
                window: Window::Always,
                model: LossModel::List { numbers: vec![count] },
            }]
        };
        for (up, down) in [(lost, 0), (0, lost), (lost, lost)] {
            let link = LinkConfig {
                to_server: Conditions {
                    delay: milliseconds(20),
                    loss: rule(up),
                    ..Default::default()
                },
                to_client: Conditions {
                    delay: milliseconds(20),
                    loss: rule(down),
                    ..Default::default()
                },
                seed: lost,
                ..LinkConfig::default()
            };
            let mut pair = Pair::with_tls(link, quiet(), quiet(), large_tls());
            pair.establish_within(seconds(60));
        }
    }
}
