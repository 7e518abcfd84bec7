//! Two real endpoints in one virtual network.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_network::{Datagram, Ecn, Link, LinkConfig, Way};
use clearway_transport::{
    Arrival, ClientConfig, Connection, ConnectionHandle, Endpoint, EndpointConfig, Event, Observer,
    RandomIds, Received, ResetKey, ServerConfig, TlsClientConfig, TlsServerConfig, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

pub const CLIENT: &str = "10.0.0.1:50000";
pub const SERVER: &str = "10.0.0.2:443";

/// What the server does with a client that wants a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Accept,
    Retry,
    Refuse,
}

pub struct Pair {
    pub now: Timestamp,
    pub client: Endpoint,
    pub server: Endpoint,
    pub link: Link,
    pub handle: ConnectionHandle,
    pub accepted: Vec<ConnectionHandle>,
    pub door: Door,
    pub client_events: Vec<Event>,
    pub server_events: Vec<Event>,
    pub sent_to_server: u64,
    pub sent_to_client: u64,
    pub client_config: ClientConfig,
    pub server_observer: Option<Box<dyn Observer>>,
    /// Where the server believes the client to be, by binding.
    pub bindings: Vec<SocketAddr>,
    buffer: Vec<u8>,
}

pub struct Tls {
    pub client: Arc<TlsClientConfig>,
    pub server: Arc<TlsServerConfig>,
}

pub fn tls() -> Tls {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = CertificateDer::from(certified.cert);
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    Tls {
        client: Arc::new(TlsClientConfig::with_roots(roots, &[b"test"]).unwrap()),
        server: Arc::new(
            TlsServerConfig::with_certificate(vec![certificate], key.into(), &[b"test"]).unwrap(),
        ),
    }
}

fn endpoint_config(seed: u8) -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[seed; 32]),
        max_connections: 100,
    }
}

impl Pair {
    pub fn new(link: LinkConfig) -> Self {
        Self::with(link, TransportConfig::default(), TransportConfig::default())
    }

    pub fn with(link: LinkConfig, client: TransportConfig, server: TransportConfig) -> Self {
        Self::with_tls(link, client, server, tls())
    }

    pub fn with_tls(
        link: LinkConfig,
        client: TransportConfig,
        server: TransportConfig,
        tls: Tls,
    ) -> Self {
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let server_config = ServerConfig {
            sessions: tls.server,
            transport: Arc::new(server),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(3600),
        };
        let client_config =
            ClientConfig { sessions: tls.client, transport: Arc::new(client), token: Vec::new() };
        let mut random = Random::from_number(link.seed ^ 0x5eed);
        let server =
            Endpoint::new(endpoint_config(2), Some(Arc::new(server_config)), now, random.fork());
        let mut client = Endpoint::new(endpoint_config(1), None, now, random.fork());
        let handle = client
            .connect(now, &client_config, SERVER.parse().unwrap(), "localhost", None)
            .unwrap();
        Self {
            now,
            client,
            server,
            link: Link::new(link),
            handle,
            accepted: Vec::new(),
            door: Door::Accept,
            client_events: Vec::new(),
            server_events: Vec::new(),
            sent_to_server: 0,
            sent_to_client: 0,
            client_config,
            server_observer: None,
            bindings: vec![CLIENT.parse().unwrap()],
            buffer: vec![0; 65_536],
        }
    }

    pub fn client(&mut self) -> &mut Connection {
        self.client.connection_mut(self.handle).expect("the client's connection is gone")
    }

    pub fn server(&mut self) -> &mut Connection {
        self.server.connection_mut(self.accepted[0]).expect("the server's connection is gone")
    }

    fn address_of(&mut self, binding: u64) -> SocketAddr {
        while self.bindings.len() as u64 <= binding {
            let port = 50_000 + self.bindings.len() as u16;
            self.bindings.push(SocketAddr::new(self.bindings[0].ip(), port));
        }
        self.bindings[binding as usize]
    }

    /// Everything that both ends want to send now goes into the link.
    pub fn flush(&mut self) {
        let (now, handle) = (self.now, self.handle);
        while let Some(transmit) = self.client.transmit(handle, now, &mut self.buffer, 10) {
            self.client.transmitted(handle, now);
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in self.buffer[..transmit.size].chunks(size) {
                self.sent_to_server += datagram.len() as u64;
                let payload = datagram.to_vec();
                let datagram = Datagram { payload, ecn: Ecn::NotEct, flow: 0 };
                self.link.submit(now, Way::ToServer, datagram);
            }
        }
        for handle in self.accepted.clone() {
            while let Some(transmit) = self.server.transmit(handle, now, &mut self.buffer, 10) {
                self.server.transmitted(handle, now);
                let size = transmit.segment_size.unwrap_or(transmit.size);
                for datagram in self.buffer[..transmit.size].to_vec().chunks(size) {
                    self.submit_to_client(transmit.destination, datagram);
                }
            }
        }
        while let Some((transmit, reply)) = self.server.next_reply() {
            self.submit_to_client(transmit.destination, &reply);
        }
        while self.client.next_reply().is_some() {}
    }

    fn submit_to_client(&mut self, destination: SocketAddr, datagram: &[u8]) {
        self.sent_to_client += datagram.len() as u64;
        let binding = self.bindings.iter().position(|address| *address == destination);
        let datagram = Datagram { payload: datagram.to_vec(), ecn: Ecn::NotEct, flow: 0 };
        self.link.submit_to_client(self.now, binding.unwrap_or(0) as u64, datagram);
    }

    /// Hands a datagram to an end, as if it had come through the network.
    pub fn deliver(&mut self, way: Way, from: SocketAddr, payload: &mut [u8]) {
        let arrival = Arrival { remote: from, local_ip: None };
        let endpoint = match way {
            Way::ToServer => &mut self.server,
            Way::ToClient => &mut self.client,
        };
        if let Received::Incoming(incoming) = endpoint.receive(self.now, arrival, payload) {
            match self.door {
                Door::Retry if !incoming.address_is_validated() => {
                    self.server.retry(self.now, &incoming);
                }
                Door::Refuse => self.server.refuse(incoming),
                _ => {
                    let observer = self.server_observer.take();
                    let accepted = self.server.accept(self.now, incoming, observer);
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

    /// The next moment at which anything happens.
    fn next_moment(&self) -> Option<Timestamp> {
        let client = self.client.connection(self.handle).and_then(Connection::deadline);
        let servers = self
            .accepted
            .iter()
            .filter_map(|handle| self.server.connection(*handle).and_then(Connection::deadline))
            .min();
        [client, servers, self.link.deadline()].into_iter().flatten().min()
    }

    /// Sends, then lets time pass to the next moment. `false` when nothing will ever happen.
    pub fn step(&mut self) -> bool {
        self.flush();
        self.collect();
        let Some(next) = self.next_moment() else { return false };
        self.now = self.now.max(next);
        while let Some(mut delivery) = self.link.poll(self.now) {
            let from = match delivery.way {
                Way::ToServer => self.address_of(delivery.binding),
                Way::ToClient => SERVER.parse().unwrap(),
            };
            self.deliver(delivery.way, from, &mut delivery.datagram.payload);
        }
        let now = self.now;
        if let Some(connection) = self.client.connection_mut(self.handle)
            && connection.deadline().is_some_and(|deadline| deadline <= now)
        {
            connection.on_deadline(now);
        }
        for handle in &self.accepted {
            if let Some(connection) = self.server.connection_mut(*handle)
                && connection.deadline().is_some_and(|deadline| deadline <= now)
            {
                connection.on_deadline(now);
            }
        }
        self.collect();
        true
    }

    /// Runs until `done`, for at most `limit` of virtual time. Says whether `done` came true.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        let mut steps_at_one_moment = 0;
        loop {
            if done(self) {
                return true;
            }
            let before = self.now;
            if !self.step() || self.now > end {
                return done(self);
            }
            steps_at_one_moment = if self.now == before { steps_at_one_moment + 1 } else { 0 };
            assert!(steps_at_one_moment < 1000, "time stands still at {:?}", self.now);
        }
    }

    /// Runs for `duration` of virtual time.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(duration, |pair| pair.now >= end);
        self.now = self.now.max(end);
    }

    /// Runs until both ends have confirmed the handshake.
    pub fn establish(&mut self) {
        let confirmed = |pair: &mut Self| {
            pair.client_events.contains(&Event::HandshakeConfirmed)
                && pair.server_events.contains(&Event::HandshakeConfirmed)
        };
        let done = self.run_until(Duration::from_secs(30), confirmed);
        assert!(done, "client: {:?}, server: {:?}", self.client_events, self.server_events);
    }
}

pub fn delayed(milliseconds: u64, seed: u64) -> LinkConfig {
    let conditions = clearway_network::Conditions {
        delay: Duration::from_millis(milliseconds),
        ..Default::default()
    };
    LinkConfig { to_server: conditions.clone(), to_client: conditions, seed, rebind: None }
}
