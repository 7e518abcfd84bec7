//! Tests how a server handles packets that are not from its client or that arrive at the wrong
//! time.

use clearway_transport::{DropReason, Side};
use clearway_wire::{VarInt, Version};

use super::packets::{
    first_of_another_client, forged_long, forged_short, garbage, ids_of, version_negotiation,
};
use super::{Effect, Scene, of_client, of_stranger};
use crate::support::initial::Initial;
use crate::support::{Pair, address, delayed, milliseconds, seconds};

/// The state of the server when the packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The server has no connection.
    Listening,
    /// The server has sent its part of the handshake.
    Handshaking,
    Confirmed,
    /// The client has updated its keys twice.
    Updated,
    Closing,
    Draining,
    /// The closing state is over.
    Drained,
    /// The connection was released, and its slot is free.
    Gone,
}

use State::{Closing, Confirmed, Drained, Draining, Gone, Handshaking, Listening, Updated};

const STATES: [State; 8] =
    [Listening, Handshaking, Confirmed, Updated, Closing, Draining, Drained, Gone];

/// A server in this state, and a datagram from the client with a 1-RTT packet that did not arrive
/// when it should have.
struct Stage {
    scene: Scene,
    late: Option<Vec<u8>>,
}

fn stage(state: State) -> Stage {
    let mut scene = Scene::new(Pair::new(delayed(10, 1)));
    let pair = &mut scene.pair;
    match state {
        // The client's first datagram is in transit.
        Listening => pair.settle(),
        Handshaking => pair.run_for(milliseconds(11)),
        _ => {
            pair.establish();
            pair.run_for(seconds(1));
        }
    }
    let late = (!matches!(state, Listening | Handshaking)).then(|| late_datagram(pair));
    if state == Updated {
        for _ in 0..2 {
            let now = pair.now;
            assert!(pair.client().update_keys(now));
            pair.client().ping();
            pair.run_for(seconds(1));
        }
    }
    let now = pair.now;
    match state {
        Closing | Drained | Gone => pair.server().close(now, VarInt::ZERO, b""),
        Draining => pair.client().close(now, VarInt::ZERO, b""),
        _ => {}
    }
    pair.settle();
    match state {
        Draining => pair.run_for(milliseconds(11)),
        Drained | Gone => pair.run_for(seconds(5)),
        _ => {}
    }
    if state == Gone {
        let handle = pair.accepted[0];
        assert!(pair.server.release(handle, pair.now).is_some());
        assert!(pair.server.remove_released(handle));
        pair.accepted.clear();
    }
    Stage { scene, late }
}

fn late_datagram(pair: &mut Pair) -> Vec<u8> {
    pair.client().ping();
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    pair.client.transmitted(pair.handle, pair.now);
    buffer.truncate(transmit.size);
    buffer
}

impl Stage {
    /// Returns the connection IDs of the server and of the client, if there is a connection.
    fn ids(&self) -> (Vec<u8>, Vec<u8>) {
        let (first, client) = ids_of(&self.first());
        let server = self.scene.recorded[1].borrow().first().map(|datagram| ids_of(datagram).1);
        (server.unwrap_or_else(|| first[..8].to_vec()), client)
    }

    /// Returns the client's first datagram.
    fn first(&self) -> Vec<u8> {
        self.scene.recorded[0].borrow()[0].clone()
    }

    /// Returns the last datagram from the client that arrived.
    fn last(&self) -> Option<Vec<u8>> {
        let sent = self.scene.recorded[0].borrow();
        sent.iter().rev().find(|datagram| datagram[0] & 0x80 == 0).cloned()
    }

    /// Returns a packet of an unknown version in a datagram of `size` bytes.
    fn unknown_version(size: usize) -> Vec<u8> {
        let mut start = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
        start.extend_from_slice(b"whatever\x08somebody");
        garbage(&start, size)
    }

    /// Returns an Initial packet from the client with a PING in a datagram of `size` bytes.
    fn initial(&self, size: usize) -> Vec<u8> {
        let (server, client) = self.ids();
        let (first, _) = ids_of(&self.first());
        let is_first = self.scene.pair.accepted.is_empty();
        let initial = Initial {
            side: Side::Client,
            version: Version::V1,
            // A server without a connection treats the packet as the first packet of one.
            began_with: if is_first { &server } else { &first },
            destination: &server,
            source: &client,
            number: 100,
            frames: &[1],
        };
        initial.datagram(size)
    }

    /// Returns a Retry packet, which only servers send.
    fn retry(&self) -> Vec<u8> {
        let (server, client) = self.ids();
        let mut start = vec![0xf0, 0, 0, 0, 1, server.len() as u8];
        start.extend_from_slice(&server);
        start.push(client.len() as u8);
        start.extend_from_slice(&client);
        garbage(&start, 100)
    }
}

type Make = fn(&Stage) -> Option<Vec<u8>>;

/// A row of the table: the packet, the sections, its sender, and its effect in each state; `None`
/// where the packet cannot exist.
type Row = (&'static str, &'static str, Make, [Option<Effect>; 8]);

const fn dropped(reason: DropReason) -> Option<Effect> {
    Some(Effect::Dropped(reason))
}

const IGNORED: Option<Effect> = Some(Effect::Ignored);
const ACCEPTED: Option<Effect> = Some(Effect::Accepted);
/// A closing endpoint responds to packets that belong to its connection, but less and less often
/// (§10.2.1).
const CLOSE: Option<Effect> = Some(Effect::Answered(1));
/// The reply is a stateless reset (§10.3) or a Version Negotiation packet (§6.1).
const REPLY: Option<Effect> = Some(Effect::Answered(1));
const NO_KEY: Option<Effect> = dropped(DropReason::KeyUnavailable);
const BROKEN: Option<Effect> = dropped(DropReason::DecryptionFailure);
const DUPLICATE: Option<Effect> = dropped(DropReason::Duplicate);
const INVALID: Option<Effect> = dropped(DropReason::Invalid);
const NEGOTIATION: Option<Effect> = dropped(DropReason::VersionNegotiation);
const RETRY: Option<Effect> = dropped(DropReason::Retry);

#[rustfmt::skip]
const TABLE: [Row; 18] = [
    //                        Listening, Handshaking, Confirmed, Updated, Closing, Draining, Drained, Gone
    ("Version Negotiation", "RFC 9000 §6.1, §17.2.1",
        |it| Some(version_negotiation(&it.ids().0, &it.ids().1, &[Version::V2])),
        [IGNORED, NEGOTIATION, NEGOTIATION, NEGOTIATION, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Retry", "RFC 9000 §17.2.5",
        |it| Some(it.retry()),
        [IGNORED, RETRY, RETRY, RETRY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("an unknown version", "RFC 9000 §6.1",
        |_| Some(Stage::unknown_version(1200)),
        [REPLY, REPLY, REPLY, REPLY, REPLY, REPLY, REPLY, REPLY]),
    ("an unknown version, in a small datagram", "RFC 9000 §6.1, §14.1",
        |_| Some(Stage::unknown_version(1199)),
        [IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED]),
    ("the Initial of another attempt", "RFC 9000 §5.2.2",
        |it| Some(first_of_another_client(&it.scene.pair, 5)),
        [ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED]),
    ("the Initial of another attempt, and something else after it", "RFC 9000 §12.2",
        |it| {
            let mut datagram = first_of_another_client(&it.scene.pair, 5);
            datagram.extend_from_slice(&forged_short(&it.ids().0));
            Some(datagram)
        },
        [ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED]),
    ("the Initial of another attempt, truncated", "RFC 9000 §14.1",
        |it| { let mut packet = first_of_another_client(&it.scene.pair, 5); packet.truncate(1199); Some(packet) },
        [IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED]),
    ("an Initial of the client", "RFC 9000 §13.2.1, RFC 9001 §4.9.1",
        |it| Some(it.initial(1200)),
        [ACCEPTED, REPLY, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, ACCEPTED]),
    ("an Initial of the client, in a small datagram", "RFC 9000 §14.1",
        |it| Some(it.initial(1199)),
        [IGNORED, INVALID, INVALID, INVALID, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("an Initial that cannot be decrypted", "RFC 9001 §5.2, §4.9.1",
        |it| Some(forged_long(0, &it.ids().0, &it.ids().1)),
        [BROKEN, BROKEN, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, BROKEN]),
    // The connection ID that the client chose first identifies the connection while it exists.
    ("the client's first datagram again", "RFC 9000 §12.3, §5.2, §7.2, RFC 9001 §4.9.1",
        |it| Some(it.first()),
        [ACCEPTED, DUPLICATE, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, ACCEPTED]),
    ("the client's first datagram again, truncated", "RFC 9000 §14.1",
        |it| { let mut packet = it.first(); packet.truncate(1199); Some(packet) },
        [IGNORED, INVALID, INVALID, INVALID, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("Handshake of another attempt", "RFC 9001 §4.9.2",
        |it| Some(forged_long(2, &it.ids().0, &it.ids().1)),
        [IGNORED, BROKEN, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, IGNORED]),
    ("0-RTT", "RFC 9001 §5.7, §4.9.3",
        |it| Some(forged_long(1, &it.ids().0, &it.ids().1)),
        [IGNORED, NO_KEY, NO_KEY, NO_KEY, CLOSE, IGNORED, IGNORED, IGNORED]),
    // A client that already sends 1-RTT packets may be missing part of the server's handshake
    // messages, which are retransmitted.
    ("1-RTT that cannot be decrypted", "RFC 9001 §5.7, §9.3, RFC 9000 §10.3, RFC 9002 §6.2.3",
        |it| Some(forged_short(&it.ids().0)),
        [REPLY, REPLY, BROKEN, BROKEN, CLOSE, IGNORED, IGNORED, REPLY]),
    ("the client's last datagram again", "RFC 9000 §12.3, §10.3",
        Stage::last,
        [None, None, DUPLICATE, DUPLICATE, CLOSE, IGNORED, IGNORED, None]),
    ("the client's last datagram without its end", "RFC 9001 §5.3",
        |it| { let mut packet = it.last()?; packet.pop(); Some(packet) },
        [None, None, BROKEN, BROKEN, CLOSE, IGNORED, IGNORED, None]),
    ("a late datagram, perhaps under old keys", "RFC 9001 §6.5, RFC 9000 §13.2.1",
        |it| it.late.clone(),
        [None, None, IGNORED, BROKEN, CLOSE, IGNORED, IGNORED, None]),
];

#[test]
fn each_packet_has_the_effect_on_a_server_that_its_section_says() {
    let mut failures = Vec::new();
    for (name, section, make, effects) in TABLE {
        for (state, expected) in STATES.into_iter().zip(effects) {
            let mut stage = stage(state);
            let packet = make(&stage);
            let what = format!("{name} to a server that is {state:?} ({section})");
            let Some(packet) = packet.filter(|_| expected.is_some()) else { continue };
            let effect = stage.scene.deliver(Side::Server, of_client(), packet);
            if Some(effect) != expected {
                failures.push(format!("{what}: {effect:?}, not {expected:?}"));
                continue;
            }
            if !stage.scene.continues() {
                failures.push(format!("{what}: the connection does not continue"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns whether the server has received neither this packet nor a later one.
fn packet_is_new(name: &str, state: State) -> bool {
    name.starts_with("a late datagram") && state == Confirmed
}

/// RFC 9000 §9.3: packets that the client did not send, or that it sent earlier, do not move the
/// server to another address.
#[test]
fn packets_from_elsewhere_do_not_move_a_server() {
    for (name, _, make, _) in TABLE {
        for state in [Handshaking, Confirmed, Updated] {
            let mut stage = stage(state);
            let Some(packet) = make(&stage) else { continue };
            stage.scene.deliver(Side::Server, of_stranger(), packet);
            let client = address(crate::support::CLIENT);
            // A client packet that another party delivers first moves the server, until the
            // client's next packet arrives (§9.3.3).
            let is_new = packet_is_new(name, state);
            let remote = stage.scene.pair.server().remote_address();
            assert_eq!(remote == client, !is_new, "{name} in {state:?}: {remote}");
            stage.scene.check_it_continues(name);
            assert_eq!(stage.scene.pair.server().remote_address(), client, "{name} in {state:?}");
        }
    }
}
