use proptest::prelude::*;

use super::*;

fn config(number: u8) -> ConfigId {
    ConfigId::new(number).unwrap()
}

fn codec(number: u8, server_id_len: usize, nonce_len: usize) -> IdCodec {
    IdCodec::new(config(number), server_id_len, nonce_len, Some([number; 16])).unwrap()
}

fn id(bytes: &[u8]) -> ServerId {
    ServerId::new(bytes).unwrap()
}

/// Returns a server at the address 192.0.2.`number`.
fn server(number: u8, ids: &[(u8, &[u8])]) -> Server {
    Server {
        name: format!("server-{number}"),
        address: ([192, 0, 2, number], 4433).into(),
        ids: ids.iter().map(|(number, bytes)| (config(*number), id(bytes))).collect(),
        id_len: None,
        weight: 10,
        state: ServerState::Active,
        has_preface: false,
    }
}

fn key(number: u8) -> ServerKey {
    ServerKey::of(&format!("server-{number}"))
}

fn found(result: Option<(ServerKey, &Server)>) -> Option<ServerKey> {
    result.map(|(key, _)| key)
}

fn error(codecs: Vec<IdCodec>, servers: Vec<Server>) -> String {
    Pool::new(codecs, servers).unwrap_err().to_string()
}

/// These keys must never change: balancers of different versions run side by side.
#[test]
fn keys_are_the_same_everywhere() {
    assert_eq!(ServerKey::of("").number(), 0x1e92_4b9d_7377_00d7);
    assert_eq!(ServerKey::of("server-1").number(), 0xa3cc_f577_2e8b_8637);
}

#[test]
fn servers_are_found_by_what_names_them() {
    let servers = vec![server(1, &[(0, &[1, 1])]), server(2, &[(0, &[1, 2]), (3, &[9; 8])])];
    let pool = Pool::new(vec![codec(0, 2, 6), codec(3, 8, 8)], servers).unwrap();
    assert_eq!(pool.server(key(2)).unwrap().name, "server-2");
    assert_eq!(pool.server(key(3)), None);
    assert_eq!(found(pool.by_address("192.0.2.2:4433".parse().unwrap())), Some(key(2)));
    assert_eq!(found(pool.by_address("[::ffff:192.0.2.1]:4433".parse().unwrap())), Some(key(1)));
    assert_eq!(found(pool.by_address("192.0.2.2:4434".parse().unwrap())), None);
    assert_eq!(found(pool.by_id(config(0), &id(&[1, 2]))), Some(key(2)));
    assert_eq!(found(pool.by_id(config(0), &id(&[1, 3]))), None);
    assert_eq!(found(pool.by_id(config(3), &id(&[9; 8]))), Some(key(2)));
    assert_eq!(found(pool.by_id(config(1), &id(&[1, 1]))), None);
    let names: Vec<_> = pool.servers().map(|(_, server)| &server.name).collect();
    assert_eq!(names, ["server-1", "server-2"]);
    assert_eq!(pool.codecs().map(|codec| codec.config().number()).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn configurations_of_different_lengths() {
    let (short, long) = (codec(0, 1, 4), codec(5, 10, 9));
    let servers = vec![server(1, &[(0, &[1]), (5, &[1; 10])]), server(2, &[(5, &[2; 10])])];
    let pool = Pool::new(vec![short.clone(), long.clone()], servers).unwrap();
    let one = short.encode(&id(&[1]), &[7; 4], &[], 0x1f).unwrap();
    let two = long.encode(&id(&[2; 10]), &[7; 9], &[], 0x0a).unwrap();
    for (id, expected) in [(one, key(1)), (two, key(2))] {
        let id = id.as_bytes();
        assert_eq!(found(pool.by_long_id(id)), Some(expected));
        assert_eq!(found(pool.by_short_id(id)), Some(expected));
        assert_eq!(found(pool.by_short_id(&[id, &[0; 1200]].concat())), Some(expected));
        assert_eq!(found(pool.by_long_id(&[id, &[0]].concat())), None, "a client's own ID");
        assert_eq!(found(pool.by_long_id(&id[..id.len() - 1])), None);
        assert_eq!(found(pool.by_short_id(&id[..id.len() - 1])), None);
    }
}

#[test]
fn ids_that_are_not_routable() {
    let pool = Pool::new(vec![codec(0, 4, 4)], vec![server(1, &[(0, &[1; 4])])]).unwrap();
    for first in [0x20, 0xc0, 0xe0, 0xff] {
        assert_eq!(found(pool.by_long_id(&[first; 9])), None);
        assert_eq!(found(pool.by_short_id(&[first; 9])), None);
    }
    assert_eq!(found(pool.by_long_id(&[])), None);
    assert_eq!(found(pool.by_short_id(&[])), None);
    let of_other = codec(0, 4, 4).encode(&id(&[2; 4]), &[1; 4], &[], 0).unwrap();
    assert_eq!(found(pool.by_long_id(of_other.as_bytes())), None);
}

#[test]
fn a_length_that_is_stated_wrongly_is_not_routable() {
    let stating = codec(0, 4, 4).stating_length(true);
    let good = stating.encode(&id(&[1; 4]), &[1; 4], &[], 0).unwrap();
    let pool = Pool::new(vec![stating], vec![server(1, &[(0, &[1; 4])])]).unwrap();
    assert_eq!(found(pool.by_short_id(good.as_bytes())), Some(key(1)));
    let mut wrong = good.as_bytes().to_vec();
    wrong[0] ^= 1;
    assert_eq!(found(pool.by_short_id(&wrong)), None);
    assert_eq!(found(pool.by_long_id(&wrong)), None);
}

/// AWS load balancers require unencrypted connection IDs of 16 octets: the first octet, 8 octets of
/// server ID, and 7 octets of nonce.
#[test]
fn ids_as_aws_wants_them() {
    let aws = IdCodec::new(config(0), 8, 7, None).unwrap();
    assert_eq!(aws.id_len(), 16);
    let of_server = [0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0xa7, 0xb8];
    let issued = aws.encode(&id(&of_server), &[0x55; 7], &[], 3).unwrap();
    assert_eq!(issued.as_bytes()[1..9], of_server);
    let pool = Pool::new(vec![aws], vec![server(1, &[(0, &of_server)])]).unwrap();
    assert_eq!(found(pool.by_long_id(issued.as_bytes())), Some(key(1)));
}

/// A balancer in front of others reads a shorter server ID, and treats the rest as part of the
/// nonce (§7.1).
#[test]
fn balancers_in_a_chain() {
    let last = IdCodec::new(config(0), 4, 6, None).unwrap();
    let first = IdCodec::new(config(0), 2, 8, None).unwrap();
    let issued = last.encode(&id(&[7, 1, 0, 9]), &[0x55; 6], &[], 3).unwrap();
    let pool = Pool::new(vec![first], vec![server(1, &[(0, &[7, 1])])]).unwrap();
    assert_eq!(found(pool.by_long_id(issued.as_bytes())), Some(key(1)));
}

#[test]
fn only_servers_that_take_new_clients_are_chosen() {
    let mut servers: Vec<_> = (1..=4).map(|number| server(number, &[])).collect();
    servers[0].state = ServerState::Draining;
    servers[1].state = ServerState::Down;
    servers[2].weight = 0;
    let pool = Pool::new(vec![], servers.clone()).unwrap();
    let local = "198.51.100.1:443".parse().unwrap();
    let client = |port: u16| ([203, 0, 113, 5], port).into();
    for port in 1..500 {
        assert_eq!(found(pool.by_hash(client(port), local)), Some(key(4)));
    }
    servers.truncate(3);
    assert_eq!(found(Pool::new(vec![], servers).unwrap().by_hash(client(1), local)), None);
}

#[test]
fn the_seed_decides_which_client_gets_which_server() {
    let servers: Vec<_> = (0..50).map(|number| server(number, &[])).collect();
    let pool = Pool::new(vec![], servers.clone()).unwrap();
    let (same, other) = (pool.clone().with_seed(0), pool.clone().with_seed(1));
    let again = Pool::new(vec![], servers.into_iter().rev().collect()).unwrap();
    let local = "[2001:db8::1]:443".parse().unwrap();
    let mut differ = 0;
    for port in 1..=1000 {
        let of = |pool: &Pool| found(pool.by_hash(([203, 0, 113, 5], port).into(), local));
        assert_eq!(of(&pool), of(&same));
        assert_eq!(of(&pool), of(&again), "the order of the servers does not matter");
        differ += u32::from(of(&pool) != of(&other));
    }
    assert!(differ > 900, "{differ}");
}

#[test]
fn one_server_more_moves_few_new_clients() {
    const CLIENTS: u16 = 20_000;
    for count in [4, 20, 100] {
        let servers: Vec<_> = (0..=count).map(|number| server(number, &[])).collect();
        let before = Pool::new(vec![], servers[1..].to_vec()).unwrap();
        let after = Pool::new(vec![], servers).unwrap();
        let local = ([198, 51, 100, 1], 443).into();
        let of = |pool: &Pool, port| found(pool.by_hash(([203, 0, 113, 5], port).into(), local));
        let moved = (1..=CLIENTS).filter(|port| of(&before, *port) != of(&after, *port)).count();
        let moved = moved as f64 / f64::from(CLIENTS);
        assert!(moved <= 1.0 / f64::from(count + 1) + 0.02, "{moved} of {count} and one");
    }
}

#[test]
fn a_client_of_ipv4_has_the_same_server_in_both_forms() {
    let servers = (0..50).map(|number| server(number, &[])).collect();
    let pool = Pool::new(vec![], servers).unwrap();
    for port in 1..100 {
        let v4 = pool.by_hash(([203, 0, 113, 5], port).into(), ([192, 0, 2, 1], 443).into());
        let client = format!("[::ffff:203.0.113.5]:{port}").parse().unwrap();
        let v6 = pool.by_hash(client, "[::ffff:192.0.2.1]:443".parse().unwrap());
        assert_eq!(found(v4), found(v6));
    }
}

#[test]
fn pools_that_cannot_be() {
    let twice = error(vec![codec(4, 1, 4), codec(4, 2, 4)], vec![]);
    assert_eq!(twice, "configuration 4 is defined twice");
    let same = error(vec![], vec![server(1, &[]), server(1, &[])]);
    assert_eq!(same, "two servers have the name \"server-1\"");
    let mut other = server(2, &[]);
    other.address = "[::ffff:192.0.2.1]:4433".parse().unwrap();
    let text =
        "servers \"server-1\" and \"server-2\" have the same address, [::ffff:192.0.2.1]:4433";
    assert_eq!(error(vec![], vec![server(1, &[]), other.clone()]), text);
    other.address = ([192, 0, 2, 1], 0).into();
    let text = "server \"server-2\" has the invalid address 192.0.2.1:0: the port is 0";
    assert_eq!(error(vec![], vec![other.clone()]), text);
    other.address = ([0, 0, 0, 0], 443).into();
    assert!(matches!(Pool::new(vec![], vec![other]), Err(PoolError::NoDestination { .. })));
    let both = vec![server(1, &[(0, &[7])]), server(2, &[(0, &[7])])];
    let text =
        "servers \"server-1\" and \"server-2\" have the same server ID in configuration 0, 07";
    assert_eq!(error(vec![codec(0, 1, 4)], both), text);
    let text = "server \"server-1\" has the server ID 07 twice in configuration 0";
    assert_eq!(error(vec![codec(0, 1, 4)], vec![server(1, &[(0, &[7]), (0, &[7])])]), text);
    let text = "server \"server-1\" has a server ID for configuration 2, which does not exist";
    assert_eq!(error(vec![codec(0, 1, 4)], vec![server(1, &[(2, &[7])])]), text);
    let text =
        "server \"server-1\" has the server ID 0708 of 2 octets, but its configuration requires 1";
    assert_eq!(error(vec![codec(0, 1, 4)], vec![server(1, &[(0, &[7, 8])])]), text);
    let mut long = server(1, &[]);
    long.id_len = Some(21);
    let text = "server \"server-1\" has connection IDs of 21 octets, but the maximum is 20";
    assert_eq!(error(vec![], vec![long]), text);
}

/// No two names with the same hash are known, so this test sets the keys.
#[test]
fn names_with_one_hash() {
    let servers = vec![server(1, &[]), server(2, &[])];
    let mut pool = Pool::new(vec![], servers).unwrap();
    pool.servers[1].0 = key(1);
    let error = pool.index_keys().unwrap_err();
    assert_eq!(error, PoolError::KeyTwice(["server-1".to_owned(), "server-2".to_owned()]));
    let text =
        "the names \"server-1\" and \"server-2\" have the same hash: rename one of the servers";
    assert_eq!(error.to_string(), text);
}

#[test]
fn too_many_servers() {
    let servers = |count: u16| {
        let server = |number: u16| Server {
            name: number.to_string(),
            address: ([192, 0, 2, 1], number + 1).into(),
            ..server(1, &[])
        };
        (0..count).map(server).collect::<Vec<_>>()
    };
    let most = Pool::MAX_SERVERS as u16;
    assert!(Pool::new(vec![], servers(most)).is_ok());
    let text = "a pool can have at most 6553 servers, not 6554";
    assert_eq!(error(vec![], servers(most + 1)), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For all lengths, each server's connection IDs lead to this server, and random octets usually
    /// lead to no server.
    #[test]
    fn ids_lead_to_their_servers(
        lengths in prop::collection::vec((4_usize..=8, 4_usize..=11, any::<bool>(), any::<bool>()), 1..=7),
        nonce in any::<[u8; 11]>(), random in any::<u8>(), count in 1_u8..20,
    ) {
        let codecs: Vec<_> = (0..).zip(&lengths).map(|(number, (server_id_len, nonce_len, encrypted, states))| {
            let key = encrypted.then_some([number; 16]);
            let codec = IdCodec::new(config(number), *server_id_len, *nonce_len, key).unwrap();
            codec.stating_length(*states)
        }).collect();
        let ids = |server: u8| {
            let of = |codec: &IdCodec| (codec.config(), id(&vec![server; codec.server_id_len()]));
            codecs.iter().map(of).collect::<Vec<_>>()
        };
        let with_ids = |number| Server { ids: ids(number), ..server(number, &[]) };
        let servers = (0..count).map(with_ids).collect();
        let pool = Pool::new(codecs.clone(), servers).unwrap();
        for number in 0..count {
            for (codec, (_, id)) in codecs.iter().zip(ids(number)) {
                let issued = codec.encode(&id, &nonce[..codec.nonce_len()], &[], random).unwrap();
                prop_assert_eq!(found(pool.by_long_id(issued.as_bytes())), Some(key(number)));
                prop_assert_eq!(found(pool.by_short_id(issued.as_bytes())), Some(key(number)));
            }
        }
        prop_assert_eq!(found(pool.by_short_id(&[0xff; 20])), None);
    }
}
