//! Fuzzes the load balancer: regardless of what clients send and servers respond, each datagram is
//! forwarded to a server in the pool or dropped for a reason, and the stored state stays within its
//! limits.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_balancer::{Decision, Limits, Pool, Router, Server, ServerKey, ServerState};
use clearway_units::{Random, Timestamp};
use clearway_wire::preface::Preface;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { flows: 8, learned: 4, lifetime: Duration::from_secs(3) };

fn server(number: u8) -> Server {
    let config = ConfigId::new(number & 1).expect("0 or 1");
    let id = ServerId::new(&[number; 2]).expect("two octets");
    Server {
        name: format!("server {number}"),
        address: SocketAddr::from(([192, 0, 2, number], 443)),
        // The third server does not issue QUIC-LB connection IDs.
        ids: if number < 3 { vec![(config, id)] } else { Vec::new() },
        id_len: None,
        weight: 1,
        state: if number == 2 { ServerState::Draining } else { ServerState::Active },
        has_preface: number < 3,
    }
}

fn pool() -> Pool {
    let codec = |config, key| {
        let config = ConfigId::new(config).expect("0 or 1");
        IdCodec::new(config, 2, 6, key).expect("lengths that QUIC-LB allows")
    };
    let codecs = vec![codec(0, None), codec(1, Some([7; 16]))];
    Pool::new(codecs, (1..4).map(server).collect()).expect("three different servers")
}

// Each step consists of the sender, the elapsed seconds, the datagram's length, and the datagram.
fuzz_target!(|data: &[u8]| {
    let pool = Arc::new(pool());
    let mut router = Router::new(pool.clone(), LIMITS, Random::from_number(1));
    let (mut now, mut rest) = (Timestamp::ORIGIN, data);
    while let [sender, pause, length, more @ ..] = rest {
        let (datagram, more) = more.split_at(more.len().min(usize::from(*length)));
        rest = more;
        now += Duration::from_secs(u64::from(pause & 3));
        let client = SocketAddr::from(([203, 0, 113, sender & 3], 1));
        if sender & 0x80 != 0 {
            let server = ServerKey::of(&format!("server {}", 1 + (sender >> 2) % 3));
            router.observe(now, server, client, datagram);
        } else if let Decision::Forward { server, .. } =
            router.route(now, client, ([192, 0, 2, 9], 443).into(), datagram)
        {
            assert!(pool.server(server).is_some());
        }
        let statistics = router.statistics();
        assert!(statistics.flows.entries <= LIMITS.flows);
        assert!(statistics.learned.entries <= LIMITS.learned);
    }
    let mut datagram = data.to_vec();
    if let Some((preface, rest)) = Preface::split(&mut datagram) {
        let length = rest.len();
        let (octets, len) = preface.encode();
        // An IPv4-mapped IPv6 address is decoded as an IPv4 address.
        assert!(len + length <= data.len());
        assert_eq!(octets[1..3], data[1..3]);
    }
});
