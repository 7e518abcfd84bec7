//! Tests clients that guess QUIC-LB connection IDs without the key.

use std::net::SocketAddr;
use std::sync::Arc;

use clearway_balancer::{Decision, Limits, Means, Pool, Router, Server, ServerKey, ServerState};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

const SERVERS: u16 = 100;
const GUESSES: u32 = 100_000;
const KEY: Option<[u8; 16]> = Some([9; 16]);

/// Returns a configuration with server IDs of this length, whose connection IDs have 17 octets.
fn codec(server_id_len: usize, key: Option<[u8; 16]>) -> IdCodec {
    IdCodec::new(ConfigId::new(2).unwrap(), server_id_len, 16 - server_id_len, key).unwrap()
}

/// Returns a router for servers with random server IDs; the last server is draining.
fn router(codec: &IdCodec) -> (Router, Vec<ServerId>) {
    let mut random = Random::from_number(7);
    let mut ids = Vec::new();
    for _ in 0..SERVERS {
        let mut octets = vec![0; codec.server_id_len()];
        random.fill(&mut octets);
        ids.push(ServerId::new(&octets).unwrap());
    }
    let server = |(number, id): (u16, &ServerId)| Server {
        name: number.to_string(),
        address: ([10, 0, 0, 1], 1 + number).into(),
        ids: vec![(codec.config(), *id)],
        id_len: None,
        weight: 1,
        state: if number + 1 == SERVERS { ServerState::Draining } else { ServerState::Active },
        has_preface: true,
    };
    let pool = Pool::new(vec![codec.clone()], (0..).zip(&ids).map(server).collect()).unwrap();
    (Router::new(Arc::new(pool), Limits::default(), Random::from_number(8)), ids)
}

/// Returns how many forged connection IDs lead to the server whose ID they happen to contain. The
/// attacker has seen an ID of its own connection, and therefore knows the first octet and the
/// length.
fn hits(codec: &IdCodec) -> u32 {
    let (mut router, ids) = router(codec);
    let own = codec.encode(&ids[0], &vec![1; codec.nonce_len()], &[], 0).unwrap();
    let mut random = Random::from_number(9);
    let client: SocketAddr = ([203, 0, 113, 9], 61_000).into();
    let local = ([198, 51, 100, 1], 443).into();
    let mut hits = 0;
    for _ in 0..GUESSES {
        let mut datagram = [0x41; 40];
        random.fill(&mut datagram[2..]);
        datagram[1] = own.as_bytes()[0];
        let decision = router.route(Timestamp::ORIGIN, client, local, &datagram);
        hits += u32::from(matches!(decision, Decision::Forward { means: Means::ServerId, .. }));
    }
    // The router remembers nothing about these IDs except the server of the client's other
    // datagrams.
    assert_eq!((router.statistics().flows.entries, router.statistics().learned.entries), (1, 0));
    hits
}

/// If there are `n` servers with IDs of `l` octets, a fraction of `n / 256^l` of the guesses finds
/// one of them, whether or not the IDs are encrypted.
#[test]
fn a_guess_finds_a_server_as_often_as_server_ids_are_dense() {
    // 100,000 × 100 ÷ 65,536 are 153; the standard deviation is 12.
    let found = hits(&codec(2, KEY));
    assert!((100..210).contains(&found), "{found}");
    let found = hits(&codec(2, None));
    assert!((100..210).contains(&found), "{found}");
    // With 4 octets, 0.002 hits are expected.
    assert_eq!(hits(&codec(4, KEY)), 0);
}

/// Without a key, anyone can construct an ID that identifies a server, even one that receives no
/// new clients. This is inherent in such IDs.
#[test]
fn without_a_key_a_client_names_its_server() {
    let client: SocketAddr = ([203, 0, 113, 9], 61_000).into();
    let local = ([198, 51, 100, 1], 443).into();
    for (key, finds) in [(None, true), (KEY, false)] {
        let codec = codec(4, key);
        let (mut router, ids) = router(&codec);
        let mut found = 0;
        for (number, id) in ids.iter().enumerate() {
            // This is the ID of the client's own connection, with the server ID replaced by another
            // one.
            let own = codec.encode(&ids[0], &[1; 12], &[], 0).unwrap();
            let mut forged = own.as_bytes().to_vec();
            forged[1..5].copy_from_slice(id.as_bytes());
            let datagram = [&[0x41], &forged[..], &[0; 30]].concat();
            let server = ServerKey::of(&number.to_string());
            let named = Decision::Forward { server, means: Means::ServerId };
            found +=
                usize::from(router.route(Timestamp::ORIGIN, client, local, &datagram) == named);
        }
        assert_eq!(found == usize::from(SERVERS), finds, "{found}");
        assert!(finds || found == 0, "{found}");
    }
}
