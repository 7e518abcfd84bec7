//! Handshakes in networks that hardly let them through (RFC 9002 §6.2, RFC 9000 §8.1).

mod support;

use clearway_network::{Conditions, Corrupt, LinkConfig, LossModel, LossRule, Way, Window};
use clearway_transport::Side;
use clearway_wire::PacketType;
use support::{
    Pair, both, delayed, large_tls, lossy, milliseconds, probability, quiet, seconds, tls,
};

/// RFC 9002 §6.2.2.1, and every datagram counted against the limit of RFC 9000 §8.1 (`Pair` does).
#[test]
fn completes_under_30_percent_loss_both_ways_on_every_seed() {
    for seed in 0..40 {
        let tls = if seed % 2 == 0 { tls() } else { large_tls() };
        let mut pair = Pair::with_tls(lossy(30.0, 15, seed), quiet(), quiet(), tls);
        pair.establish_within(seconds(300));
    }
}

/// RFC 9001 §5.3: a packet that was changed on its way is dropped; nothing else happens.
#[test]
fn completes_when_30_percent_of_the_datagrams_are_corrupted() {
    for seed in 0..40 {
        for within in [None, Some(40)] {
            let corrupt = Corrupt { probability: probability(30.0), maximum_run: None, within };
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
    // One round trip for the address of a server whose first flight is large, two for the rest.
    assert!(took <= milliseconds(3 * 750), "{took:?}");
    let rtt = pair.client().statistics().minimum_rtt;
    assert_eq!(rtt, Some(milliseconds(750)));
}

#[test]
fn a_certificate_beyond_the_limit_waits_for_the_client() {
    let mut pair = Pair::with_tls(delayed(20, 1), quiet(), quiet(), large_tls());
    pair.establish();
    let (received, sent) = pair.before_validation;
    assert_eq!(sent, 3600, "the limit was used, of {received} received");
}

/// RFC 9002 §6.2.2.1: the server is at its limit and everything it sent is lost; only the client can
/// break the silence, and has to, though nothing of its own is outstanding.
#[test]
fn the_client_breaks_the_deadlock_of_a_server_at_its_limit() {
    let mut pair = Pair::with_tls(delayed(20, 1), quiet(), quiet(), large_tls());
    let (mut from_client, mut from_server) = (0, 0);
    pair.filter = Some(Box::new(move |_, way, payload| {
        // Of the server's first flight only the Initial passes, which acknowledges the client's; the
        // client's ACK of it is lost.
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
    assert!(probes.iter().any(|packet| packet.is_probe), "the client probed");
}

/// RFC 9001 §5.7: Handshake packets that overtake the Initial packet with their keys are kept, and
/// nothing has to be sent again.
#[test]
fn packets_that_come_before_their_keys_are_kept() {
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
    let probes = |side| pair.watch.sent(side).iter().filter(|packet| packet.is_probe).count();
    assert_eq!((probes(Side::Client), probes(Side::Server)), (0, 0));
}

/// The length of the Initial packet that begins a datagram; 0 if none does.
fn first_packet_len(datagram: &[u8]) -> usize {
    use clearway_wire::header::ProtectedHeader;
    match ProtectedHeader::decode(datagram, 8) {
        Ok(header) if header.packet_type().is_some_and(|(kind, _)| kind == PacketType::Initial) => {
            header.packet_len
        }
        _ => 0,
    }
}

/// RFC 9000 §14.1: every datagram with an Initial packet of a client, or an ack-eliciting one of a
/// server, has at least 1200 bytes.
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

/// RFC 9001 §4.9: Initial and Handshake keys are gone once the handshake is confirmed, and nothing is
/// sent with them any more.
#[test]
fn nothing_but_1_rtt_packets_after_confirmation() {
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

/// A path that is dead in one direction, and then is not.
#[test]
fn completes_after_a_silence_of_ten_seconds() {
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
                rebind: None,
            };
            let mut pair = Pair::with_tls(link, quiet(), quiet(), large_tls());
            pair.establish_within(seconds(60));
        }
    }
}
