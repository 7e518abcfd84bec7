//! Tests of a shard's connections in virtual time, without sockets: datagrams are passed in memory.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_transport::{
    ClientConfig, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, RandomIds, ResetKey,
    ServerTrust, SocketIndex, TlsClientConfig, TlsClientSettings, Transmit, TransportConfig,
};
use clearway_udp::Socket;
use clearway_units::Random;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};

use super::*;
use crate::acceptor::Acceptor;
use crate::acceptor::Admission;
use crate::datagrams::Meta;
use crate::mailbox::{Mailbox, MigrateRequest};
use crate::shard::connections::Reply;
use crate::shard::peer_shards::Passed;
use crate::shard::sockets::Sockets;
use crate::shard::tests::{Accepting, server_config};
use crate::statistics::ShardStatistics;
use crate::system::restart::{Pipe, Piped};

pub(in super::super) const SERVER: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 443);
/// Returns the default limits on clients without a validated address.
fn room() -> Room {
    Rooms::new(&Admission::default()).others
}

/// The size of a client's first datagram in the default configuration.
const FIRST_SIZE: usize = 1200;

#[path = "pending_clients/undecided_tests.rs"]
mod undecided_tests;

fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 10_000,
    }
}

pub(in super::super) fn client_config(group: &'static dyn SupportedKxGroup) -> ClientConfig {
    let mut settings = TlsClientSettings::new(ServerTrust::DangerousAnyone, &[b"test"]);
    settings.key_exchange_groups = vec![group];
    let sessions = Arc::new(TlsClientConfig::from_settings(settings).unwrap());
    ClientConfig { sessions, transport: Arc::default(), token: Vec::new() }
}

/// A client's datagram, and the client's address.
pub(in super::super) type Sent = (SocketAddr, Vec<u8>);

/// Clients of one endpoint, each with its own address.
pub(in super::super) struct Clients {
    pub(in super::super) endpoint: Endpoint,
    config: ClientConfig,
    pub(in super::super) all: Vec<(ConnectionHandle, SocketAddr)>,
}

impl Clients {
    pub(in super::super) fn new(group: &'static dyn SupportedKxGroup) -> Self {
        let random = Random::from_seed([3; 32]);
        Self {
            endpoint: Endpoint::new(endpoint_config(), None, Timestamp::ORIGIN, random),
            config: client_config(group),
            all: Vec::new(),
        }
    }

    /// Starts a client, and returns its first flight.
    pub(in super::super) fn begin(&mut self, now: Timestamp) -> Vec<Sent> {
        let handle = self.endpoint.connect(now, &self.config, SERVER, "localhost", None).unwrap();
        let number = u16::try_from(self.all.len()).unwrap();
        let [high, low] = number.to_be_bytes();
        self.all.push((handle, SocketAddr::from(([127, 0, high, low], 5000))));
        self.send(now, self.all.len() - 1)
    }

    fn begin_many(&mut self, now: Timestamp, count: usize) -> Vec<Sent> {
        (0..count).flat_map(|_| self.begin(now)).collect()
    }

    pub(in super::super) fn send(&mut self, now: Timestamp, client: usize) -> Vec<Sent> {
        let (handle, address) = self.all[client];
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 2000]);
        while let Some(transmit) = self.endpoint.transmit(handle, now, &mut buffer, 1) {
            self.endpoint.transmitted(handle, now);
            sent.push((address, buffer[..transmit.size].to_vec()));
        }
        sent
    }

    pub(in super::super) fn receive(&mut self, now: Timestamp, mut datagram: Vec<u8>) {
        let (remote, socket) = (SERVER, SocketIndex::default());
        let arrival = Arrival { remote, socket, local_ip: None, ecn: EcnCodepoint::NotEct };
        let _ = self.endpoint.receive(now, arrival, &mut datagram);
    }

    fn is_connected(&self, client: usize) -> bool {
        let connection = self.endpoint.connection(self.all[client].0);
        connection.is_some_and(|connection| !connection.is_handshaking())
    }
}

/// The connections of a server. Its sockets are not used.
pub(in super::super) struct Server(pub(in super::super) Connections, Sockets);

impl Server {
    pub(in super::super) fn new(retry_above: usize) -> Self {
        Self::with(retry_above, Some(Box::new(Accepting)))
    }

    /// Like `new`, but with the given acceptor; without an acceptor, creates the connections of a
    /// client.
    pub(in super::super) fn with(retry_above: usize, acceptor: Option<Box<dyn Acceptor>>) -> Self {
        Self::admitting(&Admission { retry_above, ..Admission::default() }, acceptor)
    }

    fn admitting(admission: &Admission, acceptor: Option<Box<dyn Acceptor>>) -> Self {
        let config = acceptor.is_some().then(|| Arc::new(server_config()));
        let random = Random::from_seed([if config.is_some() { 1 } else { 2 }; 32]);
        let endpoint = Endpoint::new(endpoint_config(), config, Timestamp::ORIGIN, random);
        let mailbox = Arc::new(Mailbox::new());
        let sockets = Sockets::new(Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        Self(Connections::new(endpoint, acceptor, admission, mailbox), sockets)
    }

    pub(in super::super) fn migrate(&mut self, now: Timestamp, request: MigrateRequest) {
        self.0.migrate(now, request, &mut self.1);
    }

    pub(in super::super) fn receive_at(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        socket: SocketIndex,
        mut datagram: Vec<u8>,
    ) {
        let meta = Meta { remote, local_ip: None, ecn: EcnCodepoint::NotEct, via: None };
        self.0.receive(now, socket, &meta, &mut datagram);
    }

    pub(in super::super) fn receive(&mut self, now: Timestamp, all: &[Sent]) {
        self.receive_via(now, None, all);
    }

    fn receive_via(&mut self, now: Timestamp, via: Option<Via>, all: &[Sent]) {
        for (remote, datagram) in all {
            let meta = Meta { remote: *remote, local_ip: None, ecn: EcnCodepoint::NotEct, via };
            self.0.receive(now, SocketIndex::default(), &meta, &mut datagram.clone());
        }
    }

    /// Returns the balancer to which the first connection's responses go.
    fn via(&self) -> Option<Via> {
        self.0.slots[0].as_ref().and_then(|slot| self.0.via(slot.handle))
    }

    /// Runs the part of a turn after receiving: connections send, and at the end one handshake
    /// begins.
    pub(in super::super) fn rest_of_turn(&mut self, now: Timestamp, is_behind: bool) -> Vec<Sent> {
        let sent = self.turn(now, is_behind).into_iter();
        sent.map(|(transmit, contents)| (transmit.destination, contents)).collect()
    }

    /// Like `rest_of_turn`, but also returns the socket of each datagram.
    pub(in super::super) fn turn(
        &mut self,
        now: Timestamp,
        is_behind: bool,
    ) -> Vec<(Transmit, Vec<u8>)> {
        self.0.fire_timers(now, now);
        for _ in 0..self.0.dirty_len() {
            self.0.process_next(now);
        }
        self.0.retry_next(now);
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 2000]);
        while let Some(handle) = self.0.next_sending() {
            while let Some(transmit) = self.0.endpoint.transmit(handle, now, &mut buffer, 1) {
                self.0.endpoint.transmitted(handle, now);
                let contents = buffer[..transmit.size].to_vec();
                sent.push((transmit, contents));
            }
            self.0.rest(now, handle, &mut self.1);
        }
        while let Some(Reply { transmit, contents, .. }) = self.0.next_reply() {
            sent.push((transmit, contents));
        }
        self.0.begin_next(now, is_behind);
        sent
    }

    fn statistics(&self) -> ShardStatistics {
        let mut statistics = ShardStatistics::default();
        self.0.report(&mut statistics);
        statistics
    }
}

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

#[test]
fn a_turn_begins_one_handshake() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let first = clients.begin_many(at(1), 10);
    server.receive(at(1), &first);
    for turn in 1..=10 {
        assert!(server.0.has_pending_clients());
        server.rest_of_turn(at(1), false);
        let counts = server.statistics();
        assert_eq!((counts.connections, counts.connections_half_open), (turn, 10));
    }
    assert!(!server.0.has_pending_clients());
    assert_eq!(server.statistics().connections_accepted, 10);
}

/// While there is more to receive, the shard spends a quarter of its time on handshakes.
#[test]
fn a_shard_that_falls_behind_begins_few_handshakes() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let first = clients.begin_many(at(1), 3);
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), true);
    server.0.record_handshake_time(at(1), at(2));
    assert_eq!(server.statistics().connections, 1);
    server.rest_of_turn(at(4), true);
    assert_eq!(server.statistics().connections, 1);
    server.rest_of_turn(at(5), true);
    server.0.record_handshake_time(at(5), at(6));
    assert_eq!(server.statistics().connections, 2);
    server.rest_of_turn(at(6), false);
    assert_eq!(server.statistics().connections, 3);
}

/// A ClientHello with X25519MLKEM768 takes two datagrams. Datagrams of other clients arrive in
/// between.
#[test]
fn the_datagrams_of_a_client_that_waits_stay_together() {
    let mut clients = Clients::new(X25519MLKEM768);
    let mut server = Server::new(usize::MAX);
    let flights: Vec<_> = (0..3).map(|_| clients.begin(at(1))).collect();
    assert!(flights.iter().all(|flight| flight.len() == 2));
    for part in 0..2 {
        for flight in &flights {
            server.receive(at(1), &flight[part..=part]);
        }
    }
    let mut sent = server.rest_of_turn(at(1), false);
    for turn in 2..20 {
        sent.extend(server.rest_of_turn(at(turn), false));
        for (destination, datagram) in sent.drain(..) {
            let client = clients.all.iter().position(|(_, address)| *address == destination);
            clients.receive(at(turn), datagram);
            let answer = clients.send(at(turn), client.unwrap());
            server.receive(at(turn), &answer);
        }
    }
    assert!((0..3).all(|client| clients.is_connected(client)));
    let counts = server.statistics();
    assert_eq!((counts.handshakes_completed, counts.connections_half_open), (3, 0));
    assert_eq!(counts.incoming_dropped, 0);
}

/// An on-path attacker forges a first datagram with the connection ID and the address of a client.
#[test]
fn a_forged_first_datagram_does_not_block_the_true_one() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let first = clients.begin(at(1));
    let mut forged = first.clone();
    forged[0].1[FIRST_SIZE - 1] ^= 1;
    server.receive(at(1), &forged);
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), false);
    assert_eq!(server.statistics().connections_half_open, 1);
    server.rest_of_turn(at(1), false);
    let counts = server.statistics();
    assert_eq!((counts.connections, counts.incoming_refused), (1, 1));
}

/// A hundred Initial packets arrive in each of fifteen turns.
#[test]
fn what_waits_is_bounded_and_the_rest_is_counted() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(300));
    let first = clients.begin_many(at(1), 1500);
    for (turn, batch) in (1..).zip(first.chunks(100)) {
        server.receive(at(1), batch);
        let pending_clients = &server.0.pending_clients;
        assert!(
            pending_clients.order.len() <= room().clients && pending_clients.bytes <= room().bytes
        );
        assert_eq!(pending_clients.order.len(), pending_clients.waiting.len());
        assert!(pending_clients.unvalidated.len() <= ROOM_FOR_RETRIES.clients);
        server.rest_of_turn(at(1), true);
        server.0.record_handshake_time(at(1), at(2));
        assert!(server.statistics().retries_sent <= turn);
    }
    let dropped = server.statistics().incoming_dropped;
    assert!(dropped > 900, "{dropped}");
    // No more datagrams arrive.
    while server.0.has_pending_clients() {
        let before = server.statistics();
        server.rest_of_turn(at(9), false);
        let after = server.statistics();
        assert!(after.retries_sent - before.retries_sent <= 1);
        assert!(after.connections_accepted - before.connections_accepted <= 1);
    }
    let counts = server.statistics();
    assert_eq!(counts.incoming_dropped, dropped);
    assert_eq!(counts.connections_accepted + counts.retries_sent + dropped, 1500);
    assert_eq!(
        (server.0.pending_clients.bytes, server.0.pending_clients.unvalidated_bytes),
        (0, 0)
    );
}

/// Dropped datagrams are not copied, even before Retry packets are required: handshakes may begin
/// more slowly than clients arrive.
#[test]
fn what_is_dropped_is_not_copied() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let all = room().clients + ROOM_FOR_RETRIES.clients;
    let first = clients.begin_many(at(1), all + 1);
    server.receive(at(1), &first[..all]);
    assert_eq!(server.statistics().incoming_dropped, 0);
    let last = &first[all..];
    let whole = allocation_counter::measure(|| server.receive(at(1), last));
    assert_eq!(server.statistics().incoming_dropped, 1);
    // Measures the allocations that the test itself makes when it passes datagrams on.
    let (_, datagram) = &last[0];
    let own = allocation_counter::measure(|| drop(datagram.clone()));
    assert_eq!(whole.count_total, own.count_total);
}

/// Anyone can send datagrams of 64 KiB that begin like a client's first datagram, and many with the
/// same connection ID.
#[test]
fn large_and_many_datagrams_of_clients_that_wait_are_bounded() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let large: Vec<Sent> = clients
        .begin_many(at(1), 100)
        .into_iter()
        .map(|(address, mut datagram)| {
            datagram.resize(65_000, 0);
            (address, datagram)
        })
        .collect();
    server.receive(at(1), &large);
    assert!(server.0.pending_clients.bytes <= room().bytes);
    assert_eq!(server.0.pending_clients.order.len(), room().bytes / 65_000);
    // There is room for more small datagrams, but only for a few from this client.
    let small: Sent = (large[0].0, large[0].1[..100].to_vec());
    for _ in 0..100 {
        server.receive(at(1), core::slice::from_ref(&small));
    }
    let first =
        server.0.pending_clients.waiting.values().find(|it| !it.further.is_empty()).unwrap();
    assert_eq!(first.further.len(), MAX_DATAGRAMS_PER_CLIENT - 1);
    for _ in 0..2 {
        server.receive(at(1), &large);
    }
    assert!(server.0.pending_clients.bytes <= room().bytes);
}

/// Tests the bound that the documentation of `ServerConfig::retry_above` states.
#[test]
fn clients_that_do_not_validate_their_address_take_a_bounded_part_of_memory() {
    const LIMIT: usize = 100;
    const HALF_OPEN: usize = 64 << 10;
    let mut clients = Clients::new(X25519);
    let flood = clients.begin_many(at(1), 600);
    let mut server = Server::new(LIMIT);
    let used = allocation_counter::measure(|| {
        for batch in flood.chunks(100) {
            server.receive(at(1), batch);
            server.rest_of_turn(at(1), false);
        }
        while server.0.has_pending_clients() {
            server.rest_of_turn(at(1), false);
        }
    });
    assert_eq!(server.statistics().connections, LIMIT as u64);
    let bound = (LIMIT * HALF_OPEN + room().bytes + ROOM_FOR_RETRIES.bytes) as u64;
    assert!(used.bytes_max < bound, "{} bytes, {bound} are allowed", used.bytes_max);
}

/// Waiting clients count as half open, so the server starts to send Retry packets before they have
/// used up the memory limit.
#[test]
fn retry_begins_with_clients_that_wait_and_ends_when_they_have_timed_out() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(8));
    let flood = clients.begin_many(at(1), 20);
    server.receive(at(1), &flood);
    assert_eq!(server.statistics().connections_half_open, 8);
    let mut sent = server.rest_of_turn(at(1), false);
    assert_eq!(server.statistics().retries_sent, 1);
    for _ in 1..12 {
        sent.extend(server.rest_of_turn(at(1), false));
    }
    assert_eq!(server.statistics().retries_sent, 12);

    // A client that responds to its Retry packet is served.
    let client = clients.all.len() - 1;
    sent.retain(|(destination, _)| *destination == clients.all[client].1);
    for turn in 2..30 {
        for (_, datagram) in sent.drain(..) {
            clients.receive(at(turn), datagram);
        }
        let answer = clients.send(at(turn), client);
        server.receive(at(turn), &answer);
        sent = server.rest_of_turn(at(turn), false);
        sent.retain(|(destination, _)| *destination == clients.all[client].1);
    }
    assert!(clients.is_connected(client));
    let counts = server.statistics();
    assert_eq!((counts.connections, counts.connections_half_open), (9, 8));

    // The handshakes of the other clients time out, and the next client need not validate its
    // address.
    let timeout = at(30) + TransportConfig::default().handshake_timeout();
    while server.0.next_deadline().is_some_and(|deadline| deadline <= timeout) {
        let deadline = server.0.next_deadline().unwrap();
        server.rest_of_turn(deadline, false);
    }
    assert_eq!(server.statistics().connections_half_open, 0);
    let next = clients.begin(timeout);
    server.receive(timeout, &next);
    server.rest_of_turn(timeout, false);
    let counts = server.statistics();
    assert_eq!((counts.retries_sent, counts.connections_half_open), (12, 1));
}

/// Even if every turn is full of Initial packets, the response to a connection's datagrams is sent
/// in the turn that receives them.
#[test]
fn established_connections_are_answered_in_the_same_turn() {
    let (mut clients, mut server) = (Clients::new(X25519), Server::new(usize::MAX));
    let mut to_server = clients.begin(at(1));
    for turn in 1..20 {
        server.receive(at(turn), &to_server);
        for (_, datagram) in server.rest_of_turn(at(turn), false) {
            clients.receive(at(turn), datagram);
        }
        to_server = clients.send(at(turn), 0);
    }
    assert!(clients.is_connected(0));
    let address = clients.all[0].1;
    for turn in 20..32 {
        let mut batch: Vec<Sent> = clients.begin_many(at(turn), 100);
        // Two packets are acknowledged immediately.
        for _ in 0..2 {
            clients.endpoint.connection_mut(clients.all[0].0).unwrap().ping();
            batch.extend(clients.send(at(turn), 0));
        }
        server.receive(at(turn), &batch);
        let sent = server.rest_of_turn(at(turn), true);
        server.0.record_handshake_time(at(turn), at(turn + 1));
        let answers = sent.iter().filter(|(destination, _)| *destination == address).count();
        assert!(answers > 0, "no response in turn {turn}");
        for (_, datagram) in sent.into_iter().filter(|(destination, _)| *destination == address) {
            clients.receive(at(turn), datagram);
        }
    }
    assert!(server.statistics().incoming_dropped > 0);
}

/// When another process takes over, the clients that wait here are passed on to it: this process
/// would refuse them, and the new one serves them. The same holds for clients that wait for a Retry
/// packet, and for datagrams after a client's first.
#[test]
fn clients_that_wait_go_to_the_process_that_takes_over() {
    for retry_above in [usize::MAX, 4] {
        let mut clients = Clients::new(X25519MLKEM768);
        let (mut old, mut new) = (Server::new(retry_above), Server::new(usize::MAX));
        let flights = clients.begin_many(at(1), 8);
        assert_eq!(flights.len(), 16);
        old.receive(at(1), &flights);
        let (ours, theirs) = Pipe::pair().unwrap();
        let (ours, theirs) = (Arc::new(Pipe::new(ours)), Pipe::new(theirs));
        let passed = old.0.leave_clients_to(&ours);
        old.0.stop_accepting();
        assert!(passed.iter().all(|passed| *passed == Passed::Forwarded), "{passed:?}");
        assert!(!old.0.has_pending_clients() && old.rest_of_turn(at(1), false).is_empty());
        let counts = old.statistics();
        assert_eq!((counts.incoming_refused, counts.connections_half_open), (0, 0));

        let mut buffer = vec![0; 1 << 16];
        let mut forwarded = Vec::new();
        while let Some(Piped { meta, datagram, .. }) = theirs.receive(&mut buffer) {
            forwarded.push((meta.remote, datagram.to_vec()));
        }
        // The second datagrams of clients that wait for a Retry packet are dropped: the clients
        // retransmit them.
        let is_whole = retry_above == usize::MAX;
        assert!(!is_whole || forwarded == flights);
        assert!(flights.iter().step_by(2).all(|first| forwarded.contains(first)));
        new.receive(at(1), &forwarded);
        for turn in 1..2000 {
            for (destination, datagram) in new.rest_of_turn(at(turn), false) {
                assert!(clients.all.iter().any(|(_, address)| *address == destination));
                clients.receive(at(turn), datagram);
            }
            for client in 0..clients.all.len() {
                let handle = clients.all[client].0;
                let connection = clients.endpoint.connection_mut(handle).unwrap();
                if connection.deadline().is_some_and(|deadline| deadline <= at(turn)) {
                    connection.on_deadline(at(turn));
                }
                let answer = clients.send(at(turn), client);
                new.receive(at(turn), &answer);
            }
        }
        assert!((0..8).all(|client| clients.is_connected(client)));
        assert_eq!(new.statistics().handshakes_completed, 8);
    }
}

fn balancer(last: u8) -> Option<Via> {
    let local_ip = Some([192, 0, 2, 1].into());
    Some(Via { balancer: ([192, 0, 2, last], 7000).into(), local_ip })
}

/// A waiting client keeps its balancer. A connection follows its client to another balancer, but
/// does not follow other senders.
#[test]
fn answers_go_to_the_balancer_of_the_last_authentic_datagram() {
    let (mut clients, mut server) = (Clients::new(X25519MLKEM768), Server::new(usize::MAX));
    let first = clients.begin(at(1));
    server.receive_via(at(1), balancer(1), &first);
    server.rest_of_turn(at(1), false);
    assert_eq!(server.via(), balancer(1));
    let mut last = Vec::new();
    for turn in 2..10 {
        for (_, datagram) in server.rest_of_turn(at(turn), false) {
            clients.receive(at(turn), datagram);
        }
        let flight = clients.send(at(turn), 0);
        server.receive_via(at(turn), balancer(1), &flight);
        last = if flight.is_empty() { last } else { flight };
    }
    assert!(clients.is_connected(0));
    let handle = clients.all[0].0;
    let send_more = |clients: &mut Clients| {
        clients.endpoint.connection_mut(handle).unwrap().ping();
        clients.send(at(20), 0)
    };
    // A replayed or modified datagram does not change the balancer.
    server.receive_via(at(20), balancer(2), &last);
    assert_eq!(server.via(), balancer(1));
    let mut flight = send_more(&mut clients);
    let true_one = flight.clone();
    *flight[0].1.last_mut().unwrap() ^= 1;
    server.receive_via(at(20), balancer(3), &flight);
    assert_eq!(server.via(), balancer(1));
    server.receive_via(at(20), balancer(4), &true_one);
    assert_eq!(server.via(), balancer(4));
    // The datagram comes directly, as in a process that no longer has any balancers configured.
    let flight = send_more(&mut clients);
    server.receive_via(at(20), None, &flight);
    assert_eq!(server.via(), None);
}

/// Retry packets and refusals go to the balancer that forwarded the client's datagram.
#[test]
fn replies_go_to_the_balancer_of_what_they_answer() {
    for accepts in [true, false] {
        let (mut clients, mut server) = (Clients::new(X25519MLKEM768), Server::new(0));
        if !accepts {
            server.0.stop_accepting();
        }
        for number in 1..4 {
            let flight = clients.begin(at(1));
            server.receive_via(at(1), balancer(number), &flight[..1]);
        }
        for _ in 0..3 {
            server.0.retry_next(at(1));
        }
        let mut replied = Vec::new();
        while let Some(Reply { transmit, via, .. }) = server.0.next_reply() {
            replied.push((transmit.destination, via));
        }
        let expected =
            clients.all.iter().zip(1..).map(|((_, client), last)| (*client, balancer(last)));
        assert_eq!(replied, expected.collect::<Vec<_>>());
    }
}
