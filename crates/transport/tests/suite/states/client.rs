//! Tests how a client handles packets that are not from its server or that arrive at the wrong
//! time.

use clearway_network::Way;
use clearway_transport::{DropReason, Event, Side};
use clearway_wire::{ResetToken, TransportErrorCode, VarInt, Version};

use super::packets::{self, forged_long, forged_short, ids_of, version_negotiation};
use super::{Effect, Scene, of_server, of_stranger};
use crate::support::versions::own_error;
use crate::support::{Door, Pair, delayed, milliseconds, seconds};

/// The state of the client when the packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The client's first datagram is in transit.
    Begun,
    /// The client has accepted a Retry.
    Retried,
    /// The client's handshake is complete but not confirmed (RFC 9001 §4.1.2).
    Connected,
    Confirmed,
    Closing,
    Draining,
    /// The closing state is over.
    Drained,
    /// The connection was released, and its slot is free.
    Gone,
}

use State::{Begun, Closing, Confirmed, Connected, Drained, Draining, Gone, Retried};

const STATES: [State; 8] = [Begun, Retried, Connected, Confirmed, Closing, Draining, Drained, Gone];

fn scene(state: State) -> Scene {
    let mut pair = Pair::new(delayed(10, 1));
    if state == Retried {
        pair.door = Door::Retry;
    }
    let mut scene = Scene::new(pair);
    let sent = scene.sent[0].clone();
    let pair = &mut scene.pair;
    match state {
        Begun => {}
        Retried => assert!(pair.run_until(seconds(1), |_| sent.get() == 2)),
        Connected => {
            let is_connected = |pair: &mut Pair| pair.client_events.contains(&Event::Connected);
            assert!(pair.run_until(seconds(1), is_connected));
        }
        _ => {
            pair.establish();
            pair.run_for(seconds(1));
        }
    }
    let now = pair.now;
    match state {
        Closing | Drained | Gone => pair.client().close(now, VarInt::ZERO, b""),
        Draining => pair.server().close(now, VarInt::ZERO, b""),
        _ => {}
    }
    pair.settle();
    match state {
        Draining => pair.run_for(milliseconds(11)),
        Drained | Gone => pair.run_for(seconds(5)),
        _ => {}
    }
    if state == Gone {
        assert!(pair.client.release(pair.handle, pair.now).is_some());
        assert!(pair.client.remove_released(pair.handle));
    }
    scene
}

/// Returns the connection IDs of the client and the server, as far as the client knows them.
fn ids(scene: &Scene) -> (Vec<u8>, Vec<u8>) {
    let (first_destination, client) = ids_of(&scene.recorded[0].borrow()[0]);
    let server = scene.recorded[1].borrow().first().map(|datagram| ids_of(datagram).1);
    (client, server.unwrap_or(first_destination))
}

fn negotiation(scene: &Scene, versions: &[Version]) -> Option<Vec<u8>> {
    let (client, server) = ids(scene);
    Some(version_negotiation(&client, &server, versions))
}

fn retry(scene: &Scene) -> Vec<u8> {
    packets::retry(&scene.pair, &scene.recorded[0].borrow()[0])
}

/// Returns the server's last datagram.
fn last(scene: &Scene) -> Option<Vec<u8>> {
    scene.recorded[1].borrow().last().cloned()
}

fn reset(scene: &Scene) -> Option<Vec<u8>> {
    let sent = scene.recorded[0].borrow();
    let short = sent.iter().rev().find(|datagram| datagram[0] & 0x80 == 0)?;
    // Longer than any stateless reset.
    let mut datagram = short.clone();
    datagram.resize(100, 0);
    Some(packets::stateless_reset(&scene.pair, &datagram))
}

const UNKNOWN: Version = Version(0x1a2a_3a4a);

type Make = fn(&Scene) -> Option<Vec<u8>>;

/// A row of the table: the packet, the RFC sections, its sender, and its effect in each state;
/// `None` where the packet cannot exist.
type Row = (&'static str, &'static str, Make, [Option<Effect>; 8]);

const fn dropped(reason: DropReason) -> Option<Effect> {
    Some(Effect::Dropped(reason))
}

const IGNORED: Option<Effect> = Some(Effect::Ignored);
/// A closing endpoint responds to packets that belong to its connection, but less and less often
/// (§10.2.1).
const CLOSE: Option<Effect> = Some(Effect::Answered(1));
const NEGOTIATION: Option<Effect> = dropped(DropReason::VersionNegotiation);
const RETRY: Option<Effect> = dropped(DropReason::Retry);
const NO_KEY: Option<Effect> = dropped(DropReason::KeyUnavailable);
const BROKEN: Option<Effect> = dropped(DropReason::DecryptionFailure);
const UNEXPECTED: Option<Effect> = dropped(DropReason::Unexpected);
const DUPLICATE: Option<Effect> = dropped(DropReason::Duplicate);
const AGAIN: Option<Effect> = Some(Effect::BeginsAgain);

#[rustfmt::skip]
const TABLE: [Row; 14] = [
    //                                  Begun, Retried, Connected, Confirmed, Closing, Draining, Drained, Gone
    ("Version Negotiation without a common version", "RFC 9000 §6.2",
        |it| negotiation(it, &[UNKNOWN]),
        [Some(Effect::NoCommonVersion), NEGOTIATION, NEGOTIATION, NEGOTIATION, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Version Negotiation with a common version", "RFC 9000 §6.2, RFC 9368 §2.1",
        |it| negotiation(it, &[Version::V2]),
        [AGAIN, NEGOTIATION, NEGOTIATION, NEGOTIATION, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Version Negotiation that lists the version in use", "RFC 9000 §6.2",
        |it| negotiation(it, &[Version::V1, UNKNOWN]),
        [NEGOTIATION, NEGOTIATION, NEGOTIATION, NEGOTIATION, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Version Negotiation with another source ID", "RFC 9000 §17.2.1",
        |it| Some(version_negotiation(&ids(it).0, b"another", &[UNKNOWN])),
        [NEGOTIATION, NEGOTIATION, NEGOTIATION, NEGOTIATION, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Retry", "RFC 9000 §17.2.5.2",
        |it| Some(retry(it)),
        [AGAIN, RETRY, RETRY, RETRY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Retry with a wrong integrity tag", "RFC 9000 §17.2.5.2, RFC 9001 §5.8",
        |it| { let mut packet = retry(it); *packet.last_mut()? ^= 1; Some(packet) },
        [RETRY, RETRY, RETRY, RETRY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Stateless reset", "RFC 9000 §10.3.1",
        reset,
        [None, None, None, Some(Effect::Reset), Some(Effect::Drains), IGNORED, IGNORED, IGNORED]),
    // A server that sends such packets has received the client's first packet, and the client may
    // be missing the response. It therefore repeats its first packet a limited number of times.
    ("1-RTT that cannot be decrypted", "RFC 9001 §5.7, §9.3, RFC 9000 §10.3.1, RFC 9002 §6.2.3",
        |it| Some(forged_short(&ids(it).0)),
        [AGAIN, AGAIN, BROKEN, BROKEN, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Initial of another attempt", "RFC 9001 §4.9.1, §5.2",
        |it| Some(forged_long(0, &ids(it).0, &ids(it).1)),
        [BROKEN, BROKEN, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Handshake of another attempt", "RFC 9001 §4.9.2, RFC 9000 §17.2.4, RFC 9002 §6.2.3",
        |it| Some(forged_long(2, &ids(it).0, &ids(it).1)),
        [AGAIN, AGAIN, BROKEN, NO_KEY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("0-RTT", "RFC 9001 §5.6",
        |it| Some(forged_long(1, &ids(it).0, &ids(it).1)),
        [UNEXPECTED, UNEXPECTED, UNEXPECTED, UNEXPECTED, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("the server's first datagram again", "RFC 9000 §12.3, RFC 9001 §4.9.1",
        |it| it.recorded[1].borrow().first().cloned(),
        [None, RETRY, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("the server's last datagram again", "RFC 9000 §12.3",
        last,
        [None, None, NO_KEY, DUPLICATE, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("the server's last datagram without its end", "RFC 9001 §5.3, RFC 9000 §12.2",
        |it| { let mut packet = last(it)?; packet.pop(); Some(packet) },
        [None, None, NO_KEY, BROKEN, CLOSE, IGNORED, IGNORED, IGNORED]),
];

/// A client that has accepted a forged Retry learns from the transport parameters that the Retry
/// was not from the server (RFC 9000 §7.3).
fn check_it_fails(scene: &mut Scene, what: &str) {
    scene.pair.run_for(seconds(3));
    let error = own_error(&scene.pair.client_events);
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR, "{what}");
}

#[test]
fn each_packet_has_the_effect_on_a_client_that_its_section_says() {
    let mut failures = Vec::new();
    for (name, section, make, effects) in TABLE {
        for (state, expected) in STATES.into_iter().zip(effects) {
            let mut scene = scene(state);
            let packet = make(&scene);
            let what = format!("{name} to a client that is {state:?} ({section})");
            let Some(packet) = packet.filter(|_| expected.is_some()) else { continue };
            let effect = scene.deliver(Side::Client, of_server(), packet);
            if Some(effect) != expected {
                failures.push(format!("{what}: {effect:?}, not {expected:?}"));
                continue;
            }
            if effect == Effect::BeginsAgain && name == "Retry" {
                check_it_fails(&mut scene, &what);
                continue;
            }
            if !scene.continues() {
                failures.push(format!("{what}: the connection does not continue"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns packets that end with a stateless reset token: all packets of the table, with their
/// beginnings unchanged.
fn resets(scene: &Scene) -> impl Iterator<Item = (&'static str, Vec<u8>)> + use<> {
    let server = forged_short(&ids(scene).1);
    let reset = packets::stateless_reset(&scene.pair, &server);
    let packets = TABLE.map(|(name, _, make, _)| make(scene).map(|packet| (name, packet)));
    packets.into_iter().flatten().map(move |(name, mut packet)| {
        let start = packet.len() - ResetToken::LEN;
        packet[start..].copy_from_slice(reset.last_chunk::<{ ResetToken::LEN }>().unwrap());
        (name, packet)
    })
}

/// RFC 9000 §10.3.1: a datagram that ends with the token is a stateless reset if nothing in it can
/// be decrypted, however it begins, even if it looks like a packet of the connection.
#[test]
fn each_packet_that_ends_in_the_token_is_a_stateless_reset() {
    let mut failures = Vec::new();
    let ends = [(Connected, Effect::Reset), (Confirmed, Effect::Reset), (Closing, Effect::Drains)];
    for (state, expected) in ends {
        let count = resets(&scene(state)).count();
        for index in 0..count {
            let mut scene = scene(state);
            let (name, packet) = resets(&scene).nth(index).unwrap();
            // The client still has the keys of the server's first flight.
            let is_readable = state == Connected && name.starts_with("the server's");
            let effect = scene.deliver(Side::Client, of_server(), packet);
            if effect != expected && !is_readable {
                failures.push(format!("{name} to a client that is {state:?}: {effect:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// RFC 9000 §10.3.1: after a stateless reset, a connection that was released while closing no
/// longer responds to anything.
#[test]
fn a_released_connection_answers_no_packet_after_a_stateless_reset() {
    let count = resets(&scene(Closing)).count();
    for index in 0..count {
        let mut scene = scene(Closing);
        let (name, packet) = resets(&scene).nth(index).unwrap();
        let late = forged_short(&ids(&scene).0);
        let pair = &mut scene.pair;
        assert!(pair.client.release(pair.handle, pair.now).is_some());
        let mut is_answered = |mut packet: Vec<u8>| {
            pair.deliver(Way::ToClient, of_server(), &mut packet);
            pair.client.next_reply().is_some()
        };
        assert!(is_answered(late.clone()), "{name}");
        for _ in 0..10 {
            assert!(!is_answered(packet.clone()), "{name}");
            assert!(!is_answered(late.clone()), "{name}");
        }
    }
}

/// RFC 9000 §9: a server does not migrate on its own, so packets from another address are never the
/// server's.
#[test]
fn packets_from_elsewhere_have_no_effect_on_a_client() {
    for (name, _, make, _) in TABLE {
        for state in [Begun, Retried, Connected, Confirmed] {
            let mut scene = scene(state);
            let Some(packet) = make(&scene) else { continue };
            let effect = scene.deliver(Side::Client, of_stranger(), packet);
            // A stateless reset does not contain a connection ID that the client knows.
            let expected = if name == "Stateless reset" { IGNORED } else { UNEXPECTED };
            assert_eq!(Some(effect), expected, "{name} in {state:?}");
            scene.check_it_continues(name);
        }
    }
}
