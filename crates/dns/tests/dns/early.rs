//! Queries in early data (0-RTT, RFC 9250 §4.5).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clearway::http3::{self, Body};
use clearway::{
    ClientConfig, Endpoint, SavedSession, ServerConfig, SessionStore, TicketKeys, Version,
};
use clearway_dns::hickory_proto::op::{Message, OpCode, ResponseCode};
use clearway_dns::{Answer, Client, ExtendedError, Limits, Request, Server, UnsafeEarlyQuery};
use futures_util::future::BoxFuture;
use http::StatusCode;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc, watch};

use crate::support::{Site, address, framed, loopback, query};

/// The opcodes that are safe to replay.
const SAFE: [OpCode; 2] = [OpCode::Query, OpCode::Notify];
/// The other assigned opcodes (1 is IQUERY, 6 is DSO), and one that is not assigned.
const UNSAFE: [OpCode; 5] =
    [OpCode::Unknown(1), OpCode::Status, OpCode::Update, OpCode::Unknown(6), OpCode::Unknown(15)];

/// Stores the last session.
#[derive(Debug, Default)]
struct Store {
    session: Mutex<Option<SavedSession>>,
    arrived: Notify,
}

impl SessionStore for Store {
    fn put_session(&self, _: &str, session: SavedSession) {
        *self.session.lock().unwrap() = Some(session);
        self.arrived.notify_one();
    }

    fn take_session(&self, _: &str, _: Version) -> Option<SavedSession> {
        self.session.lock().unwrap().take()
    }

    fn put_token(&self, _: &str, _: &[u8]) {}

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

/// A path that holds back the server's datagrams until it is opened, and thereby delays the end of
/// the handshake.
struct Gate {
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    async fn before(server: SocketAddr) -> Self {
        let to_client = UdpSocket::bind(loopback()).await.unwrap();
        let to_server = UdpSocket::bind(loopback()).await.unwrap();
        to_server.connect(server).await.unwrap();
        let address = to_client.local_addr().unwrap();
        let (open, mut is_open) = watch::channel(false);
        tokio::spawn(async move {
            let mut client = None;
            let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    Ok((length, from)) = to_client.recv_from(&mut up) => {
                        client = Some(from);
                        let _ = to_server.send(&up[..length]).await;
                    }
                    Ok(length) = to_server.recv(&mut down), if *is_open.borrow() => {
                        if let Some(client) = client {
                            let _ = to_client.send_to(&down[..length], client).await;
                        }
                    }
                    changed = is_open.changed() => if changed.is_err() {
                        return;
                    },
                }
            }
        });
        Self { address, open }
    }
}

type Respond = Box<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A server that reports the opcodes it processes, the path to it, and a client with a session.
struct Setup {
    site: Site,
    server: Server<Respond>,
    gate: Gate,
    endpoint: Endpoint,
    config: ClientConfig,
    processed: Processed,
    /// Must outlive the test: the server's endpoint shuts down when its last handle is dropped.
    listening: Listening,
}

/// The opcodes that the server has processed.
struct Processed(mpsc::UnboundedReceiver<OpCode>);

impl Processed {
    /// Waits until the server has processed the next message.
    async fn next(&mut self) -> OpCode {
        let next = tokio::time::timeout(Duration::from_secs(20), self.0.recv());
        next.await.expect("the server processes a message").unwrap()
    }
}

/// What listens, over QUIC or over HTTP/3.
enum Listening {
    Quic(Box<Endpoint>),
    Https(Arc<http3::Server>),
}

impl Listening {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Quic(endpoint) => endpoint.local_address(),
            Self::Https(server) => server.local_address(),
        }
    }
}

/// Returns the configuration of a server that accepts early data, with these ticket keys.
fn accepting(site: &Site, keys: &[u8; 32]) -> ServerConfig {
    site.server().early_data(true).ticket_keys(TicketKeys::new(keys))
}

/// Starts listening over QUIC.
fn serve_quic(server: &Server<Respond>, config: ServerConfig) -> Listening {
    let endpoint = Endpoint::server(loopback(), config).unwrap();
    let (server, serving) = (server.clone(), endpoint.clone());
    tokio::spawn(async move { server.serve_quic(&serving).await });
    Listening::Quic(Box::new(endpoint))
}

/// Starts listening over HTTP/3.
fn serve_https(server: &Server<Respond>, config: ServerConfig) -> Listening {
    let https = Arc::new(http3::Server::bind(loopback(), config).unwrap());
    let (server, serving) = (server.clone(), https.clone());
    tokio::spawn(async move { server.serve_https(&serving).await });
    Listening::Https(https)
}

impl Setup {
    async fn new(unsafe_early: UnsafeEarlyQuery) -> Self {
        Self::with(unsafe_early, serve_quic).await
    }

    async fn with(
        unsafe_early: UnsafeEarlyQuery,
        serve: fn(&Server<Respond>, ServerConfig) -> Listening,
    ) -> Self {
        let site = Site::new();
        let (sender, processed) = mpsc::unbounded_channel();
        let processed = Processed(processed);
        let respond: Respond = Box::new(move |request: Request| {
            sender.send(request.message().metadata.op_code).unwrap();
            Box::pin(async move { address(&request).into() })
        });
        let server = Server::with_limits(respond, Limits::default(), unsafe_early);
        let listening = serve(&server, accepting(&site, &[1; 32]));
        let store = Arc::new(Store::default());
        let config = site.client().early_data(true).session_store(store.clone());
        let endpoint = Endpoint::client(loopback()).unwrap();
        let gate = Gate::before(listening.address()).await;
        let mut setup = Self { site, server, gate, endpoint, config, processed, listening };
        setup.begin_session().await;
        store.arrived.notified().await;
        setup
    }

    /// Sends a query on a first connection, whose session the client stores.
    async fn begin_session(&mut self) {
        let (to, query) = (self.listening.address(), query("www.example."));
        match &self.listening {
            Listening::Quic(_) => {
                self.connect(to).await.query(query).await.unwrap();
            }
            Listening::Https(_) => {
                let client = self.connect_https(to).await;
                let response = client.send(get(&query)).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
            }
        }
        assert_eq!(self.processed.next().await, OpCode::Query);
    }

    async fn connect(&self, to: SocketAddr) -> Client {
        Client::connect(&self.endpoint, &self.config, to, "localhost").await.unwrap()
    }

    async fn connect_https(&self, to: SocketAddr) -> http3::Client {
        let config = self.config.clone().application_protocols([http3::PROTOCOL]);
        http3::Client::connect(&self.endpoint, &config, to, "localhost").await.unwrap()
    }

    /// Sends a message in early data, which [`Client`] never does with unsafe ones. Returns the
    /// response.
    async fn send_early(&mut self, message: Message) -> Message {
        let to = self.gate.address;
        let connecting = self.endpoint.connect_with(&self.config, to, "localhost").unwrap();
        let (connection, _) = connecting.into_0rtt().await.expect("early data is possible");
        let mut recv = crate::support::send(&connection, framed(message)).await;
        // A query on a later stream shows that the server has received the message.
        let _recv = crate::support::send(&connection, framed(query("www.example."))).await;
        assert_eq!(self.processed.next().await, OpCode::Query);
        self.gate.open.send_replace(true);
        let octets = recv.read_to_end(70_000).await.unwrap();
        Message::from_vec(&octets[2..]).unwrap()
    }
}

/// Returns a message with this opcode.
fn operation(op_code: OpCode) -> Message {
    let mut message = query("example.");
    message.metadata.op_code = op_code;
    message
}

/// Returns a GET request with a message.
fn get(message: &Message) -> http::Request<Body> {
    let message = URL_SAFE_NO_PAD.encode(message.to_vec().unwrap());
    let request = http::Request::get(format!("https://localhost/dns-query?dns={message}"));
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn safe_operations_are_processed_before_the_handshake_is_complete() {
    for op_code in SAFE {
        let mut setup = Setup::new(UnsafeEarlyQuery::Refuse).await;
        let client = setup.connect(setup.gate.address).await;
        let processing = async {
            // The client has received nothing yet.
            assert_eq!(setup.processed.next().await, op_code);
            setup.gate.open.send_replace(true);
        };
        let (response, ()) = tokio::join!(client.query(operation(op_code)), processing);
        assert_eq!(response.unwrap().answers.len(), 1);
        assert!(client.connection().early_data_accepted().await);
    }
}

#[tokio::test]
async fn a_client_sends_unsafe_operations_after_the_handshake() {
    for op_code in UNSAFE {
        let mut setup = Setup::new(UnsafeEarlyQuery::Refuse).await;
        let client = setup.connect(setup.gate.address).await;
        let processing = async {
            // This query was sent after the operation, and arrives first.
            assert_eq!(setup.processed.next().await, OpCode::Query);
            setup.gate.open.send_replace(true);
            assert_eq!(setup.processed.next().await, op_code);
        };
        let (operation, query) =
            (client.query(operation(op_code)), client.query(query("www.example.")));
        let (response, later, ()) = tokio::join!(operation, query, processing);
        assert_eq!(response.unwrap().metadata.response_code, ResponseCode::NoError);
        assert!(later.is_ok());
        assert_eq!(setup.server.statistics().too_early, 0);
    }
}

#[tokio::test]
async fn unsafe_operations_in_early_data_are_refused() {
    for op_code in UNSAFE {
        let mut setup = Setup::new(UnsafeEarlyQuery::Refuse).await;
        let response = setup.send_early(operation(op_code)).await;
        assert_eq!(response.metadata.response_code, ResponseCode::Refused, "{op_code}");
        let reason = ExtendedError::of(&response.edns.unwrap()).unwrap();
        assert_eq!(reason.code, 26);
        assert!(setup.processed.0.is_empty(), "{op_code}");
        assert_eq!(setup.server.statistics().too_early, 1);
    }
}

#[tokio::test]
async fn unsafe_operations_in_early_data_can_wait_for_the_handshake() {
    for op_code in UNSAFE {
        let mut setup = Setup::new(UnsafeEarlyQuery::Wait).await;
        let response = setup.send_early(operation(op_code)).await;
        assert_eq!(response.metadata.response_code, ResponseCode::NoError, "{op_code}");
        assert_eq!(setup.processed.next().await, op_code);
    }
}

#[tokio::test]
async fn a_query_in_rejected_early_data_is_processed_once_after_the_handshake() {
    let mut setup = Setup::new(UnsafeEarlyQuery::Refuse).await;
    // A server that cannot decrypt the ticket.
    let other = serve_quic(&setup.server, accepting(&setup.site, &[2; 32]));
    let client = setup.connect(other.address()).await;
    let response = client.query(query("www.example.")).await.unwrap();
    assert_eq!(response.answers.len(), 1);
    assert!(!client.connection().early_data_accepted().await);
    assert_eq!(setup.processed.next().await, OpCode::Query);
    assert!(setup.processed.0.is_empty());
}

/// DNS over HTTP/3 rejects other methods than GET in early data, but any message can be in a GET
/// request. The client repeats a request that gets status 425.
#[tokio::test]
async fn unsafe_operations_in_early_get_requests_are_rejected() {
    for op_code in UNSAFE {
        let mut setup = Setup::with(UnsafeEarlyQuery::Refuse, serve_https).await;
        let client = setup.connect_https(setup.gate.address).await;
        let processing = async {
            assert_eq!(setup.processed.next().await, OpCode::Query);
            setup.gate.open.send_replace(true);
            assert_eq!(setup.processed.next().await, op_code);
        };
        let (operation, query) = (get(&operation(op_code)), get(&query("www.example.")));
        let (response, later, ()) =
            tokio::join!(client.send(operation), client.send(query), processing);
        assert_eq!(response.unwrap().status(), StatusCode::OK, "{op_code}");
        assert_eq!(later.unwrap().status(), StatusCode::OK);
        assert!(client.early_data_accepted().await);
        assert_eq!(setup.server.statistics().too_early, 1, "{op_code}");
    }
}
