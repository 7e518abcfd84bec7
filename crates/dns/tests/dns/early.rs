//! Queries in early data (0-RTT, RFC 9250 §4.5).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clearway::{ClientConfig, Endpoint, SavedSession, SessionStore, TicketKeys, Version};
use clearway_dns::hickory_proto::op::{Message, OpCode, ResponseCode};
use clearway_dns::{Client, ExtendedError, Limits, Request, Server, UnsafeEarlyQuery};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc, watch};

use crate::support::{Site, address, framed, loopback, query};

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

/// A server that reports the opcodes it processes, the path to it, and a client with a session.
struct Setup {
    gate: Gate,
    endpoint: Endpoint,
    config: ClientConfig,
    processed: mpsc::UnboundedReceiver<OpCode>,
    /// Must outlive the test: the server's endpoint shuts down when its last handle is dropped.
    _server: Endpoint,
}

async fn setup(unsafe_early: UnsafeEarlyQuery) -> Setup {
    let site = Site::new();
    let (sender, mut processed) = mpsc::unbounded_channel();
    let handler = move |request: Request| {
        sender.send(request.message().metadata.op_code).unwrap();
        async move { address(&request) }
    };
    let server = Server::with_limits(handler, Limits::default(), unsafe_early);
    let config = site.server().early_data(true).ticket_keys(TicketKeys::new(&[1; 32]));
    let listening = Endpoint::server(loopback(), config).unwrap();
    let serving = listening.clone();
    tokio::spawn(async move { server.serve_quic(&serving).await });

    let store = Arc::new(Store::default());
    let config = site.client().early_data(true).session_store(store.clone());
    let endpoint = Endpoint::client(loopback()).unwrap();
    let to = listening.local_address();
    let client = Client::connect(&endpoint, &config, to, "localhost").await.unwrap();
    client.query(query("www.example.")).await.unwrap();
    assert_eq!(processed.recv().await, Some(OpCode::Query));
    store.arrived.notified().await;
    let gate = Gate::before(to).await;
    Setup { gate, endpoint, config, processed, _server: listening }
}

fn update() -> Message {
    let mut message = query("example.");
    message.metadata.op_code = OpCode::Update;
    message
}

#[tokio::test]
async fn a_query_is_processed_before_the_handshake_is_complete() {
    let mut setup = setup(UnsafeEarlyQuery::Refuse).await;
    let to = setup.gate.address;
    let client = Client::connect(&setup.endpoint, &setup.config, to, "localhost").await.unwrap();
    let processing = async {
        // The client has received nothing yet.
        assert_eq!(setup.processed.recv().await, Some(OpCode::Query));
        setup.gate.open.send_replace(true);
    };
    let (response, ()) = tokio::join!(client.query(query("www.example.")), processing);
    assert_eq!(response.unwrap().answers.len(), 1);
    assert!(client.connection().early_data_accepted().await);
}

#[tokio::test]
async fn a_client_sends_an_update_after_the_handshake() {
    let mut setup = setup(UnsafeEarlyQuery::Refuse).await;
    let to = setup.gate.address;
    let client = Client::connect(&setup.endpoint, &setup.config, to, "localhost").await.unwrap();
    let processing = async {
        // This query was sent after the update, and arrives first.
        assert_eq!(setup.processed.recv().await, Some(OpCode::Query));
        setup.gate.open.send_replace(true);
        assert_eq!(setup.processed.recv().await, Some(OpCode::Update));
    };
    let (updated, response, ()) =
        tokio::join!(client.query(update()), client.query(query("www.example.")), processing);
    assert_eq!(updated.unwrap().metadata.response_code, ResponseCode::NoError);
    assert!(response.is_ok());
}

/// Sends an update in early data, which [`Client`] never does. Returns the response.
async fn update_early(setup: &mut Setup) -> Message {
    let to = setup.gate.address;
    let connecting = setup.endpoint.connect_with(&setup.config, to, "localhost").unwrap();
    let (connection, _) = connecting.into_0rtt().await.expect("early data is possible");
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.finish_with(Bytes::from(framed(update()))).await.unwrap();
    // A query on a later stream shows that the server has received the update.
    let (mut later, _recv) = connection.open_bi().await.unwrap();
    later.finish_with(Bytes::from(framed(query("www.example.")))).await.unwrap();
    assert_eq!(setup.processed.recv().await, Some(OpCode::Query));
    setup.gate.open.send_replace(true);
    let octets = recv.read_to_end(70_000).await.unwrap();
    Message::from_vec(&octets[2..]).unwrap()
}

#[tokio::test]
async fn an_update_in_early_data_is_refused() {
    let mut setup = setup(UnsafeEarlyQuery::Refuse).await;
    let response = update_early(&mut setup).await;
    assert_eq!(response.metadata.response_code, ResponseCode::Refused);
    let reason = ExtendedError::of(&response.edns.unwrap()).unwrap();
    assert_eq!(reason.code, 26);
    assert!(setup.processed.is_empty());
}

#[tokio::test]
async fn an_update_in_early_data_can_wait_for_the_handshake() {
    let mut setup = setup(UnsafeEarlyQuery::Wait).await;
    let response = update_early(&mut setup).await;
    assert_eq!(response.metadata.response_code, ResponseCode::NoError);
    assert_eq!(setup.processed.recv().await, Some(OpCode::Update));
}
