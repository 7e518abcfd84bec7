//! Tests groups of shards behind a load balancer.

use core::num::NonZeroUsize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clearway_forward::{Forwarders, Options, Routed, Routing, Statistics, Target};
use clearway_io::testing::{
    Client, Entrance, Everyone, Relay, TIMEOUT, address, client, download, endpoint_config,
    short_header, spawn_steered, total,
};
use clearway_io::{
    Acceptor, Admission, Decision, GroupOptions, GroupServerSetup, HotRestart, ShardGroup,
    ShardHandle, Steering,
};
use clearway_transport::{
    ConnectionIdGenerator, EndpointConfig, Incoming, PreferredAddresses, ResetKey, ServerConfig,
    TlsServerConfig, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::ConnectionId;
use clearway_wire::header::Invariant;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const ID_LEN: usize = 8;

/// A generator of connection IDs that begin with the server's number.
#[derive(Debug)]
struct Numbered(u8);

impl ConnectionIdGenerator for Numbered {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<ID_LEN>();
        id[0] = self.0;
        ConnectionId::new(&id).unwrap()
    }

    fn len(&self) -> usize {
        ID_LEN
    }
}

/// A routing by connection IDs that begin with the server's number. It distributes new clients
/// round-robin by their addresses.
#[derive(Clone)]
struct ByNumber {
    servers: Arc<[SocketAddr]>,
    has_preface: bool,
    /// The server of each client, shared by all threads.
    clients: Arc<Mutex<BTreeMap<SocketAddr, usize>>>,
}

impl ByNumber {
    fn new(servers: &[SocketAddr], has_preface: bool) -> Self {
        Self { servers: servers.into(), has_preface, clients: Arc::default() }
    }
}

impl Routing for ByNumber {
    fn route(
        &mut self,
        _: Timestamp,
        client: SocketAddr,
        _: SocketAddr,
        datagram: &[u8],
    ) -> Routed {
        let has_preface = self.has_preface;
        let number = match Invariant::decode(datagram, ID_LEN) {
            // A single server may have several shards, which issue their own IDs.
            _ if self.servers.len() == 1 => Some(0),
            Ok(Invariant::Short { destination_connection_id: id, .. }) => {
                id.first().map(|first| usize::from(*first))
            }
            Ok(Invariant::Long { .. }) => {
                let mut clients = self.clients.lock().unwrap();
                let next = clients.len() % self.servers.len();
                Some(*clients.entry(client).or_insert(next))
            }
            Err(_) => None,
        };
        let server = number.and_then(|number| self.servers.get(number));
        server.map_or(Routed::Dropped, |server| {
            Routed::To(Target { server: *server, has_preface, begins: true })
        })
    }

    fn observe(&mut self, _: Timestamp, server: SocketAddr, _: SocketAddr, _: &[u8]) {
        assert!(self.servers.contains(&server));
    }

    fn save(&mut self, _: Timestamp) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: Timestamp, _: &[u8]) {}

    fn is_server(&self, address: SocketAddr) -> bool {
        self.has_preface && self.servers.contains(&address)
    }
}

/// A server application that accepts every client and records its address.
struct Remembering(Arc<Mutex<BTreeSet<SocketAddr>>>);

impl Acceptor for Remembering {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        self.0.lock().unwrap().insert(incoming.remote_address());
        Everyone.incoming(incoming)
    }
}

struct Server {
    group: ShardGroup,
    clients: Arc<Mutex<BTreeSet<SocketAddr>>>,
}

impl Drop for Server {
    /// Shuts the group down, so that it sends nothing more to the balancer's ports, which other tests
    /// may get next.
    fn drop(&mut self) {
        shut_down(&self.group);
    }
}

fn shut_down(group: &ShardGroup) {
    group.shards().iter().for_each(|shard| shard.shutdown(0_u32.into(), b""));
}

fn server_config() -> ServerConfig {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let tls = TlsServerConfig::with_certificate(vec![certified.cert.into()], key, &[b"test"]);
    ServerConfig {
        sessions: Arc::new(tls.unwrap()),
        transport: Arc::new(TransportConfig::default()),
        retry_token_lifetime: Duration::from_secs(10),
        new_token_lifetime: Duration::from_secs(10),
        shared_tokens: None,
        preferred_addresses: PreferredAddresses::default(),
    }
}

/// Starts a server whose connection IDs contain its number, and which accepts datagrams from these
/// balancers.
fn server(
    here: SocketAddr,
    (number, shards): (u8, usize),
    retry_above: usize,
    balancers: &[IpAddr],
) -> Server {
    let clients = Arc::<Mutex<BTreeSet<SocketAddr>>>::default();
    let remembering = Arc::clone(&clients);
    let acceptor = &mut move |_| Box::new(Remembering(remembering.clone())) as Box<dyn Acceptor>;
    let config = Arc::new(server_config());
    let balancers = balancers.to_vec();
    let admission = Admission { retry_above, balancers, ..Admission::default() };
    let setup = GroupServerSetup { config, acceptor, admission };
    let config = EndpointConfig { id_generator: Arc::new(Numbered(number)), ..endpoint_config() };
    let (count, options) = (NonZeroUsize::new(shards).unwrap(), GroupOptions::default());
    let group = spawn_steered(here, count, config, Some(setup), options, Steering::Hash).unwrap();
    Server { group, clients }
}

/// Returns the address of a test's servers and balancer. Datagrams for reused ports of other tests
/// do not arrive there.
fn here(test: u8) -> SocketAddr {
    ([127, 9, 1, test], 0).into()
}

/// Returns the address from which balancers send.
fn balancer() -> IpAddr {
    "127.0.0.1".parse().unwrap()
}

fn forward(
    here: SocketAddr,
    servers: &[SocketAddr],
    shards: usize,
    has_preface: bool,
) -> Forwarders {
    let options = Options {
        listen: here,
        shards: NonZeroUsize::new(shards).unwrap(),
        ports: NonZeroUsize::new(50).unwrap(),
        idle: Duration::from_secs(60),
    };
    let routing = ByNumber::new(servers, has_preface);
    clearway_forward::spawn(options, &mut |_| Box::new(routing.clone()), None).unwrap()
}

/// Returns the sum over all threads, and checks that no datagram was lost. Datagrams for sockets of
/// other tests may arrive at one of the many ports or through a NAT; they are dropped because their
/// sender is unknown.
fn forwarded(forwarders: &Forwarders) -> Statistics {
    let sum: Statistics = forwarders.statistics().into_iter().sum();
    let dropped = [
        sum.dropped_no_port,
        sum.dropped_no_preface,
        sum.to_servers.dropped_empty,
        sum.to_servers.dropped_no_room,
        sum.to_servers.dropped_failed,
        sum.to_clients.dropped_empty,
        sum.to_clients.dropped_no_room,
        sum.to_clients.dropped_failed,
    ];
    assert_eq!(dropped, [0; 8], "{sum:?}");
    sum
}

fn entrance(forwarders: &Forwarders) -> Entrance {
    Entrance {
        address: forwarders.local_address(),
        rebinds: Arc::default(),
        first_octets: Arc::default(),
    }
}

/// Clients download without a NAT, and the servers see their real addresses.
fn servers_see_their_clients(here: SocketAddr, has_preface: bool, retry_above: usize) {
    let balancers: &[IpAddr] = if has_preface { &[balancer()] } else { &[] };
    let servers = [0, 1].map(|number| server(here, (number, 1), retry_above, balancers));
    let addresses = servers.each_ref().map(|server| address(&server.group));
    let forwarders = forward(here, &addresses, 2, has_preface);
    let shards: Vec<_> = (0..8).map(|_| client()).collect();
    let begin = |shard| download(shard, &entrance(&forwarders), &[3, 2, 1], false);
    let clients: Vec<_> = shards.iter().map(begin).collect();
    for client in &clients {
        assert_eq!([(); 3].map(|()| client.next()), [Ok(1), Ok(2), Ok(3)]);
    }
    let own: BTreeSet<_> = shards.iter().map(ShardHandle::local_address).collect();
    let seen: Vec<_> = servers.iter().map(|it| it.clients.lock().unwrap().clone()).collect();
    assert_eq!(seen.iter().map(BTreeSet::len).collect::<Vec<_>>(), [4, 4]);
    let all: BTreeSet<_> = seen.into_iter().flatten().collect();
    assert_eq!(all == own, has_preface);
    let sum = forwarded(&forwarders);
    assert_eq!(sum.ports_in_use, if has_preface { 0 } else { 8 });
    for Server { group, .. } in &servers {
        let now = total(group);
        assert_eq!((now.connections, now.foreign_dropped), (4, 0));
        assert_eq!(now.retries_sent > 0, retry_above == 0);
        assert_eq!(now.batches_failed, 0);
    }
}

#[test]
fn two_servers_see_the_addresses_of_their_clients() {
    servers_see_their_clients(here(1), true, usize::MAX);
}

#[test]
fn clients_behind_a_balancer_validate_their_addresses() {
    servers_see_their_clients(here(2), true, 0);
}

#[test]
fn two_servers_without_preface_see_the_balancer() {
    servers_see_their_clients(here(3), false, usize::MAX);
    servers_see_their_clients(here(4), false, 0);
}

/// Clients download behind a NAT that assigns another port before each download.
fn download_and_rebind(forwarders: &Forwarders, count: usize) -> Vec<Client> {
    let (_relay, entrances) = Relay::start(forwarders.local_address(), count);
    let shard = client();
    let begin = |entrance| download(&shard, entrance, &[5, 4, 3, 2, 1], false);
    let clients: Vec<_> = entrances.iter().map(begin).collect();
    for number in 1..=5 {
        assert!(clients.iter().all(|client| client.next() == Ok(number)));
    }
    clients
}

#[test]
fn connections_survive_rebindings_before_the_balancer() {
    let here = here(5);
    let servers = [0, 1].map(|number| server(here, (number, 1), usize::MAX, &[balancer()]));
    let addresses = servers.each_ref().map(|server| address(&server.group));
    let forwarders = forward(here, &addresses, 3, true);
    let clients = download_and_rebind(&forwarders, 24);
    assert!(servers.iter().all(|server| total(&server.group).connections == 12));
    forwarded(&forwarders);
    drop(clients);
}

/// The balancer sends from many ports, so clients reach all shards of the server. If a client's
/// port changes, its datagrams reach another shard, which hands them over together with the
/// balancer's address.
#[test]
fn a_datagram_that_is_handed_over_is_answered_through_its_balancer() {
    let here = here(6);
    let server = server(here, (0, 3), usize::MAX, &[balancer()]);
    let forwarders = forward(here, &[address(&server.group)], 2, true);
    let _clients = download_and_rebind(&forwarders, 32);
    let each: Vec<_> = server.group.shards().iter().map(|it| it.statistics().connections).collect();
    assert!(each.iter().all(|connections| *connections > 0), "{each:?}");
    let now = total(&server.group);
    assert!(now.handed_over > 0 && now.hand_over_dropped == 0, "{now:?}");
    assert_eq!((now.connections, now.foreign_dropped), (32, 0));
    forwarded(&forwarders);
}

/// Starts a replaceable group. Also returns a channel that signals that the group was replaced.
fn start(path: &Path, here: SocketAddr) -> (ShardGroup, Receiver<()>) {
    let mut hot_restart = HotRestart::at(path).unwrap();
    let (replace, replaced) = channel();
    hot_restart.on_replaced(move || {
        let _ = replace.send(());
    });
    let config =
        EndpointConfig { reset_key: ResetKey::new(&hot_restart.reset_key()), ..endpoint_config() };
    let server = Arc::new(server_config());
    let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
    let balancers = vec![balancer()];
    let setup = GroupServerSetup {
        config: server,
        acceptor,
        admission: Admission { balancers, ..Admission::default() },
    };
    let mut options = GroupOptions::default();
    options.hot_restart = Some(hot_restart);
    let count = NonZeroUsize::new(2).unwrap();
    let group = spawn_steered(here, count, config, Some(setup), options, Steering::Hash).unwrap();
    (group, replaced)
}

/// Datagrams that one process forwards to the other keep the address of the balancer from which
/// they came.
#[test]
fn connections_go_on_behind_a_balancer_in_the_process_that_was_replaced() {
    let path = std::env::temp_dir().join(format!("clearway-balanced-{}", std::process::id()));
    let here = here(7);
    let (old, replaced) = start(&path, here);
    let forwarders = forward(here, &[address(&old)], 4, true);
    let (_relay, entrances) = Relay::start(forwarders.local_address(), 20);
    let shard = client();
    let begin = |entrance| download(&shard, entrance, &[2, 1], false);
    let (before, after) = entrances.split_at(10);
    let before: Vec<_> = before.iter().map(begin).collect();
    assert!(before.iter().all(|client| client.next() == Ok(1) && client.next() == Ok(2)));
    let (new, _) = start(&path, here);
    assert_eq!(replaced.recv_timeout(TIMEOUT), Ok(()));
    let wakers: Vec<_> = before.iter().map(|client| client.waker.recv().unwrap()).collect();
    for number in 3..6 {
        before.iter().zip(&wakers).for_each(|(client, waker)| client.ask(waker, number));
        assert!(before.iter().all(|client| client.next() == Ok(number)));
    }
    let after: Vec<_> = after.iter().map(begin).collect();
    assert!(after.iter().all(|client| client.next() == Ok(1) && client.next() == Ok(2)));
    assert_eq!((total(&old).connections, total(&new).connections), (10, 10));
    assert!(total(&old).forwarded_in > 0);
    forwarded(&forwarders);
    shut_down(&old);
    shut_down(&new);
}

/// Responses outside of connections take the path of the datagram to which they respond.
#[test]
fn stateless_answers_go_through_the_balancer() {
    let here = here(9);
    let server = server(here, (0, 1), usize::MAX, &[balancer()]);
    let forwarders = forward(here, &[address(&server.group)], 1, true);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(forwarders.local_address()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = [0; 1500];
    socket.send(&short_header(7)).unwrap();
    assert!(socket.recv(&mut answer).unwrap() < 60);
    // The version is unknown, so that the response is Version Negotiation.
    let mut first = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
    first.resize(1200, 0);
    socket.send(&first).unwrap();
    socket.recv(&mut answer).unwrap();
    assert_eq!(answer[1..5], [0; 4]);
}
