//! Tests of aspects that require endpoints: the identity that the application sees, and hot
//! restarts.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use clearway::{
    ClientCertificates, ClientConfig, ClientRoots, Endpoint, HotRestart, Identity,
    MemorySessionStore, SavedSession, ServerConfig, SessionStore, Version,
};
use rcgen::{CertificateParams, KeyPair};
use tokio::sync::watch;

use crate::authority::Ca;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(15), test).await.expect("the test hangs")
    });
}

/// Returns a server's certificate.
fn site() -> Identity {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Identity::from_der(vec![made.der().clone()], key).unwrap()
}

fn server(own: &Identity, roots: &ClientRoots) -> ServerConfig {
    let certificates = clearway::Certificates::new([own.clone()]).unwrap();
    ServerConfig::with_resolver(Arc::new(certificates))
        .application_protocols(["test"])
        .early_data(true)
        .client_certificates(ClientCertificates::Required, roots.clone())
}

/// A store that reports how many sessions it has received.
#[derive(Debug, Default)]
struct Store {
    sessions: MemorySessionStore,
    count: watch::Sender<usize>,
}

impl SessionStore for Store {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        self.sessions.put_session(server_name, session);
        self.count.send_modify(|count| *count += 1);
    }

    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession> {
        self.sessions.take_session(server_name, version)
    }

    fn put_token(&self, _: &str, _: &[u8]) {}

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

struct Client {
    endpoint: Endpoint,
    config: ClientConfig,
    store: Arc<Store>,
}

impl Client {
    fn new(own: &Identity, ca: Ca) -> Self {
        let mut roots = clearway::rustls::RootCertStore::empty();
        roots.add(own.chain()[0].clone()).unwrap();
        let store = Arc::new(Store::default());
        let config = ClientConfig::with_roots(roots)
            .application_protocols(["test"])
            .early_data(true)
            .session_store(store.clone())
            .client_certificate(ca.identity());
        Self { endpoint: Endpoint::client(loopback()).unwrap(), config, store }
    }
}

/// The properties of a client that the server's application sees.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    identity: Option<Vec<CertificateDer<'static>>>,
    is_early: bool,
}

impl Seen {
    fn with(ca: Ca, is_early: bool) -> Option<Self> {
        Some(Self { identity: Some(ca.client().cert.clone()), is_early })
    }
}

/// Sends a message, as early data if possible. `None` if the server rejects the client.
async fn send(client: &Client, server: &Endpoint) -> Option<Seen> {
    let mut tickets = client.store.count.subscribe();
    tickets.mark_unchanged();
    let to = server.local_address();
    let connecting = client.endpoint.connect_with(&client.config, to, "localhost").unwrap();
    let sending = async {
        let connection = match connecting.into_0rtt().await {
            Ok((connection, _)) => connection,
            Err(connecting) => connecting.await.ok()?,
        };
        let (mut stream, _) = connection.open_bi().await.ok()?;
        stream.write_all(b"message").await.ok()?;
        stream.finish().ok()?;
        Some(connection)
    };
    let receiving = async {
        let connecting = server.accept().await?;
        let (connection, is_early) = match connecting.into_0rtt().await {
            Ok((connection, _)) => (connection, true),
            Err(connecting) => (connecting.await.ok()?, false),
        };
        let identity = connection.peer_identity().map(<[_]>::to_vec);
        let (_, mut stream) = connection.accept_bi().await.ok()?;
        assert_eq!(stream.read_to_end(100).await.ok()?, b"message");
        Some((connection, Seen { identity, is_early }))
    };
    let (sent, received) = tokio::join!(sending, receiving);
    let (_connections, seen) = match (sent, received) {
        (Some(of_client), Some((of_server, seen))) => ((of_client, of_server), seen),
        _ => return None,
    };
    tickets.changed().await.unwrap();
    Some(seen)
}

/// If an identity is required, the application never gets a client without an identity, nor early
/// data from a client that is no longer trusted.
#[test]
fn early_data_has_an_identity_until_the_authority_is_replaced() {
    run(async {
        let own = site();
        let roots = ClientRoots::new(Ca::A.roots());
        let server = Endpoint::server(loopback(), server(&own, &roots)).unwrap();
        let (of_a, of_b) = (Client::new(&own, Ca::A), Client::new(&own, Ca::B));
        assert_eq!(send(&of_a, &server).await, Seen::with(Ca::A, false));
        assert_eq!(send(&of_a, &server).await, Seen::with(Ca::A, true));
        roots.replace(Ca::B.roots()).unwrap();
        assert_eq!(send(&of_a, &server).await, None);
        assert_eq!(send(&of_b, &server).await, Seen::with(Ca::B, false));
        assert_eq!(send(&of_b, &server).await, Seen::with(Ca::B, true));
    });
}

/// A server that takes over uses the same ticket keys, but its own authorities.
#[test]
fn a_server_that_takes_over_asks_ticket_holders_again() {
    run(async {
        let own = site();
        for (successor, expected) in [(Ca::A, Seen::with(Ca::A, false)), (Ca::B, None)] {
            let name = format!("clearway-trust-{}-{successor:?}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let take_over = |ca: Ca| {
                let config = server(&own, &ClientRoots::new(ca.roots())).early_data(false);
                let config = config.hot_restart(HotRestart::at(&path).unwrap());
                Endpoint::server(loopback(), config).unwrap()
            };
            let (of_a, of_b) = (Client::new(&own, Ca::A), Client::new(&own, Ca::B));
            let first = take_over(Ca::A);
            assert_eq!(send(&of_a, &first).await, Seen::with(Ca::A, false));
            let second = take_over(successor);
            first.replaced().await;
            assert_eq!(send(&of_a, &second).await, expected);
            let of_b = send(&of_b, &second).await;
            assert_eq!(of_b.is_some(), expected.is_none());
        }
    });
}
