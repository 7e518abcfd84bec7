//! Tests constant traffic for ten lifetimes: entries in use are neither forgotten nor evicted,
//! unused ones expire, and a server that stays healthy has only one slow start.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_balancer::{
    Decision, DropReason, Health, HealthSettings, Limits, Pool, Router, Server, ServerKey,
    ServerState, SharedIds,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

const LIFETIME: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits { flows: 256, learned: 64, lifetime: LIFETIME };
const LIFETIMES: u32 = 10;

/// How the servers' connection IDs are recognized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ids {
    /// The connection IDs identify the server.
    QuicLb,
    /// The length of the connection IDs is configured.
    OfKnownLength,
    /// Nothing is configured, and everything is learned.
    Unknown,
}

const SERVERS: u8 = 5;

fn codec() -> IdCodec {
    IdCodec::new(ConfigId::new(1).unwrap(), 4, 4, Some([7; 16])).unwrap()
}

fn server_id(number: u8) -> ServerId {
    ServerId::new(&[0x5e, 3, 0x91, number]).unwrap()
}

fn server(number: u8, weight: u32, ids: Ids) -> Server {
    let has_lb = ids == Ids::QuicLb;
    Server {
        name: number.to_string(),
        address: ([192, 0, 2, number], 443).into(),
        ids: if has_lb { vec![(ConfigId::new(1).unwrap(), server_id(number))] } else { Vec::new() },
        id_len: (ids == Ids::OfKnownLength).then_some(8),
        weight,
        state: ServerState::Active,
        has_preface: false,
    }
}

/// Returns the servers. If `is_turned`, there are additional servers that receive all new clients,
/// so that the hash leads no client to its server.
fn pool(ids: Ids, is_turned: bool) -> Arc<Pool> {
    let weight = u32::from(!is_turned);
    let servers = (1..=SERVERS).map(|number| server(number, weight, ids));
    let others = is_turned.then(|| server(100, 1, ids));
    let codecs = if ids == Ids::QuicLb { vec![codec()] } else { Vec::new() };
    Arc::new(Pool::new(codecs, servers.chain(others).collect()).unwrap())
}

/// A client, and the state of its connection.
struct Client {
    server: ServerKey,
    number: u8,
    port: u16,
    id: Vec<u8>,
    /// Intervals between packets, between connection ID changes, and between port changes.
    interval: Duration,
    changes_id: Option<Duration>,
    moves: Option<Duration>,
    next: Timestamp,
    next_id: Timestamp,
    next_move: Timestamp,
    ports: [u16; 2],
}

struct Scene {
    routers: Vec<Router>,
    ids: Ids,
    now: Timestamp,
    issued: u32,
    random: Random,
}

fn address(port: u16) -> SocketAddr {
    ([203, 0, 113, 9], port).into()
}

fn local() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

impl Scene {
    /// Creates several routers that share the IDs that they learn, or a single router without
    /// shared IDs.
    fn new(ids: Ids, routers: Option<usize>) -> Self {
        let pool = pool(ids, false);
        let random = Random::from_number(1);
        let routers = match routers {
            Some(count) => {
                let shared = Arc::new(SharedIds::new(LIMITS, count, random));
                (0..count).map(|_| Router::among(pool.clone(), LIMITS, &shared)).collect()
            }
            None => vec![Router::new(pool, LIMITS, random)],
        };
        let now = Timestamp::ORIGIN + Duration::from_secs(1);
        Self { routers, ids, now, issued: 0, random: Random::from_number(2) }
    }

    fn router(&mut self, port: u16) -> &mut Router {
        let count = self.routers.len();
        &mut self.routers[usize::from(port) % count]
    }

    fn route(&mut self, port: u16, datagram: &[u8]) -> Result<ServerKey, DropReason> {
        let now = self.now;
        match self.router(port).route(now, address(port), local(), datagram) {
            Decision::Forward { server, .. } => Ok(server),
            Decision::Drop(reason) => Err(reason),
        }
    }

    fn short(&mut self, port: u16, id: &[u8]) -> Result<ServerKey, DropReason> {
        self.route(port, &[&[0x40][..], id, &[0; 30]].concat())
    }

    /// Returns a connection ID issued by a server.
    fn issue(&mut self, number: u8) -> Vec<u8> {
        self.issued += 1;
        match self.ids {
            Ids::QuicLb => {
                let nonce = self.issued.to_be_bytes();
                codec().encode(&server_id(number), &nonce, &[], 0).unwrap().as_bytes().to_vec()
            }
            _ => [[0xc1, 2, 3, number], self.issued.to_be_bytes()].concat(),
        }
    }

    /// Performs a handshake.
    fn connect(&mut self, index: u16, changes: bool) -> Client {
        // If there are several routers, the two ports belong to different ones.
        let ports = [1000 + 10 * index, 1001 + 10 * index];
        let source = self.issue(0);
        let first = long(&[9; 8], &source);
        let server = self.route(ports[0], &first).unwrap();
        let number = (1..=SERVERS).find(|it| ServerKey::of(&it.to_string()) == server).unwrap();
        let id = self.issue(number);
        let now = self.now;
        self.router(ports[0]).observe(now, server, address(ports[0]), &long(&source, &id));
        assert_eq!(self.short(ports[0], &id), Ok(server));
        let mut of = |least: f64, most: f64| {
            let part = self.random.below(1000) as f64 / 1000.0;
            LIFETIME.mul_f64(least + (most - least) * part)
        };
        let interval = of(0.01, 0.9);
        let changes_id = (changes && !index.is_multiple_of(3)).then(|| of(0.5, 2.0));
        let moves = (index % 4 == 3).then(|| of(1.0, 3.0));
        let at = |after: Option<Duration>| now + after.unwrap_or(LIFETIME * 1000);
        Client {
            server,
            number,
            port: ports[0],
            id,
            interval,
            changes_id,
            moves,
            next: now + interval,
            next_id: at(changes_id),
            next_move: at(moves),
            ports,
        }
    }

    /// Sends the client's next packet, with a new ID or from its other port if that is due. It
    /// never changes both at the same time: if a client moves and uses an ID that no router has
    /// seen, only its server can recognize the ID (RFC 9000 §9.5 requires an ID that the server
    /// knows).
    fn send(&mut self, client: &mut Client) -> Result<ServerKey, DropReason> {
        let now = self.now;
        if now >= client.next_move {
            client.port = client.ports[usize::from(client.port == client.ports[0])];
            client.next_move = now + client.moves.unwrap_or(LIFETIME);
        } else if now >= client.next_id {
            client.id = self.issue(client.number);
            client.next_id = now + client.changes_id.unwrap_or(LIFETIME);
        }
        client.next = now + client.interval;
        self.short(client.port, &client.id)
    }
}

fn long(destination: &[u8], source: &[u8]) -> Vec<u8> {
    let ids = [destination, source].map(|id| [&[id.len() as u8], id].concat()).concat();
    [&[0xc0, 0, 0, 0, 1][..], &ids, &[0; 30]].concat()
}

/// Runs forty connections with different intervals between packets, while new clients send one
/// packet each.
fn run(ids: Ids, routers: Option<usize>, changes: bool) {
    let mut scene = Scene::new(ids, routers);
    let mut clients: Vec<Client> = (0..40).map(|index| scene.connect(index, changes)).collect();
    let turned = pool(ids, true);
    let now = scene.now;
    scene.routers.iter_mut().for_each(|router| router.replace(now, turned.clone()));
    let end = now + LIFETIME * LIFETIMES;
    let mut newcomers = 0;
    while scene.now < end {
        let next = clients.iter().map(|client| client.next).min().unwrap();
        scene.now = next;
        for client in clients.iter_mut().filter(|client| client.next <= next) {
            let server = client.server;
            let found = scene.send(client);
            assert_eq!(
                found,
                Ok(server),
                "{ids:?}, {routers:?} routers: port {} after {:?}, every {:?}",
                client.port,
                scene.now.saturating_since(now),
                client.interval
            );
        }
        // These are first packets of clients that send nothing more.
        newcomers += 1;
        let source = scene.issue(0);
        let port = 20_000 + newcomers % 1000;
        assert_eq!(scene.route(port, &long(&[8; 8], &source)), Ok(ServerKey::of("100")));
    }
    for router in &scene.routers {
        let statistics = router.statistics();
        assert_eq!(statistics.learned.evicted, 0, "{statistics:?}");
        assert!(statistics.learned.entries <= LIMITS.learned, "{statistics:?}");
        // Entries that were used only once are removed after their lifetime.
        assert!(statistics.flows.expired > 0, "{statistics:?}");
    }
    // Without use, all entries expire.
    scene.now += LIFETIME + LIFETIME;
    for number in 0..1000 {
        let source = scene.issue(0);
        let _ = scene.route(30_000 + number, &long(&[7; 8], &source));
    }
    for router in &scene.routers {
        assert_eq!(router.statistics().learned.entries, 0);
    }
}

#[test]
fn connections_in_use_keep_their_servers() {
    for ids in [Ids::QuicLb, Ids::OfKnownLength, Ids::Unknown] {
        for routers in [None, Some(1), Some(3)] {
            for changes in [false, true] {
                run(ids, routers, changes);
            }
        }
    }
}

/// A server whose checks succeed, except for single failures, has one slow start.
#[test]
fn a_slow_start_ends() {
    for slow_start in [0, 9, 30, 300].map(Duration::from_secs) {
        for fails_every in [None, Some(7), Some(3)] {
            let settings = HealthSettings { slow_start, ..HealthSettings::default() };
            let mut now = Timestamp::ORIGIN + Duration::from_secs(5);
            let mut health = Health::new(settings, now);
            let (mut began, mut before, mut changes) = (None, 0, 0);
            let end = now + slow_start * LIFETIMES + Duration::from_secs(60);
            for check in 1.. {
                now = health.deadline();
                if now > end {
                    break;
                }
                assert!(health.begin_check(now));
                match fails_every.filter(|every| check % every == 0) {
                    Some(_) => _ = health.on_failure(),
                    None => _ = health.on_success(now),
                }
                let begin = *began.get_or_insert(now);
                assert_eq!(health.state(), ServerState::Active);
                let weight = health.weight(now);
                assert!(weight >= before, "{weight} after {before}");
                changes += u32::from(weight > before);
                before = weight;
                let is_over = now >= begin + slow_start;
                assert_eq!(is_over, weight == Health::FULL_WEIGHT, "{now:?}, {slow_start:?}");
                assert_eq!(health.next_weight(now).is_none(), is_over);
            }
            assert_eq!(changes, if slow_start.is_zero() { 1 } else { Health::FULL_WEIGHT });
        }
    }
}
