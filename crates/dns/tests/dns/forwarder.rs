//! Forwarders over each upstream protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clearway::rustls::{self, crypto::aws_lc_rs::default_provider};
use clearway::{Endpoint, VarInt, http3};
use clearway_dns::hickory_proto::op::{Message, OpCode, ResponseCode};
use clearway_dns::hickory_proto::rr::rdata::opt::EdnsCode;
use clearway_dns::hickory_proto::rr::{DNSClass, RecordType};
use clearway_dns::{
    Answer, Client, ExtendedError, Forwarder, ForwarderConfig, ForwarderError, Handler,
    HealthWatch, Request, Server,
};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::local::{listen, many};
use crate::support::{Site, address, loopback, query};

/// Responds to each query with an address, and counts them.
fn counting() -> (Server<impl Handler>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let handler = move |request: Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { address(&request) }
    };
    (Server::new(handler), count)
}

fn url(address: SocketAddr, scheme: &str) -> String {
    match scheme {
        "udp" | "tcp" => format!("{scheme}://{address}"),
        _ => format!("{scheme}://{address}#localhost"),
    }
}

/// A forwarder, and a client of it.
struct Forwarding {
    forwarder: Forwarder,
    client: Client,
    _endpoint: Endpoint,
}

/// Starts a forwarder whose time limits do not expire on a busy machine.
async fn forwarding(site: &Site, upstreams: &[String]) -> Forwarding {
    forwarding_within(site, upstreams, Duration::from_secs(4)).await
}

/// Starts a forwarder that tries the next upstream server after this time.
async fn forwarding_within(site: &Site, upstreams: &[String], attempt: Duration) -> Forwarding {
    let mut config = ForwarderConfig::with_roots(site.roots()).unwrap();
    config.attempt_time = attempt;
    config.query_time = Duration::from_secs(9);
    let upstreams = upstreams.iter().map(|url| url.parse().unwrap());
    let forwarder = Forwarder::new(upstreams, config).unwrap();
    let endpoint = site.serve(&Server::new(forwarder.clone()));
    let client = site.connect(endpoint.local_address()).await;
    let client = client.with_query_time(Duration::from_secs(20));
    Forwarding { forwarder, client, _endpoint: endpoint }
}

/// Starts a DoT server: TLS in front of a TCP server.
async fn serve_tls(site: &Site, tcp: SocketAddr) -> SocketAddr {
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![site.certificate.clone()], site.key.clone_key())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut outside = acceptor.accept(stream).await.unwrap();
            let mut inside = TcpStream::connect(tcp).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    address
}

/// The upstream protocols.
const SCHEMES: [&str; 5] = ["quic", "https", "tls", "tcp", "udp"];

/// Starts a server for an upstream protocol. Returns its URL, and its endpoint if that would shut
/// down otherwise.
async fn serve<H: Handler>(
    site: &Site,
    server: Server<H>,
    scheme: &str,
) -> (String, Option<Endpoint>) {
    let mut endpoint = None;
    let address = match scheme {
        "quic" => endpoint.insert(site.serve(&server)).local_address(),
        "https" => {
            let http = http3::Server::bind(loopback(), site.server()).unwrap();
            let address = http.local_address();
            tokio::spawn(async move { server.serve_https(&http).await });
            address
        }
        "tls" => serve_tls(site, listen(&server).await).await,
        _ => listen(&server).await,
    };
    (url(address, scheme), endpoint)
}

#[tokio::test]
async fn every_upstream_protocol_is_used_and_responses_are_cached() {
    let site = Site::new();
    for scheme in SCHEMES {
        let (server, count) = counting();
        let (upstream, _endpoint) = serve(&site, server, scheme).await;
        let forwarding = forwarding(&site, &[upstream]).await;
        let ask = |name| forwarding.client.query(query(name));
        let (first, second) = tokio::join!(ask("a.example."), ask("b.example."));
        for (response, name) in [(first, "a.example."), (second, "b.example.")] {
            let response = response.unwrap();
            assert_eq!(response.metadata.response_code, ResponseCode::NoError, "{scheme}");
            assert_eq!(response.answers[0].name.to_ascii(), name);
        }
        // From the cache, with the spelling of this query.
        let response = ask("A.Example.").await.unwrap();
        assert_eq!(response.queries[0].name().to_ascii(), "A.Example.");
        assert_eq!(response.answers.len(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 2, "{scheme}");
        let statistics = forwarding.forwarder.statistics();
        assert_eq!((statistics.hits, statistics.misses, statistics.failures), (1, 2, 0));
        let upstream = &statistics.upstreams[0];
        assert_eq!((upstream.queries, upstream.failures, upstream.is_up), (2, 0, true));
    }
}

/// RFC 8467 §4.1: to 128 octets, only over encrypted protocols.
#[tokio::test]
async fn encrypted_queries_to_upstream_servers_are_padded() {
    let site = Site::new();
    for scheme in SCHEMES {
        let (sender, mut queries) = mpsc::unbounded_channel();
        let server = Server::new(move |request: Request| {
            sender.send(request.message().clone()).unwrap();
            async move { address(&request) }
        });
        let (upstream, _endpoint) = serve(&site, server, scheme).await;
        let forwarding = forwarding(&site, &[upstream]).await;
        forwarding.client.query(query("www.example.")).await.unwrap();
        let message = queries.recv().await.unwrap();
        let is_encrypted = matches!(scheme, "quic" | "https" | "tls");
        assert_eq!(message.to_vec().unwrap().len() == 128, is_encrypted, "{scheme}");
        let edns = message.edns.unwrap();
        assert_eq!(edns.option(EdnsCode::Padding).is_some(), is_encrypted, "{scheme}");
        if matches!(scheme, "quic" | "https") {
            assert_eq!(message.metadata.id, 0);
        }
    }
}

#[tokio::test]
async fn a_truncated_response_is_asked_for_again_over_tcp() {
    let site = Site::new();
    let upstream = listen(&Server::new(many)).await;
    let forwarding = forwarding(&site, &[url(upstream, "udp")]).await;
    let response = forwarding.client.query(query("www.example.")).await.unwrap();
    assert_eq!(response.answers.len(), 100);
}

/// Truncates long responses to the EDNS payload size, whatever the protocol.
async fn truncating(request: Request) -> Message {
    let payload = request.message().edns.as_ref().unwrap().max_payload();
    if payload == u16::MAX {
        return many(request).await;
    }
    let mut response = request.response(ResponseCode::NoError);
    response.metadata.truncation = true;
    response
}

#[tokio::test]
async fn a_response_truncated_on_a_connection_is_queried_again_without_limit() {
    let site = Site::new();
    for scheme in ["quic", "https", "tls", "tcp"] {
        let (upstream, _endpoint) = serve(&site, Server::new(truncating), scheme).await;
        let forwarding = forwarding(&site, &[upstream]).await;
        let response = forwarding.client.query(query("www.example.")).await.unwrap();
        assert_eq!(response.answers.len(), 100, "{scheme}");
        assert!(!response.metadata.truncation);
    }
}

#[tokio::test]
async fn equal_queries_at_the_same_time_are_one() {
    let site = Site::new();
    let (gate, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let count = Arc::new(AtomicUsize::new(0));
    let shared = (gate.clone(), begun.clone(), count.clone());
    let server = Server::new(move |request: Request| {
        let (gate, begun, count) = shared.clone();
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            begun.notify_one();
            gate.notified().await;
            address(&request)
        }
    });
    let endpoint = site.serve(&server);
    let forwarding = forwarding(&site, &[url(endpoint.local_address(), "quic")]).await;
    let ask = || forwarding.client.query(query("www.example."));
    let opening = async {
        begun.notified().await;
        // The others have been forwarded to the same query, or will find it in flight or cached.
        while forwarding.forwarder.statistics().coalesced < 2 {
            tokio::task::yield_now().await;
        }
        gate.notify_one();
    };
    let (a, b, c, ()) = tokio::join!(ask(), ask(), ask(), opening);
    for response in [a, b, c] {
        assert_eq!(response.unwrap().answers.len(), 1);
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_next_upstream_is_used_when_the_first_one_dies() {
    let site = Site::new();
    let ((first, first_count), (second, second_count)) = (counting(), counting());
    let (dying, lasting) = (site.serve(&first), site.serve(&second));
    let urls = [&dying, &lasting].map(|it| url(it.local_address(), "quic"));
    let forwarding = forwarding(&site, &urls).await;
    let ask = async |name| {
        let response = forwarding.client.query(query(name)).await.unwrap();
        assert_eq!(response.metadata.response_code, ResponseCode::NoError);
    };
    ask("a.example.").await;
    let counts = || [&first_count, &second_count].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts(), [1, 0]);
    dying.close(VarInt::ZERO, b"");
    // Also closes the socket.
    dying.halt();
    ask("b.example.").await;
    ask("c.example.").await;
    assert_eq!(counts(), [1, 2]);
    let statistics = forwarding.forwarder.statistics();
    assert!(statistics.upstreams[0].failures >= 1 && statistics.upstreams[1].is_up);
}

/// Waits for a change in the health of an upstream server.
async fn changed(health: &mut HealthWatch) {
    let changed = tokio::time::timeout(Duration::from_secs(30), health.changed());
    assert!(changed.await.expect("the health changes"));
}

#[tokio::test]
async fn a_silent_upstream_is_down_after_three_queries() {
    let site = Site::new();
    // Its connections are established, but nobody reads from them.
    let silent = TcpListener::bind(loopback()).await.unwrap();
    let (server, count) = counting();
    let endpoint = site.serve(&server);
    let urls = [url(silent.local_addr().unwrap(), "tcp"), url(endpoint.local_address(), "quic")];
    let forwarding = forwarding_within(&site, &urls, Duration::from_secs(1)).await;
    let ask = async |name| {
        let response = forwarding.client.query(query(name)).await.unwrap();
        assert_eq!(response.metadata.response_code, ResponseCode::NoError);
    };
    tokio::join!(ask("a.example."), ask("b.example."), ask("c.example."));
    let upstream = || forwarding.forwarder.statistics().upstreams[0].clone();
    assert!(upstream().failures >= 3 && !upstream().is_up);
    assert_eq!(upstream().last_error.as_deref(), Some("no response in time"));
    // Only probes go there now.
    ask("d.example.").await;
    assert_eq!(upstream().queries - upstream().probes, 3);
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn an_upstream_that_responds_to_a_probe_is_used_again() {
    let site = Site::new();
    let ((first, first_count), (second, second_count)) = (counting(), counting());
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let endpoint = site.serve(&second);
    let urls = [url(listener.local_addr().unwrap(), "tcp"), url(endpoint.local_address(), "quic")];
    let (recover, mut recovered) = oneshot::channel();
    tokio::spawn(async move {
        // Closes all connections until it recovers.
        loop {
            tokio::select! {
                accepted = listener.accept() => drop(accepted.unwrap()),
                _ = &mut recovered => break,
            }
        }
        first.serve_tcp(listener).await;
    });
    let forwarding = forwarding(&site, &urls).await;
    let mut health = forwarding.forwarder.watch_health();
    let ask = async |name| {
        let response = forwarding.client.query(query(name)).await.unwrap();
        assert_eq!(response.metadata.response_code, ResponseCode::NoError);
    };
    let counts = || [&first_count, &second_count].map(|count| count.load(Ordering::Relaxed));
    for name in ["a.example.", "b.example.", "c.example."] {
        ask(name).await;
    }
    assert_eq!(counts(), [0, 3]);
    changed(&mut health).await;
    assert!(!forwarding.forwarder.statistics().upstreams[0].is_up);
    recover.send(()).unwrap();
    changed(&mut health).await;
    let upstream = &forwarding.forwarder.statistics().upstreams[0];
    assert!(upstream.is_up && upstream.probes >= 1);
    let probes = first_count.load(Ordering::Relaxed);
    ask("d.example.").await;
    assert_eq!(counts(), [probes + 1, 3]);
}

#[tokio::test]
async fn without_an_upstream_the_client_gets_the_reason() {
    let site = Site::new();
    // Nobody listens there.
    let unused = TcpListener::bind(loopback()).await.unwrap();
    let nobody = unused.local_addr().unwrap();
    drop(unused);
    let forwarding = forwarding(&site, &[url(nobody, "tcp")]).await;
    let mut health = forwarding.forwarder.watch_health();
    for _ in 0..2 {
        let response = forwarding.client.query(query("www.example.")).await.unwrap();
        assert_eq!(response.metadata.response_code, ResponseCode::ServFail);
        assert_eq!(ExtendedError::of(&response.edns.unwrap()).unwrap().code, 22);
    }
    let statistics = forwarding.forwarder.statistics();
    assert_eq!((statistics.failures, statistics.upstreams[0].is_up), (2, false));
    assert!(health.changed().await);
    let error = statistics.upstreams[0].last_error.as_deref().unwrap();
    assert!(error.contains("cannot connect"), "{error}");
}

/// Every query to a UDP server has its own socket, so queries that get no response could use up all
/// descriptors.
#[tokio::test]
async fn queries_without_a_socket_do_not_count_against_the_upstream() {
    let site = Site::new();
    let silent = UdpSocket::bind(loopback()).await.unwrap();
    let mut config = ForwarderConfig::with_roots(site.roots()).unwrap();
    config.attempt_time = Duration::from_secs(60);
    config.query_time = Duration::from_secs(60);
    config.max_udp_sockets = 1;
    let upstream = url(silent.local_addr().unwrap(), "udp").parse().unwrap();
    let forwarder = Forwarder::new([upstream], config).unwrap();
    let endpoint = site.serve(&Server::new(forwarder.clone()));
    let client = site.connect(endpoint.local_address()).await;
    let client = client.with_query_time(Duration::from_secs(40));
    let others = async {
        // The first query now has the only socket.
        silent.recv(&mut [0; 512]).await.unwrap();
        for name in ["b.example.", "c.example.", "d.example.", "e.example."] {
            let response = client.query(query(name)).await.unwrap();
            assert_eq!(response.metadata.response_code, ResponseCode::ServFail);
            assert_eq!(ExtendedError::of(&response.edns.unwrap()).unwrap().code, 0);
        }
    };
    tokio::select! {
        response = client.query(query("a.example.")) => panic!("{response:?}"),
        () = others => {}
    }
    let statistics = forwarder.statistics();
    assert_eq!((statistics.failures, statistics.upstreams[0].is_up), (4, true));
}

#[tokio::test]
async fn a_failure_of_an_upstream_is_passed_on() {
    let site = Site::new();
    let server = Server::new(|request: Request| async move {
        let reason = ExtendedError::new(clearway_dns::ErrorInfo::Other, "bogus");
        request.failure(ResponseCode::ServFail, &reason)
    });
    let endpoint = site.serve(&server);
    let forwarding = forwarding(&site, &[url(endpoint.local_address(), "quic")]).await;
    let response = forwarding.client.query(query("www.example.")).await.unwrap();
    assert_eq!(response.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(ExtendedError::of(&response.edns.unwrap()).unwrap().text, "bogus");
}

#[tokio::test]
async fn what_cannot_be_forwarded_is_rejected() {
    let site = Site::new();
    let (server, count) = counting();
    let endpoint = site.serve(&server);
    let forwarder = forwarding(&site, &[url(endpoint.local_address(), "quic")]).await;
    let ask = async |change: fn(&mut Message)| {
        let mut message = query("example.");
        change(&mut message);
        forwarder.client.query(message).await.unwrap().metadata.response_code
    };
    let update = ask(|message| message.metadata.op_code = OpCode::Update).await;
    assert_eq!(update, ResponseCode::NotImp);
    let two = ask(|message| message.queries.push(message.queries[0].clone())).await;
    assert_eq!(two, ResponseCode::FormErr);
    let none = ask(|message| message.queries.clear()).await;
    assert_eq!(none, ResponseCode::FormErr);
    let chaos = ask(|message| {
        message.queries[0].set_query_class(DNSClass::CH);
    });
    assert_eq!(chaos.await, ResponseCode::Refused);
    // The client does not send zone transfers.
    for kind in [RecordType::AXFR, RecordType::IXFR] {
        let mut message = query("example.");
        message.queries[0].set_query_type(kind);
        let octets = crate::support::framed(message);
        let mut recv = crate::support::send(forwarder.client.connection(), octets).await;
        let octets = recv.read_to_end(70_000).await.unwrap();
        let response = Message::from_vec(&octets[2..]).unwrap();
        assert_eq!(response.metadata.response_code, ResponseCode::NotImp);
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert_eq!(forwarder.forwarder.statistics().rejected, 6);
}

#[tokio::test]
async fn an_abandoned_query_is_a_failure() {
    let site = Site::new();
    let endpoint = site.serve(&Server::new(|_: Request| async { Answer::abandon() }));
    let forwarding = forwarding(&site, &[url(endpoint.local_address(), "quic")]).await;
    let response = forwarding.client.query(query("www.example.")).await.unwrap();
    assert_eq!(response.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(ExtendedError::of(&response.edns.unwrap()).unwrap().code, 23);
}

#[tokio::test]
async fn a_forwarder_needs_an_upstream() {
    let config = ForwarderConfig::with_roots(Site::new().roots()).unwrap();
    assert!(matches!(Forwarder::new([], config), Err(ForwarderError::NoUpstream)));
}
