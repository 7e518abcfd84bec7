//! Tests of other promises in the public documentation: what clones share, when calls return or
//! fail, and so on.
//!
//! | promise | where | test |
//! |---|---|---|
//! | clones share TLS sessions, even if cloned before the first use | `ClientConfig` | `clones_of_a_configuration_share_sessions` |
//! | clones share server tokens | `ClientConfig::session_store` | `clones_of_a_configuration_share_tokens` |
//! | the command-line client resumes sessions | `get --resume` | `crates/cli/tests/program/serve_get.rs` |
//! | applies to this clone and later ones | `Endpoint::set_default_client_config` | `a_default_configuration_is_that_of_a_clone_and_its_clones` |
//! | after the last clone is dropped, no client is accepted, and connections continue | `Endpoint` | `connections_outlive_their_endpoint` |
//! | `None` for all waiting tasks when the endpoint is closed | `Endpoint::accept` | `everybody_who_waits_for_clients_learns_that_there_are_none` |
//! | returns when no connection is left | `Endpoint::wait_idle` | `closing.rs` |
//! | closes all connections and prevents new ones | `Endpoint::close` | `quic/connections.rs: closing_an_endpoint_closes_its_connections` |
//! | returns when all threads have ended | `halt` | `halt.rs` |
//! | additional connections are refused | `ServerConfig::max_connections` | `quic/connections.rs: clients_beyond_the_limit_are_refused` |
//! | a client must validate its address | `ServerConfig::retry_above` | `quic/connections.rs: a_retry_validates_the_address` |
//! | resolves to the connection once it was established | `Connecting` | `delivered.rs` |
//! | dropping it closes the connection | `Connecting` | `quic/connections.rs: dropping_a_connecting_future_closes_the_connection` |
//! | closed with code 0 when the last clone and stream are dropped, but not before | `Connection` | `the_last_handle_closes_a_connection` |
//! | all waiting tasks get the reason for the end | `Connection::closed` | `everybody_who_waits_learns_why_a_connection_has_ended` |
//! | a long reason is truncated | `Connection::close` | `a_long_reason_is_truncated` |
//! | each token is returned once | `Connection::new_token` | `clones_of_a_configuration_share_tokens` |
//! | 1,156 bytes are always accepted | `Connection::max_datagram_size` | `a_datagram_of_1156_bytes_is_accepted_at_once` |
//! | the newest 16,384 outcomes are kept | `Connection::datagram_outcome` | unit test in `datagrams.rs` |
//! | the newest 16 events are kept | `Connection::path_event` | unit test in `bridge/paths.rs` |
//! | dropping the future does not stop the migration | `Connection::migrate` | `a_migration_that_nobody_waits_for_takes_place` |
//! | ends with its runtime | `Connection::spawn`, `Endpoint::spawn`, `Server::serve_on_shards` | `resources.rs` |
//! | confirmed data can be read | `SendStream::stopped` | `delivered.rs` |
//! | returns `None` immediately after a reset | `SendStream::stopped` | `streams_end_once` |
//! | does not borrow the stream, and outlives it | `SendStream::stopped` | unit tests in `stream_tests.rs` |
//! | is seen without reading | `RecvStream::received_reset` | unit tests in `stream_tests.rs` |
//! | takes effect at once, or as streams end | `Connection::set_max_concurrent_bi_streams` and others | unit tests in `connection/handle.rs` |
//! | is remembered until it is possible | `Connection::force_key_update` | unit test in `connection/handle.rs` |
//! | known before the handshake is complete | `Connecting::handshake_data` | unit test in `connection/handle.rs` |
//! | counts connections until their closing period is over | `Endpoint::open_connections` | `endpoints_know_their_connections` |
//! | fail if the stream has already ended | `SendStream::finish`, `reset`, `RecvStream::stop` | `streams_end_once` |
//! | at most 1 MiB is buffered | `SendStream` | `quic/streams.rs: a_reader_that_does_not_read_stops_the_writer` |
//! | a dropped stream is finished, or stopped with code 0 | `SendStream`, `RecvStream` | `quic/streams.rs: dropped_streams_finish_and_stop` |
//! | connections take turns | `http3::Server::accept` | `clients_of_http3_take_turns` |
//! | still responds when the future is dropped | `http3::Server::serve_on_shards` | `requests_are_answered_after_the_serving_future_is_dropped` |
//! | the last clone closes after the exchanges | `http3::Client` | `http3/shutdown.rs: dropping_the_client_keeps_the_requests_in_progress` |
//! | returns when CONNECTION_CLOSE was sent | `http3::Client::shutdown` | `a_client_that_was_shut_down_has_said_so` |
//! | a ticket is accepted for early data once | `ServerConfig::shards` | `http3/early_sessions.rs: a_ticket_is_accepted_once_by_all_shards_together` |
//! | cancel-safe futures | all that are documented as such | `cancellation.rs` |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{self, Client, Server};
use clearway::rustls::RootCertStore;
use clearway::{
    ClientConfig, ConfigError, ConnectionError, Endpoint, EndpointError, PathEvent, ServerConfig,
    TransportConfig,
};
use http::{Request, Response};

use crate::programs::{run_program, server_of_program};
use crate::stack::{Clearway, End, Stack};
use crate::support::{Pair, code, identity, loopback, run};

/// Returns whether a connection with `config` resumes a session with early data.
async fn resumes(pair: &Pair, config: &ClientConfig) -> bool {
    let remote = pair.server.local_address();
    let connecting = pair.client.connect_with(config, remote, "localhost").unwrap();
    let accepting = async { pair.server.accept().await.unwrap().await.unwrap() };
    let (client, server) = tokio::join!(connecting, accepting);
    let client = client.unwrap();
    // Tickets and tokens arrive before data that the server sends later.
    server.open_uni().await.unwrap().finish().unwrap();
    client.accept_uni().await.unwrap();
    client.early_data_accepted().await
}

/// A typical program creates its configuration once, and clones it for each connection.
#[test]
fn clones_of_a_configuration_share_sessions() {
    run(async {
        let pair = Pair::with(TransportConfig::default(), |server| server.early_data(true));
        let config = pair.config.clone().early_data(true);
        let [first, second, third] = [config.clone(), config.clone(), config.clone().clone()];
        assert!(!resumes(&pair, &first).await);
        assert!(resumes(&pair, &second).await, "a clone that was taken before the first use");
        assert!(resumes(&pair, &third).await, "a clone of a clone");
        assert!(resumes(&pair, &config).await, "the original");
        // Settings that concern one connection keep the cached sessions; different TLS settings do
        // not.
        let same = config.clone().transport(TransportConfig::default());
        assert!(resumes(&pair, &same).await, "other transport settings");
        let other = config.clone().early_data(true);
        assert!(!resumes(&pair, &other).await, "another TLS configuration");
        assert!(resumes(&pair, &config).await, "the original is not affected");
    });
}

#[test]
fn clones_of_a_configuration_share_tokens() {
    run(async {
        // Every client without a token must validate its address.
        let pair = Pair::with(TransportConfig::default(), |server| server.retry_above(0));
        let [first, second] = [pair.config.clone(), pair.config.clone()];
        let retries = || pair.server.statistics().retries_sent;
        resumes(&pair, &first).await;
        // One Retry is sent for each datagram of the ClientHello.
        let before = retries();
        assert!(before > 0);
        resumes(&pair, &second).await;
        assert_eq!(retries(), before, "the second connection has the token of the first");

        let (client, server) = pair.connect().await;
        server.open_uni().await.unwrap().finish().unwrap();
        client.accept_uni().await.unwrap();
        assert!(client.new_token().is_some());
        assert!(client.new_token().is_none(), "each token is returned once");
    });
}

#[test]
fn a_default_configuration_is_that_of_a_clone_and_its_clones() {
    run(async {
        let Pair { server, mut client, config } = Pair::new();
        let earlier = client.clone();
        client.set_default_client_config(config);
        let later = client.clone();
        let remote = server.local_address();
        assert!(matches!(earlier.connect(remote, "localhost"), Err(ConfigError::NoClientConfig)));
        assert!(client.connect(remote, "localhost").is_ok());
        assert!(later.connect(remote, "localhost").is_ok());
    });
}

/// Sends a message in each direction.
async fn converse(one: &clearway::Connection, other: &clearway::Connection) {
    for (from, to) in [(one, other), (other, one)] {
        from.open_uni().await.unwrap().finish_with(Bytes::from_static(b"message")).await.unwrap();
        assert_eq!(to.accept_uni().await.unwrap().read_to_end(10).await.unwrap(), b"message");
    }
}

#[test]
fn connections_outlive_their_endpoint() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let Pair { server: endpoint, client: other, config } = pair;
        let (clone, remote) = (endpoint.clone(), endpoint.local_address());
        drop(endpoint);
        let connecting = other.connect_with(&config, remote, "localhost").unwrap();
        let accepting = async { clone.accept().await.unwrap().await };
        let (accepted, _) = tokio::join!(connecting, accepting);
        assert!(accepted.is_ok(), "there is another clone");
        drop(clone);
        let refused = other.connect_with(&config, remote, "localhost").unwrap().await;
        assert!(refused.is_err(), "no more clients are accepted");
        converse(&client, &server).await;
    });
}

#[test]
fn everybody_who_waits_for_clients_learns_that_there_are_none() {
    run(async {
        let Pair { server, .. } = Pair::new();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { server.accept().await.is_none() })
            })
            .collect();
        server.close(code(0), b"");
        for waiting in waiting {
            assert!(waiting.await.unwrap());
        }
        assert!(server.accept().await.is_none());
    });
}

#[test]
fn the_last_handle_closes_a_connection() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut sending, mut receiving) = client.open_bi().await.unwrap();
        drop(client.clone());
        drop(client);
        sending.write_all(b"question").await.unwrap();
        let (mut answer, mut question) = server.accept_bi().await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(question.read(&mut buffer).await, Ok(Some(8)));
        answer.finish_with(Bytes::from_static(b"answer")).await.unwrap();
        drop(sending);
        assert_eq!(receiving.read_to_end(10).await.unwrap(), b"answer");
        assert_eq!(server.close_reason(), None, "a stream keeps the connection");
        drop(receiving);
        assert_eq!(Clearway::closed(&server).await, End::by_peer(0, b""));
    });
}

#[test]
fn everybody_who_waits_learns_why_a_connection_has_ended() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { Clearway::closed(&server).await })
            })
            .collect();
        client.close(code(9), b"bye");
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), End::by_peer(9, b"bye"));
        }
        // Only the first close of a connection counts.
        client.close(code(10), b"again");
        server.close(code(11), b"too");
        assert_eq!(Clearway::closed(&server).await, End::by_peer(9, b"bye"));
        assert_eq!(client.closed().await, ConnectionError::LocallyClosed);
    });
}

#[test]
fn a_long_reason_is_truncated() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        client.close(code(9), &[b'x'; 5000]);
        let End::ByPeer(9, reason) = Clearway::closed(&server).await else { panic!("the code") };
        assert!((200..1000).contains(&reason.len()), "{}", reason.len());
        assert!(reason.iter().all(|octet| *octet == b'x'));
    });
}

#[test]
fn a_datagram_of_1156_bytes_is_accepted_at_once() {
    run(async {
        let Clearway(pair) = Clearway::new(Duration::from_secs(30));
        let (client, server) = pair.connect().await;
        assert!(client.max_datagram_size() >= Some(1156));
        let datagram = Bytes::from_static(&[7; 1156]);
        client.send_datagram(datagram.clone()).unwrap();
        assert_eq!(server.read_datagram().await, Ok(datagram));
    });
}

#[test]
fn a_migration_that_nobody_waits_for_takes_place() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        // The handshake is confirmed.
        converse(&client, &server).await;
        {
            let mut migrating = core::pin::pin!(client.migrate(loopback()));
            let mut context = core::task::Context::from_waker(core::task::Waker::noop());
            assert!(migrating.as_mut().poll(&mut context).is_pending());
        }
        let event = client.path_event().await;
        assert!(matches!(event, Ok(PathEvent::Migrated { .. })), "{event:?}");
        converse(&client, &server).await;
    });
}

#[test]
fn streams_end_once() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut sending = client.open_uni().await.unwrap();
        sending.finish().unwrap();
        assert!(sending.finish().is_err());
        sending.reset(code(1)).unwrap();
        assert_eq!(sending.stopped().await, Ok(None), "after a reset, at once");
        assert!(sending.reset(code(1)).is_err());
        assert!(sending.finish().is_err());

        server.open_uni().await.unwrap().write_all(b"data").await.unwrap();
        let mut receiving = client.accept_uni().await.unwrap();
        receiving.stop(code(2)).unwrap();
        assert!(receiving.stop(code(2)).is_err());
        assert!(receiving.read_chunk(10).await.is_err());
    });
}

/// Returns an HTTP/3 server, and an endpoint and a configuration for its clients.
fn http3_server() -> (Server, Endpoint, ClientConfig) {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let config = ServerConfig::new(vec![identity.certificate], identity.key);
    let server = Server::bind(loopback(), config).unwrap();
    let config = ClientConfig::with_roots(roots).application_protocols([http3::PROTOCOL]);
    (server, Endpoint::client(loopback()).unwrap(), config)
}

fn request(path: &str) -> Request<()> {
    Request::get(format!("https://localhost/{path}")).body(()).unwrap()
}

#[test]
fn clients_of_http3_take_turns() {
    run(async {
        let (server, endpoint, config) = http3_server();
        let address = server.local_address();
        let connect = || Client::connect(&endpoint, &config, address, "localhost");
        let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
        let many: Vec<_> = (0..5).map(|_| one.start(request("many")).unwrap()).collect();
        let one_request = other.start(request("one")).unwrap();
        // Once another connection is established, all requests have arrived.
        let _last = connect().await.unwrap();
        let mut order = Vec::new();
        for _ in 0..6 {
            let (request, responder) = server.accept().await.unwrap();
            order.push(request.uri().path().to_owned());
            responder.respond(Response::new("")).await.unwrap();
        }
        let place = order.iter().position(|path| path == "/one").unwrap();
        assert!(place <= 1, "{order:?}");
        for pending in many.into_iter().chain([one_request]) {
            pending.response().await.unwrap();
        }
    });
}

#[test]
fn requests_are_answered_after_the_serving_future_is_dropped() {
    run(async {
        let (server, endpoint, config) = http3_server();
        let address = server.local_address();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let service = move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Response::new("hello") }
        };
        {
            let mut serving = core::pin::pin!(server.serve_on_shards(service));
            let mut context = core::task::Context::from_waker(core::task::Waker::noop());
            assert!(serving.as_mut().poll(&mut context).is_pending());
        }
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        for _ in 0..3 {
            let response = client.send(request("")).await.unwrap();
            assert_eq!(response.into_body().bytes(10).await.unwrap(), "hello");
        }
        assert_eq!(count.load(Ordering::SeqCst), 3);
    });
}

#[test]
#[ignore = "a program of another test"]
fn program_that_shuts_down() {
    let Some(server) = server_of_program() else { return };
    run(async {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let config = ClientConfig::dangerous_without_certificate_verification()
            .application_protocols([http3::PROTOCOL]);
        let client = Client::connect(&endpoint, &config, server, "localhost").await.unwrap();
        client.send(request("")).await.unwrap();
        client.shutdown().await;
    });
}

/// The client's program exits when `shutdown` returns.
#[test]
fn a_client_that_was_shut_down_has_said_so() {
    run(async {
        let (server, _, _) = http3_server();
        let address = server.local_address();
        for _ in 0..5 {
            let program = tokio::task::spawn_blocking(move || {
                run_program("promises::program_that_shuts_down", Some(address));
            });
            let (_, responder) = server.accept().await.unwrap();
            responder.respond(Response::new("")).await.unwrap();
            program.await.unwrap();
            // The connection is gone long before the idle timeout.
            server.endpoint().wait_idle().await;
        }
    });
}

/// The number of connections and their local addresses, as long as there are connections.
#[test]
fn endpoints_know_their_connections() {
    run(async {
        let pair = Pair::new();
        let mut connecting = pair.connecting();
        let (data, accepted) = tokio::join!(connecting.handshake_data(), pair.server.accept());
        assert!(data.unwrap().application_protocol.is_some());
        let mut accepted = accepted.unwrap();
        let known = accepted.handshake_data().await.unwrap();
        assert_eq!(known.server_name.as_deref(), Some("localhost"));
        let (client, server) = (connecting.await.unwrap(), accepted.await.unwrap());
        client.handshake_confirmed().await.unwrap();
        for connection in [&client, &server] {
            assert_eq!(connection.local_ip(), Some(loopback().ip()));
        }
        assert_eq!([&pair.client, &pair.server].map(Endpoint::open_connections), [1, 1]);
        client.close(code(0), b"");
        server.closed().await;
        pair.client.wait_idle().await;
        pair.server.wait_idle().await;
        assert_eq!([&pair.client, &pair.server].map(Endpoint::open_connections), [0, 0]);
    });
}

/// Clones of a configuration start servers of their own, except for what only one can use.
#[test]
fn clones_of_a_server_configuration_start_servers() {
    run(async {
        let identity = identity();
        let chain = vec![identity.certificate.clone()];
        let parsed = clearway::Identity::from_der(chain, identity.key.clone_key()).unwrap();
        let config = ServerConfig::with_identity(parsed).application_protocols(["example"]);
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let client = ClientConfig::with_roots(roots).application_protocols(["example"]);
        let endpoint = Endpoint::client(loopback()).unwrap();
        for config in [config.clone(), config.clone()] {
            let server = Endpoint::server(loopback(), config).unwrap();
            let address = server.local_address();
            let connecting = endpoint.connect_with(&client, address, "localhost").unwrap();
            connecting.await.unwrap();
        }

        let socket = std::net::UdpSocket::bind(loopback()).unwrap();
        let address = socket.local_addr().unwrap();
        let config = config.listening_sockets([socket]);
        let server = Endpoint::server(loopback(), config.clone()).unwrap();
        assert_eq!(server.local_address(), address);
        let error = Endpoint::server(loopback(), config).unwrap_err();
        let is_expected = matches!(error, EndpointError::Config(ConfigError::InUse(_)));
        assert!(is_expected, "{error:?}");
    });
}
