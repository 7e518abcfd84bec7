//! The cost of finding a datagram's server by reading the connection ID and looking up the server
//! ID in it.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use clearway_balancer::{Decision, Limits, Means, Pool, Router, Server, ServerState};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

use crate::Outcome;

/// Number of bytes per datagram that a router may examine. It is small, so that each datagram is in
/// the cache, as if just received.
const DATAGRAM: usize = 64;
/// Number of client addresses.
const CLIENTS: u16 = 1000;
/// First byte of a short header with the fixed bit set (RFC 9000 §17.3.1).
const FIRST_BYTE: u8 = 0x40;

#[derive(Args)]
pub(crate) struct RoutingOptions {
    /// Number of datagrams in a round, each with its own connection ID.
    #[arg(long, default_value_t = 100_000)]
    datagrams: usize,
    /// Number of servers.
    #[arg(long, default_value_t = 200)]
    servers: u16,
    /// Number of measured rounds, after a warm-up round.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

/// The format of the connection IDs: the lengths of server ID and nonce in octets, and whether the
/// IDs are encrypted.
struct Form {
    name: &'static str,
    server_id_len: usize,
    nonce_len: usize,
    is_encrypted: bool,
}

const FORMS: [Form; 3] = [
    Form { name: "plain", server_id_len: 2, nonce_len: 6, is_encrypted: false },
    Form { name: "encrypted, one pass", server_id_len: 2, nonce_len: 14, is_encrypted: true },
    Form { name: "encrypted, four passes", server_id_len: 2, nonce_len: 6, is_encrypted: true },
];

/// A router and the datagrams to route.
struct Trial {
    router: Router,
    /// The concatenated datagrams.
    datagrams: Vec<u8>,
    clients: Vec<SocketAddr>,
    local: SocketAddr,
}

/// Measures each format, and prints the time per datagram in nanoseconds for each round.
pub(crate) fn run(options: &RoutingOptions) -> Outcome {
    for form in &FORMS {
        let mut trial = Trial::new(form, options.servers, options.datagrams)?;
        trial.round()?;
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            let nanoseconds = trial.round()?.as_nanos() as f64 / options.datagrams as f64;
            rounds.push(nanoseconds.to_string());
        }
        println!(r#"{{"case":"{}","ns":[{}]}}"#, form.name, rounds.join(","));
    }
    Ok(())
}

impl Trial {
    fn new(form: &Form, servers: u16, datagrams: usize) -> Outcome<Self> {
        let mut random = Random::from_number(1);
        let key = form.is_encrypted.then(|| random.array());
        let config = ConfigId::new(0).ok_or("configuration 0 is missing")?;
        let codec = IdCodec::new(config, form.server_id_len, form.nonce_len, key)?;
        let ids: Vec<ServerId> =
            (1..=servers).filter_map(|number| ServerId::new(&number.to_be_bytes())).collect();
        let server = |(number, id): (u16, &ServerId)| Server {
            name: format!("server-{number}"),
            address: ([127, 0, 0, 1], 10_000 + number).into(),
            ids: vec![(config, *id)],
            id_len: None,
            weight: 1,
            state: ServerState::Active,
            has_preface: true,
        };
        let all = (0..).zip(&ids).map(server).collect();
        let pool = Pool::new(vec![codec.clone()], all)?;
        let mut written = vec![0; datagrams * DATAGRAM];
        for datagram in written.chunks_mut(DATAGRAM) {
            let server = ids.get(random.below(servers.into()) as usize).ok_or("no server")?;
            let mut nonce = vec![0; form.nonce_len];
            random.fill(&mut nonce);
            let id = codec.encode(server, &nonce, &[], 0).ok_or("the lengths are invalid")?;
            random.fill(datagram);
            datagram[0] = FIRST_BYTE;
            datagram[1..=codec.id_len()].copy_from_slice(id.as_bytes());
        }
        Ok(Self {
            router: Router::new(Arc::new(pool), Limits::default(), random),
            datagrams: written,
            clients: (1..=CLIENTS).map(|port| ([192, 0, 2, 1], port).into()).collect(),
            local: ([192, 0, 2, 2], 443).into(),
        })
    }

    /// Returns the time needed to route all datagrams.
    fn round(&mut self) -> Outcome<Duration> {
        let Self { router, datagrams, clients, local } = self;
        let (now, mut by_id, began) = (Timestamp::ORIGIN, 0, Instant::now());
        for (datagram, client) in datagrams.chunks(DATAGRAM).zip(clients.iter().cycle()) {
            let decision = router.route(now, *client, *local, black_box(datagram));
            let is_by_id = matches!(decision, Decision::Forward { means: Means::ServerId, .. });
            by_id += usize::from(is_by_id);
        }
        let elapsed = began.elapsed();
        match by_id * DATAGRAM == datagrams.len() {
            true => Ok(elapsed),
            false => Err(format!("only {by_id} datagrams were routed by their server ID").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_datagrams_are_routed_by_their_server_id() {
        for form in &FORMS {
            let mut trial = Trial::new(form, 200, 1000).unwrap();
            trial.round().unwrap();
            trial.round().unwrap();
        }
    }
}
