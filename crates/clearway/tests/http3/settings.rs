//! Tests every limit of a server at its minimum and maximum allowed value, one at a time and all
//! together: clients exchange messages one after the other, and leave nothing behind.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Body, Client, Server, Timeouts};
use clearway::{Endpoint, MAX_SHARDS, MemoryBudget, ServerConfig};
use http::{Request, Response};

use crate::support::{configs, get, loopback, pattern, post, run};

/// The settings of a server.
struct Settings {
    config: ServerConfig,
    discard_limit: Option<u64>,
    /// Set if a second client is refused while a first one is connected.
    is_for_one: bool,
}

/// A limit: its name, and functions that set its minimum and maximum.
type Limit = (&'static str, fn(Settings) -> Settings, fn(Settings) -> Settings);

fn with(settings: Settings, set: impl FnOnce(ServerConfig) -> ServerConfig) -> Settings {
    Settings { config: set(settings.config), ..settings }
}

const LIMITS: [Limit; 10] = [
    (
        "max_connections",
        |it| Settings { is_for_one: true, ..with(it, |config| config.max_connections(1)) },
        |it| with(it, |config| config.max_connections(usize::MAX)),
    ),
    (
        "retry_above",
        |it| with(it, |config| config.retry_above(0)),
        |it| with(it, |config| config.retry_above(usize::MAX)),
    ),
    (
        "max_incoming",
        |it| with(it, |config| config.max_incoming(0)),
        |it| with(it, |config| config.max_incoming(usize::MAX)),
    ),
    (
        "incoming_buffer",
        |it| with(it, |config| config.incoming_buffer(0)),
        |it| with(it, |config| config.incoming_buffer(usize::MAX)),
    ),
    (
        "shards",
        |it| with(it, |config| config.shards(NonZeroUsize::MIN)),
        |it| with(it, |config| config.shards(NonZeroUsize::new(MAX_SHARDS).unwrap())),
    ),
    (
        "max_session_age",
        |it| with(it, |config| config.max_session_age(Duration::ZERO)),
        |it| with(it, |config| config.max_session_age(Duration::MAX)),
    ),
    // A client cannot answer a Retry in no time: see `quic/tokens.rs`.
    (
        "retry_token_lifetime",
        |it| with(it, |config| config.retry_token_lifetime(Duration::from_secs(1))),
        |it| with(it, |config| config.retry_above(0).retry_token_lifetime(Duration::MAX)),
    ),
    (
        "address_token_lifetime",
        |it| with(it, |config| config.address_token_lifetime(Duration::ZERO)),
        |it| with(it, |config| config.retry_above(0).address_token_lifetime(Duration::MAX)),
    ),
    // A budget of half a megabyte has room for one connection.
    (
        "memory_budget",
        |it| with(it, |config| config.memory_budget(MemoryBudget::new(512 << 10))),
        |it| with(it, |config| config.memory_budget(MemoryBudget::new(u64::MAX))),
    ),
    (
        "discard_limit",
        |it| Settings { discard_limit: Some(0), ..it },
        |it| Settings { discard_limit: Some(u64::MAX), ..it },
    ),
];

/// Echoes uploads, unless the request's path indicates that they are unwanted.
async fn answer(request: Request<clearway::http3::RecvBody>) -> Response<Body> {
    if request.uri().path() == "/unwanted" {
        return Response::new(Body::full("no, thanks"));
    }
    Response::new(Body::full(request.into_body().bytes(1 << 20).await.unwrap()))
}

/// Sends requests on one connection, which must not wait for anything except the server.
async fn exchange(name: &str, client: &Client) {
    let upload = pattern(200_000);
    for (request, expected) in [
        (get("/"), Bytes::new()),
        (post("/", upload.clone()), upload.clone()),
        (post("/unwanted", upload), Bytes::from_static(b"no, thanks")),
    ] {
        let response = client.send(request).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let body = response.into_body().bytes(1 << 20).await;
        assert!(body.as_ref().ok() == Some(&expected), "{name}: {:?}", body.map(|it| it.len()));
    }
}

/// Two clients use the server, at the same time if allowed, and then the server is shut down.
async fn clients_come(name: &str, set: impl FnOnce(Settings) -> Settings) {
    let (config, client_config) = configs(Default::default());
    let settings = set(Settings { config, discard_limit: None, is_for_one: false });
    let server = Server::bind(loopback(), settings.config).unwrap();
    let server = server.with_timeouts(Timeouts { request: Duration::MAX, send: Duration::MAX });
    let server = match settings.discard_limit {
        Some(bytes) => server.discard_limit(bytes),
        None => server,
    };
    let server = std::sync::Arc::new(server);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(answer).await }
    });
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connect =
        || Client::connect(&endpoint, &client_config, server.local_address(), "localhost");
    let first = connect().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    exchange(name, &first).await;
    let mut second = connect().await;
    assert_eq!(second.is_err(), settings.is_for_one, "{name}: {:?}", second.as_ref().err());
    if settings.is_for_one {
        drop(first);
        server.endpoint().wait_idle().await;
        second = connect().await;
    } else {
        exchange(name, &first).await;
    }
    exchange(name, &second.unwrap_or_else(|error| panic!("{name}: {error}"))).await;
    server.shutdown().await;
    serving.await.unwrap();
    server.endpoint().wait_idle().await;
    assert_eq!(server.endpoint().statistics().connections, 0, "{name}");
}

#[test]
fn clients_come_with_each_limit_at_its_least_and_greatest() {
    run(async {
        for (name, least, greatest) in LIMITS {
            clients_come(&format!("the least {name}"), least).await;
            clients_come(&format!("the greatest {name}"), greatest).await;
        }
        let all = |settings, is_least| {
            LIMITS.iter().fold(settings, |settings, (_, least, greatest)| {
                if is_least { least(settings) } else { greatest(settings) }
            })
        };
        clients_come("all least", |settings| all(settings, true)).await;
        clients_come("all greatest", |settings| all(settings, false)).await;
    });
}
