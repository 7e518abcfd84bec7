//! Random and corrupted bytes (law 9) cause no panics and no growth, and do not disturb a live
//! connection.

use crate::support::{
    CLIENT, Pair, SERVER, address, both, delayed, milliseconds, probability, seconds,
};
use clearway_network::{Conditions, Corrupt, Reorder, Way};
use clearway_transport::Side;
use clearway_units::Random;

/// Returns up to 1500 random bytes, most of which start like a packet for the connection with ID
/// `id`.
fn noise(random: &mut Random, id: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; random.below(1500) as usize];
    random.fill(&mut bytes);
    let at = match random.below(4) {
        0 => return bytes,
        1 => 1,
        _ => 6,
    };
    if bytes.len() > at + id.len() {
        bytes[at..at + id.len()].copy_from_slice(id);
        if at == 6 {
            bytes[0] |= 0xc0;
            bytes[1..5].copy_from_slice(&1_u32.to_be_bytes());
            bytes[5] = id.len() as u8;
        }
    }
    bytes
}

/// Random bytes are delivered in every state of both endpoints, from the peer's address and from
/// other addresses.
#[test]
fn random_bytes_do_no_harm_in_any_state() {
    let mut random = Random::from_number(1);
    let mut pair = Pair::new(delayed(10, 1));
    let from_server = [address(SERVER), address("10.6.6.6:443")];
    let from_client = [address(CLIENT), address("10.6.6.6:50000")];
    for state in 0..6 {
        let ids: Vec<Vec<u8>> = [Side::Client, Side::Server]
            .map(|side| id_of(&mut pair, side).unwrap_or_default())
            .to_vec();
        for round in 0..3000 {
            let (way, froms, id) = match round % 2 {
                0 => (Way::ToClient, from_server, &ids[0]),
                _ => (Way::ToServer, from_client, &ids[1]),
            };
            let from = froms[random.below(2) as usize];
            let mut bytes = noise(&mut random, id);
            pair.deliver(way, from, &mut bytes);
        }
        while pair.server.next_reply().is_some() {}
        assert!(pair.server.connection_count() <= 1, "noise must not create a connection");
        match state {
            0 => pair.run_for(milliseconds(11)),
            1 => pair.run_for(milliseconds(10)),
            2 => pair.establish(),
            3 => assert!(pair.download(50_000, seconds(10)).is_some()),
            4 => {
                let now = pair.now;
                pair.client().close(now, clearway_wire::VarInt::ZERO, b"");
                pair.run_for(milliseconds(15));
            }
            _ => {}
        }
    }
    assert!(!pair.watch.sent(Side::Server).is_empty());
}

/// Returns the connection ID of `side`, from the transport parameters that its peer received.
fn id_of(pair: &mut Pair, side: Side) -> Option<Vec<u8>> {
    let other = match side {
        Side::Client => pair.accepted.first().copied(),
        Side::Server => Some(pair.handle),
    };
    let endpoint = if side.is_client() { &mut pair.server } else { &mut pair.client };
    let connection = endpoint.connection_mut(other?)?;
    let id = connection.peer_parameters()?.initial_source_connection_id?;
    Some(id.as_bytes().to_vec())
}

/// Randomly modified copies of genuine datagrams, delivered before and after the genuine ones:
/// modified copies fail authentication and are dropped, and the handshake and a transfer complete.
#[test]
fn mutated_datagrams_do_no_harm() {
    for seed in 0..4 {
        let mut random = Random::from_number(seed);
        let mut pair = Pair::new(delayed(10, seed));
        let mutants = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let sink = mutants.clone();
        pair.filter = Some(Box::new(move |_, way, payload| {
            let mut mutant = payload.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(mutant.len() as u64) as usize;
                match random.below(4) {
                    0 => mutant.truncate(at.max(1)),
                    1 => mutant.extend_from_slice(&payload[..at.min(payload.len())]),
                    _ => mutant[at] ^= 1 << random.below(8),
                }
            }
            if mutant != *payload {
                sink.borrow_mut().push((way, mutant));
            }
            true
        }));
        let start = pair.now;
        pair.run_until(seconds(2), |pair| {
            for (way, mut mutant) in std::mem::take(&mut *mutants.borrow_mut()) {
                let from = if way == Way::ToServer { address(CLIENT) } else { address(SERVER) };
                pair.deliver(way, from, &mut mutant);
            }
            pair.client_events.contains(&clearway_transport::Event::HandshakeConfirmed)
        });
        assert!(pair.now.saturating_since(start) < seconds(2));
        pair.filter = None;
        assert!(pair.download(300_000, seconds(20)).is_some());
    }
}

/// Loss, reordering, duplication and corruption at the same time.
#[test]
fn a_transfer_survives_the_worst_network() {
    for seed in 0..6 {
        let conditions = Conditions {
            delay: milliseconds(10),
            loss: vec![clearway_network::LossRule::random(probability(10.0))],
            reorder: Reorder { probability: probability(10.0), by: milliseconds(15) },
            duplicate: probability(10.0),
            corrupt: Corrupt { probability: probability(10.0), ..Corrupt::default() },
            ..Conditions::default()
        };
        let mut pair = Pair::new(both(conditions, seed));
        assert!(pair.download(100_000, seconds(300)).is_some(), "seed {seed}");
    }
}
