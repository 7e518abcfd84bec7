//! Shared support for the early data tests: servers with the same name and certificate, a session
//! store, and a path that delays the server's datagrams.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use clearway::http3::{Client, Early, PROTOCOL, Server};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use clearway::{
    ClientConfig, Connection, Endpoint, SavedSession, ServerConfig, SessionStore, TicketKeys,
    Version,
};
use http::Response;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use crate::support::{get, loopback};

/// A server name with its certificate, for one or more servers.
pub(crate) struct Site {
    name: String,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::named("localhost")
    }

    pub(crate) fn named(name: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec![name.into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        Self { name: name.into(), certificate: certified.cert.into(), key: key.into() }
    }

    /// Returns the configuration of a server that accepts early data.
    pub(crate) fn server(&self, keys: &TicketKeys) -> ServerConfig {
        ServerConfig::new(vec![self.certificate.clone()], self.key.clone_key())
            .application_protocols([PROTOCOL])
            .early_data(true)
            .ticket_keys(keys.clone())
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// Returns the configuration of a client that offers early data, with sessions from `store`.
    pub(crate) fn client(&self, store: &Arc<Store>) -> ClientConfig {
        ClientConfig::with_roots(self.roots())
            .application_protocols([PROTOCOL])
            .early_data(true)
            .session_store(store.clone())
    }
}

/// Starts a server that responds with `early` or `late`, depending on how the request arrived.
pub(crate) fn serve(config: ServerConfig) -> Arc<Server> {
    let server = Arc::new(Server::bind(loopback(), config).unwrap());
    let serving = server.clone();
    tokio::spawn(async move {
        let answer = |request| async move {
            Response::new(if Early::is_in(&request) { "early" } else { "late" })
        };
        serving.serve(answer).await;
    });
    server
}

/// Stored sessions, newest last, and the number received so far.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) sessions: Mutex<Vec<(String, SavedSession)>>,
    count: watch::Sender<usize>,
}

impl Store {
    /// Creates a store with this session.
    pub(crate) fn with(session: &SavedSession) -> Arc<Self> {
        let store = Self::default();
        store.put_session("localhost", session.clone());
        Arc::new(store)
    }

    /// Waits for a session, and removes and returns it.
    pub(crate) async fn next(&self) -> SavedSession {
        let mut counts = self.count.subscribe();
        loop {
            if let Some((_, session)) = self.sessions.lock().unwrap().pop() {
                return session;
            }
            counts.changed().await.unwrap();
        }
    }
}

impl SessionStore for Store {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        self.sessions.lock().unwrap().push((server_name.to_owned(), session));
        self.count.send_modify(|count| *count += 1);
    }

    fn take_session(&self, server_name: &str, _: Version) -> Option<SavedSession> {
        let mut sessions = self.sessions.lock().unwrap();
        let place = sessions.iter().rposition(|(name, _)| name == server_name)?;
        Some(sessions.remove(place).1)
    }

    fn put_token(&self, _: &str, _: &[u8]) {}

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

/// A path that delays the server's datagrams until the gate is opened, so that the handshake is not
/// complete before that.
pub(crate) struct Gate {
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Creates a closed gate in front of `server`.
    pub(crate) async fn before(server: SocketAddr) -> Self {
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
                    changed = is_open.changed() => {
                        if changed.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Self { address, open }
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A test site with the keys of its server's tickets, and a client with a session from this server.
pub(crate) struct Known {
    pub(crate) site: Site,
    pub(crate) keys: TicketKeys,
    pub(crate) endpoint: Endpoint,
    pub(crate) session: SavedSession,
}

impl Known {
    pub(crate) async fn new() -> Self {
        let site = Site::new();
        let keys = TicketKeys::new(&[1; 32]);
        let session = session_of(&site, site.server(&keys)).await;
        Self { site, keys, endpoint: Endpoint::client(loopback()).unwrap(), session }
    }

    /// Connects a client that uses the session to `address`.
    pub(crate) async fn connect(&self, address: SocketAddr) -> Client {
        self.connect_with(&self.session, address).await
    }

    pub(crate) async fn connect_with(&self, session: &SavedSession, to: SocketAddr) -> Client {
        let config = self.site.client(&Store::with(session));
        Client::connect(&self.endpoint, &config, to, "localhost").await.unwrap()
    }

    /// Like `connect`, but returns a QUIC connection on which any bytes can be sent before the
    /// handshake is complete.
    pub(crate) async fn connect_raw(&self, address: SocketAddr) -> Connection {
        let config = self.site.client(&Store::with(&self.session));
        let connecting = self.endpoint.connect_with(&config, address, "localhost").unwrap();
        connecting.into_0rtt().await.expect("early data is possible").0
    }
}

/// Returns a session that a server with this configuration issues to a client.
pub(crate) async fn session_of(site: &Site, config: ServerConfig) -> SavedSession {
    let server = serve(config);
    let store = Arc::new(Store::default());
    let endpoint = Endpoint::client(loopback()).unwrap();
    let config = site.client(&store);
    let client = Client::connect(&endpoint, &config, server.local_address(), &site.name).await;
    let client = client.unwrap();
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert!(!client.early_data_accepted().await, "there was no session");
    let session = store.next().await;
    assert!(session.permits_early_data());
    session
}

/// Returns the response of [`serve`].
pub(crate) async fn answer(client: &Client) -> String {
    let mut response = client.send(get("/")).await.unwrap();
    assert_eq!(response.status(), 200);
    let content = response.body_mut().bytes(100).await.unwrap();
    String::from_utf8(content.to_vec()).unwrap()
}
