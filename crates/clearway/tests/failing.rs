//! Tests that the unexpected end of a shard is reported. This test is alone in its process, because
//! its subscriber is global, and would also end shards of other tests whose ports are the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clearway::http3::{Client, PROTOCOL as H3, Server};
use clearway::rustls::RootCertStore;
use clearway::{
    ClientConfig, ConnectError, ConnectFailure, ConnectionError, Endpoint, ServerConfig,
};
use http::{Request, Response};
use tracing::field::{Field, Visit};
use tracing::{Event, Id, Level, Metadata, Subscriber, span};

use support::{Pair, identity, loopback, run};

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "quic/support.rs"]
mod support;

/// The port of the client whose connection makes its shard end.
static PORT: AtomicU64 = AtomicU64::new(0);
/// Set when an event of level ERROR reported the end of a shard.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// A subscriber that panics when a connection with the client at [`PORT`] begins. The library does
/// not catch panics of a subscriber.
struct Panicking;

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "connection" || *metadata.level() == Level::ERROR
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> Id {
        struct Remote;
        impl Visit for Remote {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                let port = PORT.load(Ordering::SeqCst);
                let is_wanted =
                    field.name() == "remote" && format!("{value:?}").ends_with(&format!(":{port}"));
                if is_wanted {
                    // The port may be assigned again later.
                    PORT.store(0, Ordering::SeqCst);
                    panic!("this panic is intended");
                }
            }
        }
        attributes.record(&mut Remote);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Message;
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" && format!("{value:?}").contains("a shard has ended") {
                    IS_REPORTED.store(true, Ordering::SeqCst);
                }
            }
        }
        event.record(&mut Message);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Makes the shard that gets the next connection from `client` end.
fn end_shard_of(client: &Endpoint) {
    PORT.store(client.local_address().port().into(), Ordering::SeqCst);
}

const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the cases one after the other, because there is only one [`PORT`].
#[test]
fn a_shard_that_fails_says_so() {
    tracing::subscriber::set_global_default(Panicking).expect("there is no other");
    run(async {
        raw_streams().await;
        http3().await;
        connecting().await;
    });
    assert!(IS_REPORTED.load(Ordering::SeqCst));
}

async fn raw_streams() {
    let pair = Pair::new();
    let (client, server) = pair.connect().await;
    let other = Endpoint::client(loopback()).unwrap();
    end_shard_of(&other);
    let accepting = pair.server.clone();
    let accepting = tokio::spawn(async move { while accepting.accept().await.is_some() {} });
    let victim = other.connect_with(&pair.config, pair.server.local_address(), "localhost");
    let victim = tokio::spawn(victim.unwrap());
    tokio::time::timeout(TIMEOUT, accepting).await.expect("accept() waits forever").unwrap();
    let failure = pair.server.failure().expect("the failure is reported");
    assert_eq!(failure.to_string(), "the thread panicked: this panic is intended");
    let reason = tokio::time::timeout(TIMEOUT, server.closed()).await.unwrap();
    assert!(matches!(reason, ConnectionError::EndpointFailed(_)), "{reason}");
    assert!(reason.to_string().contains("this panic is intended"), "{reason}");
    assert_eq!(pair.server.statistics().shards_failed, 1);
    tokio::time::timeout(TIMEOUT, pair.server.wait_idle()).await.expect("nothing is left");
    // The address can be bound again.
    drop((client, victim));
    Endpoint::server(pair.server.local_address(), configs().0).unwrap();
}

async fn http3() {
    let (server, config) = configs();
    let server = Arc::new(Server::bind(loopback(), server).unwrap());
    let address = server.local_address();
    let serving = server.clone();
    let serving =
        tokio::spawn(async move { serving.serve(|_| async { Response::new("fine") }).await });
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
    let request = || Request::get("https://localhost/").body(()).unwrap();
    assert_eq!(client.send(request()).await.unwrap().status(), 200);
    let other = Endpoint::client(loopback()).unwrap();
    end_shard_of(&other);
    let victim = other.connect_with(&config, address, "localhost").unwrap();
    let victim = tokio::spawn(victim);
    tokio::time::timeout(TIMEOUT, serving).await.expect("serve() waits forever").unwrap();
    assert!(server.endpoint().failure().is_some());
    drop(victim);
}

/// A failed client endpoint also reports the failure.
async fn connecting() {
    let pair = Pair::new();
    // The client's shard sees the server's address.
    PORT.store(pair.server.local_address().port().into(), Ordering::SeqCst);
    let lost = tokio::time::timeout(TIMEOUT, pair.connecting()).await.unwrap().unwrap_err();
    assert!(matches!(lost, ConnectError::Lost(ConnectionError::EndpointFailed(_))), "{lost}");
    let later = tokio::time::timeout(TIMEOUT, pair.connecting()).await.unwrap().unwrap_err();
    let is_known = matches!(later, ConnectError::NotStarted(ConnectFailure::ShardFailed(_)));
    assert!(is_known && later.to_string().contains("this panic is intended"), "{later}");
}

fn configs() -> (ServerConfig, ClientConfig) {
    let own = identity();
    let mut roots = RootCertStore::empty();
    roots.add(own.certificate.clone()).unwrap();
    let server = ServerConfig::new(vec![own.certificate], own.key).application_protocols([H3]);
    (server, ClientConfig::with_roots(roots).application_protocols([H3]))
}
