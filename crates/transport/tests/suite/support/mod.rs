//! Two real endpoints in one virtual network.
//!
//! In every test, `Pair::check` verifies after every instant that a connection with anything
//! outstanding has a deadline, and that no deadline is in the past.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test file uses its own part of this"
)]

mod checks;
pub mod early;
pub mod ids;
pub mod initial;
mod reliable;
mod routes;
mod transfer;
pub mod versions;
mod watch;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clearway_network::{
    Conditions, Datagram, Ecn, Link, LinkConfig, LossRule, Probability, Rebind, Way,
};
use clearway_transport::{
    AcceptOptions, Arrival, ClientConfig, Connection, ConnectionHandle, ConnectionIdGenerator,
    EcnCodepoint, Endpoint, EndpointConfig, Event, Incoming, PreferredAddresses, RandomIds,
    Received, ResetKey, SendFailure, ServerConfig, ServerTrust, SocketIndex, TlsClientConfig,
    TlsClientSettings, TlsServerConfig, Transmit, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::VarInt;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::kx_group::X25519;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

pub use routes::{PREFERRED, Route, SECOND_SOCKET};
pub use transfer::pattern;
pub use watch::{Packet, Watch};

pub const CLIENT: &str = "10.0.0.1:50000";
pub const SERVER: &str = "10.0.0.2:443";

/// How the server handles a connection attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Accept,
    /// The client must not clear the QUIC bit.
    AcceptWithoutGreasing,
    Retry,
    Refuse,
}

/// Called for every datagram that enters the link. May modify it; drops it by returning `false`.
pub type Filter = Box<dyn FnMut(Timestamp, Way, &mut Vec<u8>) -> bool>;

/// Returns why an endpoint's kernel rejects a batch, if it does.
pub type Kernel = Box<dyn FnMut(Timestamp, &Transmit) -> Option<Refusal>>;

/// The reason why a kernel rejects a batch.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    TooLarge,
    Failed(SendFailure),
    /// The kernel accepts at most this many datagrams of the batch and rejects the others.
    FailedAfter(usize, SendFailure),
}

pub struct Pair {
    pub now: Timestamp,
    pub client: Endpoint,
    pub server: Endpoint,
    pub link: Link,
    pub handle: ConnectionHandle,
    pub accepted: Vec<ConnectionHandle>,
    pub door: Door,
    /// The options with which the server accepts clients.
    pub options: AcceptOptions,
    /// The clients' first packets that have arrived.
    pub incoming: Vec<Incoming>,
    pub client_events: Vec<Event>,
    pub server_events: Vec<Event>,
    pub client_config: ClientConfig,
    pub server_config: Arc<ServerConfig>,
    /// Packets as seen by the two endpoints' observers.
    pub watch: Watch,
    pub filter: Option<Filter>,
    /// The client's kernel.
    pub kernel: Option<Kernel>,
    /// The server's kernel.
    pub server_kernel: Option<Kernel>,
    /// The client's IP address, as the client sees it while no NAT changes it.
    pub local_ip: IpAddr,
    /// UDP payload bytes that the server received and sent before it had validated the client's address.
    pub before_validation: (u64, u64),
    /// Destinations and sizes of datagrams that the server sent to addresses that the client has
    /// never had.
    pub sent_elsewhere: Vec<(SocketAddr, usize)>,
    /// The client's addresses, one per NAT binding.
    pub bindings: Vec<SocketAddr>,
    /// Paths other than `link`.
    pub routes: Vec<Route>,
    /// The number of datagrams that are built at a time.
    pub batch: usize,
    /// While anything is outstanding, a timer expires within this time.
    pub longest_wait: Duration,
    /// The number of short header packets that reached the server but belong to no connection.
    pub unroutable: usize,
    /// The server's stateless reset key, which survives a restart.
    reset_key: ResetKey,
    rebind: Option<Rebind>,
    digest: u64,
    buffer: Vec<u8>,
}

pub struct Tls {
    roots: RootCertStore,
    server: Arc<TlsServerConfig>,
    /// The protocols that the client offers; the server supports only the first.
    protocols: Vec<Vec<u8>>,
    /// Whether the client offers early data.
    offers_early_data: bool,
}

impl Tls {
    /// Creates a client configuration without a session to resume. Its ClientHello fits in one
    /// datagram, so that packets can be counted.
    fn client(&self) -> Arc<TlsClientConfig> {
        let protocols: Vec<&[u8]> = self.protocols.iter().map(Vec::as_slice).collect();
        let trust = ServerTrust::Roots(self.roots.clone().into());
        let mut settings = TlsClientSettings::new(trust, &protocols);
        settings.key_exchange_groups = vec![X25519];
        let config = TlsClientConfig::from_settings(settings).unwrap();
        Arc::new(config.early_data(self.offers_early_data))
    }
}

/// Creates TLS settings with a certificate for `names`, whose signatures all have the same size.
pub fn tls_for(names: Vec<String>) -> Tls {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let certificate = CertificateDer::from(certificate);
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let chain = vec![certificate];
    let server = TlsServerConfig::with_certificate(chain, key.into(), &[b"test"]).unwrap();
    let protocols = vec![b"test".to_vec()];
    Tls { roots, server: Arc::new(server), protocols, offers_early_data: false }
}

/// Returns TLS settings with a small certificate, shared by all tests of a file.
pub fn tls() -> &'static Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| tls_for(vec!["localhost".into()]))
}

/// Returns TLS settings whose ClientHello needs two datagrams, like one with post-quantum keys.
pub fn long_hello_tls() -> &'static Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| {
        let mut tls = tls_for(vec!["localhost".into()]);
        tls.protocols.extend((0..5).map(|number| vec![b'a' + number; 250]));
        tls
    })
}

/// Returns TLS settings with a certificate of more than 4 kB: more than three times a client's
/// first datagram.
pub fn large_tls() -> &'static Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| {
        let mut names = vec!["localhost".into()];
        names.extend((0..100).map(|i| format!("a-long-name-to-fill-the-certificate-{i}.example")));
        tls_for(names)
    })
}

/// Returns a configuration without additional timers: only outstanding packets keep a timer
/// running. Datagrams have one size, so that packets can be counted.
pub fn quiet() -> TransportConfig {
    TransportConfig::builder()
        .max_idle_timeout(None)
        .handshake_timeout(Duration::from_secs(36_000))
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

/// Returns the configurations of the two endpoints with these settings.
pub fn configurations(
    tls: &Tls,
    client: TransportConfig,
    server: TransportConfig,
) -> (ClientConfig, Arc<ServerConfig>) {
    let server = ServerConfig {
        sessions: tls.server.clone(),
        transport: Arc::new(server),
        retry_token_lifetime: Duration::from_secs(15),
        new_token_lifetime: Duration::from_secs(3600),
        shared_tokens: None,
        preferred_addresses: PreferredAddresses::default(),
    };
    let client =
        ClientConfig { sessions: tls.client(), transport: Arc::new(client), token: Vec::new() };
    (client, Arc::new(server))
}

fn endpoint_config(seed: u8) -> EndpointConfig {
    endpoint_config_with(seed, Arc::new(RandomIds))
}

fn endpoint_config_with(seed: u8, id_generator: Arc<dyn ConnectionIdGenerator>) -> EndpointConfig {
    EndpointConfig { id_generator, reset_key: ResetKey::new(&[seed; 32]), max_connections: 100 }
}

impl Pair {
    pub fn new(link: LinkConfig) -> Self {
        Self::with(link, quiet(), quiet())
    }

    pub fn with(link: LinkConfig, client: TransportConfig, server: TransportConfig) -> Self {
        Self::with_tls(link, client, server, tls())
    }

    pub fn with_tls(
        link: LinkConfig,
        client: TransportConfig,
        server: TransportConfig,
        tls: &Tls,
    ) -> Self {
        let ids = [Arc::new(RandomIds) as _, Arc::new(RandomIds) as _];
        Self::with_ids(link, [client, server], tls, ids)
    }

    /// Creates a client and a server with these settings and connection IDs.
    pub fn with_ids(
        link: LinkConfig,
        [client, server]: [TransportConfig; 2],
        tls: &Tls,
        [client_ids, server_ids]: [Arc<dyn ConnectionIdGenerator>; 2],
    ) -> Self {
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let (client_config, server_config) = configurations(tls, client, server);
        let mut random = Random::from_number(link.seed ^ 0x5eed);
        let endpoint = endpoint_config_with(2, server_ids);
        let server = Endpoint::new(endpoint, Some(server_config.clone()), now, random.fork());
        let endpoint = endpoint_config_with(1, client_ids);
        let mut client = Endpoint::new(endpoint, None, now, random.fork());
        let watch = Watch::default();
        let handle = client
            .connect(now, &client_config, address(SERVER), "localhost", Some(watch.client()))
            .unwrap();
        Self {
            now,
            client,
            server,
            rebind: link.rebind,
            link: Link::new(link),
            handle,
            accepted: Vec::new(),
            door: Door::Accept,
            options: AcceptOptions::default(),
            incoming: Vec::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            client_config,
            server_config,
            watch,
            filter: None,
            kernel: None,
            server_kernel: None,
            local_ip: address(CLIENT).ip(),
            before_validation: (0, 0),
            sent_elsewhere: Vec::new(),
            bindings: vec![address(CLIENT)],
            routes: Vec::new(),
            batch: 10,
            longest_wait: checks::LONGEST_WAIT,
            unroutable: 0,
            reset_key: ResetKey::new(&[2; 32]),
            digest: 0,
            buffer: vec![0; 65_536],
        }
    }

    /// Starts another connection from the client, with `token`; the previous one is no longer
    /// tracked here.
    pub fn reconnect(&mut self, token: Vec<u8>) {
        self.client_config.token = token;
        let observer = Some(self.watch.client());
        self.handle = self
            .client
            .connect(self.now, &self.client_config, address(SERVER), "localhost", observer)
            .unwrap();
        self.accepted.clear();
        self.client_events.clear();
        self.server_events.clear();
        self.before_validation = (0, 0);
    }

    /// Restarts the server: its connections are lost, its stateless reset key is kept.
    pub fn restart_server(&mut self) {
        let random = Random::from_number(self.now.as_nanos());
        let server = Some(self.server_config.clone());
        let config = EndpointConfig { reset_key: self.reset_key.clone(), ..endpoint_config(2) };
        self.server = Endpoint::new(config, server, self.now, random);
        self.accepted.clear();
    }

    /// Restarts the server with another stateless reset key.
    pub fn restart_server_with(&mut self, reset_key: ResetKey) {
        self.reset_key = reset_key;
        self.restart_server();
    }

    pub fn client(&mut self) -> &mut Connection {
        self.client.connection_mut(self.handle).expect("the client's connection is gone")
    }

    /// Returns the server's connection. A client whose address changes during the handshake may
    /// start several connections; in that case, this is the one whose handshake was confirmed.
    pub fn server(&mut self) -> &mut Connection {
        let server = &self.server;
        let is_confirmed = |handle: &&ConnectionHandle| {
            server.connection(**handle).is_some_and(Connection::is_confirmed)
        };
        let handle = *self.accepted.iter().find(is_confirmed).unwrap_or(&self.accepted[0]);
        self.server.connection_mut(handle).expect("the server's connection is gone")
    }

    fn address_of(&mut self, binding: u64) -> SocketAddr {
        while self.bindings.len() as u64 <= binding {
            let count = self.bindings.len() as u8;
            let changes_ip = self.rebind.is_some_and(|rebind| rebind.address);
            let first = self.bindings[0];
            let ip: IpAddr = if changes_ip { [10, 0, 1, count].into() } else { first.ip() };
            self.bindings.push(SocketAddr::new(ip, first.port() + u16::from(count)));
        }
        self.bindings[binding as usize]
    }

    /// Passes everything that both endpoints can send now to the link.
    pub fn flush(&mut self) {
        let (now, handle, batch) = (self.now, self.handle, self.batch);
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(transmit) = self.client.transmit(handle, now, &mut buffer, batch) {
            check_batch(&transmit, batch);
            let taken = offer(&mut self.kernel, &mut self.client, handle, now, &transmit);
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in buffer[..transmit.size].chunks(size).take(taken) {
                self.submit_to_server(&transmit, datagram);
            }
        }
        for handle in self.accepted.clone() {
            while let Some(transmit) = self.server.transmit(handle, now, &mut buffer, batch) {
                check_batch(&transmit, batch);
                let taken =
                    offer(&mut self.server_kernel, &mut self.server, handle, now, &transmit);
                let size = transmit.segment_size.unwrap_or(transmit.size);
                for datagram in buffer[..transmit.size].chunks(size).take(taken) {
                    self.submit_to_client(&transmit, datagram);
                }
            }
        }
        self.buffer = buffer;
        while let Some((transmit, reply)) = self.server.next_reply() {
            self.submit_to_client(&transmit, &reply);
        }
        while self.client.next_reply().is_some() {}
    }

    fn submit_to_client(&mut self, transmit: &Transmit, datagram: &[u8]) {
        let (destination, ecn) = (transmit.destination, transmit.ecn);
        if self.submit_to_route(Way::ToClient, transmit, datagram) {
            return;
        }
        if transmit.socket != SocketIndex::default() {
            self.sent_elsewhere.push((destination, datagram.len()));
            return;
        }
        let Some(binding) = self.bindings.iter().position(|address| *address == destination) else {
            self.sent_elsewhere.push((destination, datagram.len()));
            return;
        };
        if self.is_address_unvalidated() {
            self.before_validation.1 += datagram.len() as u64;
            let (received, sent) = self.before_validation;
            assert!(sent <= 3 * received, "{sent} bytes sent for {received} received");
        }
        self.submit(Way::ToClient, binding as u64, datagram.to_vec(), ecn);
    }

    fn submit(&mut self, way: Way, binding: u64, mut payload: Vec<u8>, ecn: EcnCodepoint) {
        self.note_digest(way, payload.len());
        let now = self.now;
        if self.filter.as_mut().is_some_and(|filter| !filter(now, way, &mut payload)) {
            return;
        }
        let datagram = Datagram { payload, ecn: Ecn::from_bits(ecn.bits()), flow: 0 };
        match way {
            Way::ToServer => self.link.submit(now, way, datagram),
            Way::ToClient => self.link.submit_to_client(now, binding, datagram),
        };
    }

    /// Returns whether the server has not validated the client's address yet.
    fn is_address_unvalidated(&self) -> bool {
        self.door == Door::Accept
            && self.client_config.token.is_empty()
            && self
                .accepted
                .first()
                .is_none_or(|_| self.watch.received_by_server_in_handshake() == 0)
    }

    /// Delivers a datagram to an endpoint, as if it had come through the network.
    pub fn deliver(&mut self, way: Way, from: SocketAddr, payload: &mut [u8]) {
        self.deliver_marked(way, from, EcnCodepoint::NotEct, payload);
    }

    fn deliver_marked(
        &mut self,
        way: Way,
        from: SocketAddr,
        ecn: EcnCodepoint,
        payload: &mut [u8],
    ) {
        let local_ip = (way == Way::ToClient).then_some(self.local_ip);
        let socket = SocketIndex::default();
        self.deliver_at(way, Arrival { remote: from, socket, local_ip, ecn }, payload);
    }

    fn deliver_at(&mut self, way: Way, arrival: Arrival, payload: &mut [u8]) {
        let endpoint = match way {
            Way::ToServer => {
                if self.is_address_unvalidated() {
                    self.before_validation.0 += payload.len() as u64;
                }
                let is_short = payload.first().is_some_and(|first| first & 0x80 == 0);
                let is_known = self.server.has_connection_for(arrival.remote, payload);
                self.unroutable += usize::from(is_short && !is_known);
                &mut self.server
            }
            Way::ToClient => &mut self.client,
        };
        if let Received::Incoming(mut incoming) = endpoint.receive(self.now, arrival, payload) {
            self.incoming.push(incoming.clone());
            if self.door == Door::AcceptWithoutGreasing {
                incoming.forbid_greasing();
            }
            match self.door {
                Door::Retry if !incoming.address_is_validated() => {
                    self.server.retry(self.now, &incoming);
                }
                Door::Refuse => self.server.refuse(incoming),
                _ => {
                    let observer = Some(self.watch.server());
                    let options = self.options.clone();
                    let accepted = self.server.accept_with(self.now, incoming, options, observer);
                    self.accepted.extend(accepted.ok());
                }
            }
        }
    }

    fn collect(&mut self) {
        let (client, server) = (&mut self.client, &mut self.server);
        if let Some(connection) = client.connection_mut(self.handle) {
            self.client_events.extend(std::iter::from_fn(|| connection.next_event()));
        }
        for handle in &self.accepted {
            if let Some(connection) = server.connection_mut(*handle) {
                self.server_events.extend(std::iter::from_fn(|| connection.next_event()));
            }
        }
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        let servers = self.accepted.iter().filter_map(|handle| self.server.connection(*handle));
        self.client.connection(self.handle).into_iter().chain(servers)
    }

    /// Returns the next time at which anything happens.
    fn next_moment(&self) -> Option<Timestamp> {
        self.connections()
            .filter_map(Connection::deadline)
            .chain(self.link.deadline())
            .chain(self.next_on_routes())
            .min()
    }

    /// Runs the expired timers of both endpoints.
    fn run_timers(&mut self) {
        let now = self.now;
        let is_due = |connection: &Connection| connection.deadline().is_some_and(|at| at <= now);
        if let Some(connection) = self.client.connection_mut(self.handle)
            && is_due(connection)
        {
            connection.on_deadline(now);
        }
        for handle in &self.accepted {
            if let Some(connection) = self.server.connection_mut(*handle)
                && is_due(connection)
            {
                connection.on_deadline(now);
            }
        }
    }

    /// Sends everything that can be sent now, and checks the invariants of both endpoints.
    pub fn settle(&mut self) {
        self.flush();
        self.run_timers();
        self.flush();
        self.collect();
        self.check();
    }

    /// Sends, then advances time to the next event. Returns `false` when there are no more events.
    pub fn step(&mut self) -> bool {
        self.step_until(Timestamp::FAR_FUTURE)
    }

    /// Like [`step`](Self::step), but not beyond `end`. Returns `false` when nothing happens by
    /// then.
    fn step_until(&mut self, end: Timestamp) -> bool {
        self.settle();
        let Some(next) = self.next_moment().filter(|next| *next <= end) else { return false };
        self.now = self.now.max(next);
        while let Some(mut delivery) = self.link.poll(self.now) {
            let from = match delivery.way {
                Way::ToServer => self.address_of(delivery.binding),
                Way::ToClient => address(SERVER),
            };
            let ecn = EcnCodepoint::from_bits(delivery.datagram.ecn.bits());
            self.deliver_marked(delivery.way, from, ecn, &mut delivery.datagram.payload);
        }
        self.deliver_from_routes();
        self.run_timers();
        self.collect();
        true
    }

    /// Runs until `done` returns `true`, for at most `limit` of virtual time. Returns whether
    /// `done` returned `true`.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        let mut steps_at_one_moment = 0;
        loop {
            if done(self) {
                return true;
            }
            let before = self.now;
            if !self.step_until(end) {
                self.now = self.now.max(end);
                return done(self);
            }
            steps_at_one_moment = if self.now == before { steps_at_one_moment + 1 } else { 0 };
            assert!(
                steps_at_one_moment < 64,
                "64 steps without progress of time at {:?}",
                self.now
            );
        }
    }

    /// Runs for `duration` of virtual time.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(duration, |_| false);
    }

    /// Closes the connection from the client, and runs until both endpoints discard its state
    /// once late packets have had time to arrive.
    pub fn end(&mut self) {
        let now = self.now;
        self.client().close(now, VarInt::ZERO, b"");
        self.run_for(Duration::from_secs(10));
        let forget = |endpoint: &mut Endpoint, handle| {
            assert!(endpoint.release(handle, self.now).is_some());
            endpoint.on_deadline(handle, self.now, self.now);
            assert!(endpoint.remove_released(handle), "the connection is never forgotten");
        };
        forget(&mut self.client, self.handle);
        for handle in std::mem::take(&mut self.accepted) {
            forget(&mut self.server, handle);
        }
    }

    /// Runs until both endpoints have confirmed the handshake.
    pub fn establish(&mut self) {
        self.establish_within(Duration::from_secs(30));
    }

    pub fn establish_within(&mut self, limit: Duration) {
        let done = self.run_until(limit, |pair| {
            pair.client_events.contains(&Event::HandshakeConfirmed)
                && pair.server_events.contains(&Event::HandshakeConfirmed)
        });
        assert!(done, "client: {:?}, server: {:?}", self.client_events, self.server_events);
    }
}

/// Offers a batch to a kernel, and reports the outcome to the endpoint. Returns how many of its
/// datagrams the kernel has accepted.
fn offer(
    kernel: &mut Option<Kernel>,
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    now: Timestamp,
    transmit: &Transmit,
) -> usize {
    match kernel.as_mut().and_then(|kernel| kernel(now, transmit)) {
        None => {
            endpoint.transmitted(handle, now);
            usize::MAX
        }
        Some(Refusal::TooLarge) => {
            endpoint.transmit_refused(handle, now);
            0
        }
        Some(Refusal::Failed(failure)) => {
            endpoint.transmit_failed(handle, now, failure);
            0
        }
        Some(Refusal::FailedAfter(taken, failure)) => {
            endpoint.transmit_failed(handle, now, failure);
            let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
            // The kernel has rejected at least one datagram.
            taken.min(transmit.size.div_ceil(size).saturating_sub(1))
        }
    }
}

/// Checks that a driver gets no more datagrams than it asked for.
fn check_batch(transmit: &Transmit, batch: usize) {
    let datagrams = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size));
    assert!(datagrams <= batch, "{datagrams} datagrams in a batch of {batch}");
}

pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns a link with the same conditions in both directions.
pub fn both(conditions: Conditions, seed: u64) -> LinkConfig {
    LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        seed,
        ..LinkConfig::default()
    }
}

pub fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns a link with a delay of `delay` milliseconds each way and no other impairment.
pub fn delayed(delay: u64, seed: u64) -> LinkConfig {
    both(Conditions { delay: milliseconds(delay), ..Conditions::default() }, seed)
}

pub fn probability(percent: f64) -> Probability {
    Probability::new(percent / 100.0).unwrap()
}

/// Returns a link that loses `percent` of the datagrams each way.
pub fn lossy(percent: f64, delay: u64, seed: u64) -> LinkConfig {
    let loss = vec![LossRule::random(probability(percent))];
    both(Conditions { delay: milliseconds(delay), loss, ..Conditions::default() }, seed)
}
