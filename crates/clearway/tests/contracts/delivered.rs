//! Tests of delivery: data confirmed by `stopped()` can be read by the peer's application, no
//! matter how late it polls.

use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{self, Code};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, ServerConfig};
use http::{Request, Response};

use crate::stack::{Clearway, End, Stack, deliver, messages, over_each_stack};
use crate::support::{Pair, code, identity, loopback, run};

const IDLE: Duration = Duration::from_secs(30);
const MESSAGES: [&[u8]; 3] = [b"one", b"two", b"three"];

over_each_stack! {
    confirmed_messages_are_read_by_a_server_that_establishes_late
    confirmed_messages_are_read_by_a_server_that_accepts_streams_late
    datagrams_that_came_before_a_close_are_read_after_it
    a_message_whose_reader_closes_at_once_is_delivered
    a_server_has_the_connection_of_a_client_that_closes_at_once
    a_client_has_the_connection_of_a_server_that_closes_at_once
}

/// The server's application accepts its client only after the client has closed the connection.
async fn confirmed_messages_are_read_by_a_server_that_establishes_late<S: Stack>() {
    let stack = S::new(IDLE);
    let connecting = stack.begin(stack.server_address());
    let (client, accepted) = tokio::join!(S::establish(connecting), stack.accept());
    let client = client.unwrap();
    for message in MESSAGES {
        deliver::<S>(&client, message).await;
    }
    S::close(&client, 7, b"bye");
    stack.catch_up().await;
    let server = S::establish(accepted).await.expect("it was established");
    let (read, end) = messages::<S>(&server).await;
    assert_eq!((read, end), (MESSAGES.map(<[u8]>::to_vec).to_vec(), End::by_peer(7, b"bye")));
}

async fn confirmed_messages_are_read_by_a_server_that_accepts_streams_late<S: Stack>() {
    let stack = S::new(IDLE);
    let (client, server) = stack.connect().await;
    for message in MESSAGES {
        deliver::<S>(&client, message).await;
    }
    S::close(&client, 7, b"bye");
    assert_eq!(S::closed(&server).await, End::by_peer(7, b"bye"));
    let (read, end) = messages::<S>(&server).await;
    assert_eq!((read, end), (MESSAGES.map(<[u8]>::to_vec).to_vec(), End::by_peer(7, b"bye")));
}

async fn datagrams_that_came_before_a_close_are_read_after_it<S: Stack>() {
    let stack = S::new(IDLE);
    let (client, server) = stack.connect().await;
    for message in MESSAGES {
        S::send_datagram(&client, message);
    }
    deliver::<S>(&client, b"after the datagrams").await;
    S::close(&client, 7, b"bye");
    assert_eq!(S::closed(&server).await, End::by_peer(7, b"bye"));
    for message in MESSAGES {
        assert_eq!(S::datagram(&server).await, Ok(Bytes::from_static(message)));
    }
    assert_eq!(S::datagram(&server).await, Err(End::by_peer(7, b"bye")));
}

/// A client closes the connection once it has its response: the close implies that the response has
/// arrived.
async fn a_message_whose_reader_closes_at_once_is_delivered<S: Stack>() {
    let stack = S::new(IDLE);
    for _ in 0..20 {
        let (client, server) = stack.connect().await;
        let reading = async {
            let mut receiving = S::next(&client).await.unwrap();
            assert_eq!(S::read(&mut receiving).await.unwrap(), MESSAGES[0]);
            S::close(&client, 7, b"bye");
        };
        let ((), ()) = tokio::join!(reading, deliver::<S>(&server, MESSAGES[0]));
        assert_eq!(S::closed(&server).await, End::by_peer(7, b"bye"));
    }
}

async fn a_server_has_the_connection_of_a_client_that_closes_at_once<S: Stack>() {
    let stack = S::new(IDLE);
    for _ in 0..20 {
        let connecting = stack.begin(stack.server_address());
        let closing = async {
            let client = S::establish(connecting).await.unwrap();
            S::close(&client, 5, b"wrong version");
        };
        let accepting = async { S::establish(stack.accept().await).await };
        let ((), server) = tokio::join!(closing, accepting);
        let server = server.expect("the handshake is complete");
        assert_eq!(S::closed(&server).await, End::by_peer(5, b"wrong version"));
    }
}

async fn a_client_has_the_connection_of_a_server_that_closes_at_once<S: Stack>() {
    let stack = S::new(IDLE);
    for _ in 0..20 {
        let connecting = stack.begin(stack.server_address());
        let closing = async {
            let server = S::establish(stack.accept().await).await.unwrap();
            S::close(&server, 5, b"too busy");
        };
        let (client, ()) = tokio::join!(S::establish(connecting), closing);
        let client = client.expect("the handshake is complete");
        assert_eq!(S::closed(&client).await, End::by_peer(5, b"too busy"));
    }
}

/// A task on the shard's thread closes the connection in the turn in which it is established,
/// before any output of that turn is sent.
#[test]
fn a_server_has_the_connection_of_a_client_that_closes_in_the_turn_that_connects() {
    run(async {
        let stack = Clearway::new(IDLE);
        for _ in 0..20 {
            let connecting = stack.begin(stack.server_address());
            stack.client().spawn(async move {
                let client = connecting.await.unwrap();
                client.close(code(5), b"wrong version");
            });
            let server = Clearway::establish(stack.accept().await).await;
            let server = server.expect("the handshake is complete");
            assert_eq!(Clearway::closed(&server).await, End::by_peer(5, b"wrong version"));
        }
    });
}

/// Like the other tests, with early data: the server's application reads the data after the client
/// has closed the connection.
#[test]
fn confirmed_early_data_is_read_by_a_server_that_looks_late() {
    run(async {
        let mut pair = Pair::with(Default::default(), |server| server.early_data(true));
        pair.config = pair.config.clone().early_data(true);
        let (first, _server) = pair.connect().await;
        let mut accepted = None;
        // Session tickets arrive some time after the handshake.
        for _ in 0..100 {
            let connecting = pair.connecting();
            let server = pair.server.accept().await.unwrap();
            match connecting.into_0rtt().await {
                Ok((client, early)) => {
                    let mut sending = client.open_uni().await.unwrap();
                    sending.finish_with(Bytes::from_static(b"early")).await.unwrap();
                    assert_eq!(sending.stopped().await, Ok(None));
                    assert!(early.wait().await);
                    client.close(code(7), b"bye");
                    accepted = Some(server);
                    break;
                }
                Err(connecting) => drop(tokio::join!(connecting, server)),
            }
        }
        drop(first);
        let late = accepted.expect("a session is resumed");
        Clearway::catch_up(&Clearway(pair)).await;
        let late = match late.into_0rtt().await {
            Ok((connection, _)) => connection,
            Err(connecting) => connecting.await.expect("it was established"),
        };
        let (read, end) = messages::<Clearway>(&late).await;
        assert_eq!((read, end), (vec![b"early".to_vec()], End::by_peer(7, b"bye")));
    });
}

/// With HTTP/3, a received request is accepted even though its client has since closed the
/// connection.
#[test]
fn a_request_that_came_before_a_close_is_accepted_after_it() {
    run(async {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let config = ServerConfig::new(vec![identity.certificate], identity.key);
        let server = http3::Server::bind(loopback(), config).unwrap();
        let endpoint = clearway::Endpoint::client(loopback()).unwrap();
        let config = ClientConfig::with_roots(roots).application_protocols([http3::PROTOCOL]);
        let connect =
            || http3::Client::connect(&endpoint, &config, server.local_address(), "localhost");
        let client = connect().await.unwrap();
        let request = |path: &str| {
            let uri = format!("https://localhost/{path}");
            client.start(Request::post(uri).body("content").unwrap()).unwrap()
        };
        let (first, _second) = (request("first"), request("second"));
        let (accepted, responder) = server.accept().await.unwrap();
        assert_eq!(accepted.uri().path(), "/first");
        responder.respond(Response::new("")).await.unwrap();
        first.response().await.unwrap();
        client.close(Code::NO_ERROR);
        // Once another connection is established, the close must have arrived.
        let _other = connect().await.unwrap();

        let (accepted, mut responder) = server.accept().await.unwrap();
        assert_eq!(accepted.uri().path(), "/second");
        let content = accepted.into_body().bytes(100).await.unwrap();
        assert_eq!(content, "content");
        assert!(matches!(responder.cancelled().await, http3::Error::Connection(_)));
        assert!(responder.respond(Response::new("")).await.is_err());
    });
}
