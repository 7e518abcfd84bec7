//! Tests of closing: the reason reaches the peer, and `wait_idle` returns when no connection is
//! left.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use clearway::http3::{self, Client};
use clearway::{ClientConfig, Endpoint, ServerConfig};
use http::{Request, Response};

use crate::programs::{run_program, server_of_program};
use crate::relay::Relay;
use crate::stack::{Clearway, End, Stack, deliver, over_each_stack};
use crate::support::{Pair, identity, loopback, run};

const IDLE: Duration = Duration::from_secs(30);

over_each_stack! {
    a_close_whose_datagram_is_lost_reaches_the_peer_while_the_client_waits
    waiting_lasts_until_the_closing_period_is_over
    an_endpoint_without_connections_is_idle_at_once
}

/// The only datagram with CONNECTION_CLOSE is lost. The client remains in the closing state long
/// enough to send CONNECTION_CLOSE again when the server sends something (RFC 9000 §10.2.1).
async fn a_close_whose_datagram_is_lost_reaches_the_peer_while_the_client_waits<S: Stack>() {
    let stack = S::new(IDLE);
    let delay = Duration::from_millis(60);
    let relay = Relay::new(stack.server_address(), delay).await;
    let connecting = stack.begin(relay.address());
    let accepting = async { S::establish(stack.accept().await).await };
    let (client, server) = tokio::join!(S::establish(connecting), accepting);
    let (client, server) = (client.unwrap(), server.unwrap());
    deliver::<S>(&client, b"message").await;
    relay.quiet(3 * delay).await;
    relay.lose_next();
    S::close(&client, 5, b"bye");
    let waiting = async {
        stack.client_is_idle().await;
        Instant::now()
    };
    let telling = async {
        relay.lost().await;
        // The server has not noticed the close yet, and sends something.
        let mut sending = S::open(&server).await;
        S::write(&mut sending, b"are you there").await;
        let end = S::closed(&server).await;
        (end, Instant::now())
    };
    let (idle, (end, told)) = tokio::join!(waiting, telling);
    assert_eq!(end, End::by_peer(5, b"bye"));
    assert!(told < idle, "the client did not wait: {:?}", told - idle);
}

/// The closing period is three probe timeouts, which are at least three round trips.
async fn waiting_lasts_until_the_closing_period_is_over<S: Stack>() {
    let stack = S::new(IDLE);
    let delay = Duration::from_millis(20);
    let relay = Relay::new(stack.server_address(), delay).await;
    let connecting = stack.begin(relay.address());
    let accepting = async { S::establish(stack.accept().await).await };
    let (client, server) = tokio::join!(S::establish(connecting), accepting);
    let (client, server) = (client.unwrap(), server.unwrap());
    deliver::<S>(&client, b"message").await;
    let began = Instant::now();
    S::close(&client, 5, b"bye");
    stack.client_is_idle().await;
    assert!(began.elapsed() >= 6 * delay, "{:?}", began.elapsed());
    assert_eq!(S::closed(&server).await, End::by_peer(5, b"bye"));
}

async fn an_endpoint_without_connections_is_idle_at_once<S: Stack>() {
    S::new(IDLE).client_is_idle().await;
}

/// The first close determines what the peer gets, also if the whole endpoint is closed immediately
/// after it.
#[test]
fn closing_the_endpoint_does_not_replace_an_earlier_close() {
    run(async {
        for _ in 0..20 {
            let pair = Pair::new();
            let (client, server) = pair.connect().await;
            server.close(1_u32.into(), b"first");
            pair.server.close(2_u32.into(), b"second");
            let error = client.closed().await.to_string();
            assert!(error.contains("first"), "{error}");
            let pair = Pair::new();
            let (client, server) = pair.connect().await;
            client.close(3_u32.into(), b"third");
            pair.client.close(4_u32.into(), b"fourth");
            let error = server.closed().await.to_string();
            assert!(error.contains("third"), "{error}");
        }
    });
}

/// Both ends eventually become idle, including the one that received the close, and their
/// statistics agree.
#[test]
fn nothing_is_left_when_waiting_is_over() {
    run(async {
        for server_closes in [false, true] {
            let pair = Pair::new();
            let (client, server) = pair.connect().await;
            let closer = if server_closes { &server } else { &client };
            closer.close(crate::support::code(5), b"bye");
            tokio::join!(pair.client.wait_idle(), pair.server.wait_idle());
            for endpoint in [&pair.client, &pair.server] {
                assert_eq!(endpoint.statistics().connections, 0);
            }
        }
    });
}

/// `wait_idle` waits for a connection from its start until its handles are dropped and it has
/// ended.
#[test]
fn a_connection_that_is_in_use_is_waited_for() {
    run(async {
        let pair = Pair::new();
        let connecting = pair.connecting();
        let idle = pair.client.wait_idle();
        let mut idle = core::pin::pin!(idle);
        let mut is_pending = || futures_like_poll(idle.as_mut());
        assert!(is_pending());
        let (client, server) =
            tokio::join!(connecting, async { pair.server.accept().await.unwrap().await.unwrap() });
        assert!(is_pending());
        drop((client, server));
        idle.await;
    });
}

/// Polls a future once; returns whether it is pending.
fn futures_like_poll(future: core::pin::Pin<&mut impl Future>) -> bool {
    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    future.poll(&mut context).is_pending()
}

/// A connection attempt to which no peer responded is over when it is abandoned: there may be no
/// peer to receive a CONNECTION_CLOSE.
#[test]
fn an_attempt_that_was_never_answered_is_not_waited_for() {
    run(async {
        let hole = UdpSocket::bind(loopback()).unwrap();
        let pair = Pair::new();
        let remote = hole.local_addr().unwrap();
        let connecting = pair.client.connect_with(&pair.config, remote, "localhost").unwrap();
        let mut buffer = [0; 2000];
        // The attempt has begun.
        hole.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        hole.recv(&mut buffer).unwrap();
        let began = Instant::now();
        drop(connecting);
        pair.client.wait_idle().await;
        // Three probe timeouts with the initial round-trip time take three seconds.
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(hole.recv(&mut buffer).is_ok(), "a CONNECTION_CLOSE was sent");
    });
}

/// `wait_idle` does not wait for a connection attempt that cannot be started.
#[test]
fn an_attempt_that_fails_is_not_waited_for() {
    run(async {
        let pair = Pair::new();
        let v6 = "[::1]:9".parse().unwrap();
        let connecting = pair.client.connect_with(&pair.config, v6, "localhost").unwrap();
        assert!(connecting.await.is_err());
        pair.client.wait_idle().await;
        pair.client.close(crate::support::code(0), b"");
        let connecting = pair.connecting();
        assert!(connecting.await.is_err());
        pair.client.wait_idle().await;
    });
}

/// The client in README.md, as a separate program.
#[test]
#[ignore = "a program of another test"]
fn readme_client() {
    let Some(server) = server_of_program() else { return };
    run(async {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let config = ClientConfig::dangerous_without_certificate_verification()
            .application_protocols(["h3"]);
        let client = Client::connect(&endpoint, &config, server, "localhost").await.unwrap();
        let request = Request::get("https://localhost/").body(()).unwrap();
        let response = client.send(request).await.unwrap();
        let _body = response.into_body().bytes(1 << 20).await.unwrap();
        client.shutdown().await;
        endpoint.wait_idle().await;
    });
}

/// The server of a client like the one in README.md does not keep its connection until the idle
/// timeout.
#[test]
fn a_program_as_in_the_readme_tells_the_server_that_it_is_gone() {
    run(async {
        let identity = identity();
        let config = ServerConfig::new(vec![identity.certificate], identity.key);
        let server = http3::Server::bind(loopback(), config).unwrap();
        let address = server.local_address();
        for _ in 0..10 {
            let program = tokio::task::spawn_blocking(move || {
                run_program("closing::readme_client", Some(address));
            });
            let (_, responder) = server.accept().await.unwrap();
            responder.respond(Response::new("hello")).await.unwrap();
            program.await.unwrap();
            // The idle timeout is 30 s, longer than this test may take.
            server.endpoint().wait_idle().await;
        }
    });
}

/// Readers copy programs from the documentation, so its clients must close their connections.
#[test]
fn the_clients_in_the_documentation_wait_before_they_end() {
    let texts = [
        include_str!("../../../../README.md"),
        include_str!("../../src/lib.rs"),
        include_str!("../../examples/certificates.rs"),
        include_str!("../../examples/custom_controller.rs"),
        include_str!("../../examples/echo.rs"),
        include_str!("../../examples/http3_client.rs"),
        include_str!("../../examples/request_response.rs"),
    ];
    for text in texts {
        let clients = text.matches("Endpoint::client(").count();
        assert!(clients > 0);
        assert_eq!(text.matches("wait_idle().await;").count(), clients, "{text}");
    }
}

/// The close is sent even though the last handles of the connection and the endpoint are dropped
/// immediately.
#[test]
fn dropping_all_handles_sends_the_close() {
    run(async {
        for _ in 0..20 {
            let Clearway(Pair { server, client, config }) = Clearway::new(IDLE);
            let connecting =
                client.connect_with(&config, server.local_address(), "localhost").unwrap();
            let accepting = async { server.accept().await.unwrap().await };
            let (connection, accepted) = tokio::join!(connecting, accepting);
            let (connection, accepted) = (connection.unwrap(), accepted.unwrap());
            connection.close(crate::support::code(5), b"bye");
            drop((connection, client, config));
            assert_eq!(Clearway::closed(&accepted).await, End::by_peer(5, b"bye"));
        }
    });
}
