//! A server with HTTP/3 connections that have responded to requests and wait for the next ones, in
//! virtual time.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3 as http3;
use clearway_http3::{Config, Connection as Http3, QuicStreams, Role};
use clearway_transport::{
    Arrival, ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig,
    Event, PreferredAddresses, RandomIds, Received, ResetKey, ServerConfig, Side, SocketIndex,
    TlsClientConfig, TlsServerConfig, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use http::{Request, Response};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::scene::address;

/// The one-way delay of each datagram.
const DELAY: Duration = Duration::from_millis(10);
/// Maximum UDP payload of the path, as for Ethernet with IPv4.
const PATH_MTU: usize = 1_472;
/// Time from a client's connection to its second request. By then, the connection is compacted.
const SECOND: Duration = Duration::from_secs(8);
/// Time for which a client stays connected. It is longer than both requests, path MTU discovery and
/// the retention of old keys take, and shorter than the idle timeout.
const STAY: Duration = Duration::from_secs(20);
/// Response content; small responses contain only a prefix of it.
static CONTENT: [u8; LARGE_CONTENT] = [7; LARGE_CONTENT];

/// Size of the content of a large response in bytes.
pub const LARGE_CONTENT: usize = 100_000;
/// Size of the content of a small response in bytes.
pub const SMALL_CONTENT: usize = 1_024;

/// The stage of a connection in which work is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The handshake is still in progress.
    Handshake,
    /// The first request, followed by compaction.
    Request,
    /// Another request after compaction, followed by compaction again.
    RequestAfterRest,
}

/// A callback that runs an endpoint's work. The work is passed with the endpoint's side and the
/// stage.
pub type Runner<'a> = &'a mut dyn FnMut(Side, Stage, &mut dyn FnMut());

/// A server with default settings whose connections are idle.
pub struct IdleServer {
    now: Timestamp,
    endpoint: Endpoint,
    #[expect(clippy::vec_box, reason = "the server allocates each of them")]
    connections: Vec<Box<Peer>>,
    client: ClientConfig,
    http3: Arc<Config>,
    /// The content of each response.
    content: Bytes,
}

/// One endpoint's connection, with HTTP/3.
struct Peer {
    handle: ConnectionHandle,
    http3: Http3,
    /// Number of requests that were answered.
    answered: u32,
}

/// A datagram in transit.
struct Flight {
    arrives: Timestamp,
    to_server: bool,
    payload: Vec<u8>,
}

fn endpoint_config(seed: u8) -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[seed; 32]),
        max_connections: 10_000,
    }
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 443))
}

fn http3_end(role: Role, config: &Arc<Config>, seed: u64) -> Http3 {
    Http3::new(role, config.clone(), &mut Random::from_number(seed))
}

impl IdleServer {
    /// Creates a server without connections. Its responses have `content_size` bytes of content, at
    /// most [`LARGE_CONTENT`].
    ///
    /// # Panics
    /// Panics if TLS rejects the certificate, or the content is larger than permitted.
    pub fn new(content_size: usize) -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .and_then(|parameters| parameters.self_signed(&key))
            .expect("a certificate");
        let chain = vec![CertificateDer::from(certificate)];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let sessions = TlsServerConfig::with_certificate(chain, key.into(), &[b"h3"]);
        let server = ServerConfig {
            sessions: Arc::new(sessions.expect("TLS settings")),
            transport: Arc::new(TransportConfig::default()),
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(3_600),
            shared_tokens: None,
            preferred_addresses: PreferredAddresses::default(),
        };
        let trusting = TlsClientConfig::dangerous_without_certificate_verification(&[b"h3"]);
        let client = ClientConfig {
            sessions: Arc::new(trusting.expect("TLS settings")),
            transport: Arc::new(TransportConfig::default()),
            token: Vec::new(),
        };
        let (now, random) = (Timestamp::from_nanos(1), Random::from_number(1));
        let endpoint = Endpoint::new(endpoint_config(1), Some(Arc::new(server)), now, random);
        let http3 = Arc::new(Config::default());
        let content =
            Bytes::from_static(CONTENT.get(..content_size).expect("less than a large response"));
        Self { now, endpoint, connections: Vec::new(), client, http3, content }
    }

    /// Returns the number of connections that the server has.
    pub fn connection_count(&self) -> usize {
        self.endpoint.connection_count()
    }

    /// Connects a client, which receives the response to a request and, if `requests` is two, to
    /// another request when the connection is compacted. The client then disappears silently.
    /// Connections of earlier clients are not affected.
    ///
    /// # Panics
    /// Panics if the connection or a request fails.
    pub fn serve_one(&mut self, requests: u32, runner: Runner<'_>) {
        let number = u32::try_from(self.connections.len()).expect("a small number");
        let mut visit = Visit::begin(self, address(number), u64::from(number));
        visit.run(self, requests, runner);
        assert_eq!(visit.client.answered, requests, "client {number} has not all responses");
        let peer = visit.server.expect("a connection");
        let connection = self.endpoint.connection(peer.handle).expect("a connection");
        assert!(connection.is_compacted() && !connection.is_closed(), "client {number}");
        self.connections.push(peer);
    }
}

/// A pair of flags, one for each endpoint.
struct Ends {
    client: bool,
    server: bool,
}

/// One client, and the server's state for it.
struct Visit {
    home: SocketAddr,
    seed: u64,
    endpoint: Endpoint,
    client: Peer,
    server: Option<Box<Peer>>,
    has_asked_again: bool,
    flights: VecDeque<Flight>,
    buffer: Vec<u8>,
}

impl Visit {
    fn begin(server: &IdleServer, home: SocketAddr, seed: u64) -> Self {
        let random = Random::from_number(1_000 + seed);
        let mut endpoint = Endpoint::new(endpoint_config(2), None, server.now, random);
        let (remote, name) = (server_address(), "localhost");
        let handle = endpoint.connect(server.now, &server.client, remote, name, None);
        let handle = handle.expect("a connection");
        let client =
            Peer { handle, http3: http3_end(Role::Client, &server.http3, seed), answered: 0 };
        let (flights, buffer) = (VecDeque::new(), vec![0; 1 << 16]);
        Self { home, seed, endpoint, client, server: None, has_asked_again: false, flights, buffer }
    }

    fn run(&mut self, server: &mut IdleServer, requests: u32, runner: Runner<'_>) {
        let end = server.now + STAY;
        let mut second = (requests > 1).then(|| server.now + SECOND);
        let mut has_acted = Ends { client: true, server: false };
        loop {
            if second.take_if(|at| *at <= server.now).is_some() {
                self.ask_again(server, runner);
                has_acted.client = true;
            }
            if has_acted.client {
                self.client_transmits(server.now, runner);
            }
            if has_acted.server {
                self.server_transmits(server, runner);
            }
            has_acted = Ends { client: false, server: false };
            let client =
                self.endpoint.connection(self.client.handle).and_then(Connection::deadline);
            let of_server = self.server.as_ref().and_then(|peer| {
                server.endpoint.connection(peer.handle).and_then(Connection::deadline)
            });
            let arrival = self.flights.front().map(|flight| flight.arrives);
            let next = [client, of_server, arrival, second].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next < end) else { break };
            server.now = server.now.max(next);
            if arrival.is_some_and(|arrival| arrival <= server.now) {
                let flight = self.flights.pop_front().expect("a datagram");
                has_acted = Ends { client: !flight.to_server, server: flight.to_server };
                if flight.to_server {
                    self.server_receives(server, flight.payload, runner);
                } else {
                    self.client_receives(server.now, flight.payload, runner);
                }
            }
            let due = self.timers(server, runner);
            has_acted.client |= due.client;
            has_acted.server |= due.server;
        }
        server.now = end;
    }

    /// Returns the current stage of an endpoint with this connection.
    fn stage(&self, connection: Option<&Connection>) -> Stage {
        match connection {
            Some(connection) if !connection.is_handshaking() && self.has_asked_again => {
                Stage::RequestAfterRest
            }
            Some(connection) if !connection.is_handshaking() => Stage::Request,
            _ => Stage::Handshake,
        }
    }

    fn client_stage(&self) -> Stage {
        self.stage(self.endpoint.connection(self.client.handle))
    }

    fn server_stage(&self, server: &IdleServer) -> Stage {
        let handle = self.server.as_ref().map(|peer| peer.handle);
        self.stage(handle.and_then(|handle| server.endpoint.connection(handle)))
    }

    fn ask_again(&mut self, server: &IdleServer, runner: Runner<'_>) {
        let at_server = self.server.as_ref().map(|peer| peer.handle).expect("a connection");
        let rests = server.endpoint.connection(at_server).is_some_and(Connection::is_compacted);
        assert!(rests, "the server's connection is busy");
        self.has_asked_again = true;
        let connection = self.endpoint.connection_mut(self.client.handle).expect("a connection");
        runner(Side::Client, Stage::RequestAfterRest, &mut || {
            let mut streams = QuicStreams::new(server.now, connection);
            self.client.http3.send_request(&mut streams, &request(), true).expect("a stream");
        });
    }

    /// Runs the timers that are due. Returns which endpoints had timers to run.
    fn timers(&mut self, server: &mut IdleServer, runner: Runner<'_>) -> Ends {
        let now = server.now;
        let is_due =
            |connection: &mut Connection| connection.deadline().is_some_and(|it| it <= now);
        let (at_client, at_server) = (self.client_stage(), self.server_stage(server));
        let mut due = Ends { client: false, server: false };
        if let Some(connection) = self.endpoint.connection_mut(self.client.handle)
            && is_due(connection)
        {
            due.client = true;
            runner(Side::Client, at_client, &mut || {
                connection.on_deadline(now);
                self.client.feed(now, connection, &server.content);
            });
        }
        if let Some(peer) = &mut self.server
            && let Some(connection) = server.endpoint.connection_mut(peer.handle)
            && is_due(connection)
        {
            due.server = true;
            runner(Side::Server, at_server, &mut || {
                connection.on_deadline(now);
                peer.feed(now, connection, &server.content);
            });
        }
        due
    }

    fn client_transmits(&mut self, now: Timestamp, runner: Runner<'_>) {
        let (stage, handle) = (self.client_stage(), self.client.handle);
        while let Some(size) =
            transmit(&mut self.endpoint, handle, now, &mut self.buffer, &mut |act| {
                runner(Side::Client, stage, act);
            })
        {
            self.send(now, true, size);
        }
    }

    fn server_transmits(&mut self, server: &mut IdleServer, runner: Runner<'_>) {
        let Some(handle) = self.server.as_ref().map(|peer| peer.handle) else { return };
        let (stage, now) = (self.server_stage(server), server.now);
        while let Some(size) =
            transmit(&mut server.endpoint, handle, now, &mut self.buffer, &mut |act| {
                runner(Side::Server, stage, act);
            })
        {
            self.send(now, false, size);
        }
    }

    fn send(&mut self, now: Timestamp, to_server: bool, size: usize) {
        let payload = self.buffer.get(..size).filter(|payload| payload.len() <= PATH_MTU);
        if let Some(payload) = payload {
            let payload = payload.to_vec();
            self.flights.push_back(Flight { arrives: now + DELAY, to_server, payload });
        }
    }

    fn client_receives(&mut self, now: Timestamp, mut payload: Vec<u8>, runner: Runner<'_>) {
        runner(Side::Client, self.client_stage(), &mut || {
            let _ = self.endpoint.receive(now, arrival(server_address()), &mut payload);
            let connection = self.endpoint.connection_mut(self.client.handle);
            self.client.feed(now, connection.expect("a connection"), &Bytes::new());
        });
    }

    fn server_receives(
        &mut self,
        server: &mut IdleServer,
        mut payload: Vec<u8>,
        runner: Runner<'_>,
    ) {
        let (now, home) = (server.now, self.home);
        runner(Side::Server, self.server_stage(server), &mut || {
            let received = server.endpoint.receive(now, arrival(home), &mut payload);
            if let Received::Incoming(incoming) = received {
                let handle = server.endpoint.accept(now, incoming, None).expect("a client");
                let http3 = http3_end(Role::Server, &server.http3, self.seed);
                self.server = Some(Box::new(Peer { handle, http3, answered: 0 }));
            }
            let Some(peer) = &mut self.server else { return };
            let connection = server.endpoint.connection_mut(peer.handle).expect("a connection");
            peer.feed(now, connection, &server.content);
        });
    }
}

/// Builds the next datagram of a connection, if there is one to send. Returns the datagram's size.
fn transmit(
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    now: Timestamp,
    buffer: &mut [u8],
    runner: &mut dyn FnMut(&mut dyn FnMut()),
) -> Option<usize> {
    let mut size = None;
    runner(&mut || {
        size = endpoint.transmit(handle, now, buffer, 1).map(|transmit| transmit.size);
        if size.is_some() {
            endpoint.transmitted(handle, now);
        }
    });
    size
}

fn arrival(remote: SocketAddr) -> Arrival {
    Arrival { remote, socket: SocketIndex::default(), local_ip: None, ecn: EcnCodepoint::NotEct }
}

impl Peer {
    /// Passes the transport's events to HTTP/3, and handles the resulting HTTP/3 events.
    fn feed(&mut self, now: Timestamp, connection: &mut Connection, content: &Bytes) {
        let http3 = &mut self.http3;
        if connection.is_compacted() {
            http3.compact();
        }
        let mut streams = QuicStreams::new(now, connection);
        while let Some(event) = streams.connection_mut().next_event() {
            match event {
                Event::Connected => {
                    http3.on_streams_available(&mut streams);
                    if http3.role() == Role::Client {
                        http3.send_request(&mut streams, &request(), true).expect("a stream");
                    }
                }
                Event::StreamsAvailable(_) => http3.on_streams_available(&mut streams),
                Event::Opened(_) => http3.on_streams_arrived(&mut streams),
                Event::Readable(id) => http3.on_readable(&mut streams, id.get()),
                Event::Writable(id) => http3.on_writable(&mut streams, id.get()),
                Event::Closed(error) => panic!("a connection ended: {error}"),
                _ => {}
            }
        }
        while let Some(event) = http3.next_event() {
            match event {
                http3::Event::Request { stream, .. } => {
                    http3
                        .send_response(&mut streams, stream, &response(content.len()), false)
                        .expect("headers");
                    let taken = http3.send_body(&mut streams, stream, content.clone());
                    assert_eq!(taken, Ok(content.len()));
                    http3.finish(&mut streams, stream).expect("the end");
                }
                http3::Event::Data { stream } => {
                    while http3.read_body(&mut streams, stream, usize::MAX).is_some() {}
                }
                http3::Event::Finished { .. } => self.answered += 1,
                _ => {}
            }
        }
    }
}

/// Returns a request like the ones that browsers make.
fn request() -> Request<()> {
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let request = Request::get("https://localhost/assets/index.html")
        .header("user-agent", agent)
        .header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        .header("accept-language", "en-US,en;q=0.5")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .header("priority", "u=1, i");
    request.body(()).expect("a request")
}

fn response(content_size: usize) -> Response<()> {
    let response = Response::builder()
        .header("content-type", "text/html; charset=utf-8")
        .header("content-length", content_size)
        .header("cache-control", "public, max-age=3600")
        .header("etag", "\"5f3c-61a2b3c4d5e6f\"")
        .header("server", "clearway");
    response.body(()).expect("a response")
}
