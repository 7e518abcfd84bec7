//! Tests that a server's resources return to their previous level, no matter what a request asks
//! for and how it ends: connections, requests in progress, connection and content memory, and
//! descriptors.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clearway::http3::{Body, Client, Code, PendingResponse, Protocol, SendBody};
use clearway::{ClientConfig, Connection, Endpoint};
use http::{Method, Request, StatusCode};

use crate::metrics::{Samples, serve};
use crate::support::{Running, Scratch};

/// Maximum time until everything is released: the idle timeout, the closing period, and slack for a
/// busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeouts that release resources soon, no matter what a client leaves behind.
const TIMEOUTS: [&str; 6] =
    ["--idle-timeout", "2s", "--send-timeout", "1s", "--request-timeout", "1s"];

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Small,
    Large,
    Range,
    Conditional,
    Head,
    Missing,
    Upload,
    Tunnel,
}

const KINDS: [Kind; 8] = [
    Kind::Small,
    Kind::Large,
    Kind::Range,
    Kind::Conditional,
    Kind::Head,
    Kind::Missing,
    Kind::Upload,
    Kind::Tunnel,
];

/// How a request ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    Whole,
    /// The client drops the response after it has begun.
    Stopped,
    /// The client drops everything immediately.
    Canceled,
    /// The client closes the connection after the response has begun.
    Closed,
    /// The client closes the connection immediately.
    ClosedAtOnce,
    /// The client keeps the request open, but reads and sends nothing more.
    Stalled,
    /// The path drops all datagrams from and to the client.
    Lost,
}

const ENDINGS: [Ending; 7] = [
    Ending::Whole,
    Ending::Stopped,
    Ending::Canceled,
    Ending::Closed,
    Ending::ClosedAtOnce,
    Ending::Stalled,
    Ending::Lost,
];

fn request<B>(kind: Kind, body: B) -> Request<B> {
    let (method, path) = match kind {
        Kind::Small | Kind::Conditional => (Method::GET, "small"),
        Kind::Large | Kind::Range => (Method::GET, "large"),
        Kind::Head => (Method::HEAD, "large"),
        Kind::Missing => (Method::GET, "missing"),
        Kind::Upload => (Method::POST, "small"),
        Kind::Tunnel => (Method::CONNECT, ""),
    };
    let request = Request::builder().method(method).uri(format!("https://localhost/{path}"));
    let request = match kind {
        Kind::Range => request.header("range", "bytes=10-1000009"),
        Kind::Conditional => request.header("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT"),
        _ => request,
    };
    let mut request = request.body(body).unwrap();
    if kind == Kind::Tunnel {
        request.extensions_mut().insert(Protocol::new("echo").unwrap());
    }
    request
}

fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Range => StatusCode::PARTIAL_CONTENT,
        Kind::Conditional => StatusCode::NOT_MODIFIED,
        Kind::Missing => StatusCode::NOT_FOUND,
        Kind::Upload => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::OK,
    }
}

/// Begins a request.
async fn begin(client: &Client, kind: Kind) -> (Option<SendBody>, PendingResponse) {
    if !matches!(kind, Kind::Upload | Kind::Tunnel) {
        return (None, client.start(request(kind, Body::empty())).unwrap());
    }
    let (mut send, pending) = client.open(request(kind, ())).unwrap();
    // The server may already have rejected the content.
    let _ = send.write_chunk(vec![1; 10_000]).await;
    (Some(send), pending)
}

/// Performs a request and ends it. Returns the objects that the client keeps until the resources
/// have been checked.
async fn exchange(client: &Client, kind: Kind, ending: Ending) -> Option<Box<dyn Send>> {
    let (send, pending) = begin(client, kind).await;
    if matches!(ending, Ending::Canceled | Ending::ClosedAtOnce) {
        // Many requests are made, since each ends at a different point.
        for _ in 0..20 {
            drop(begin(client, kind).await);
        }
    }
    match ending {
        Ending::Canceled => return None,
        Ending::ClosedAtOnce => {
            client.close(Code::NO_ERROR);
            return None;
        }
        _ => {}
    }
    let response = pending.response().await.unwrap();
    assert_eq!(response.status(), status(kind), "{kind:?}");
    let mut body = response.into_body();
    match ending {
        Ending::Whole => {
            if let Some(send) = send {
                let _ = send.finish().await;
            }
            while let Some(chunk) = body.chunk().await {
                chunk.unwrap();
            }
        }
        Ending::Closed => client.close(Code::NO_ERROR),
        Ending::Stalled | Ending::Lost => return Some(Box::new((send, body))),
        _ => {}
    }
    None
}

/// A server and its resource counters.
struct ResourceCheck {
    server: Running,
    metrics: String,
    /// Number of open descriptors without any activity.
    descriptors: usize,
}

impl ResourceCheck {
    /// Starts a server, and lets it serve a first request.
    async fn open(scratch: &Scratch, more: &[&str]) -> Self {
        scratch.fill("root/small", 100);
        scratch.fill("root/large", 20_000_000);
        let more = [&["--shards", "1"][..], &TIMEOUTS, more].concat();
        let (server, metrics) = tokio::task::block_in_place(|| serve(scratch, &more));
        let resources = Self { server, metrics, descriptors: 0 };
        resources.check("at the beginning", |_| true);
        // By the first verdict, `doctor`'s checks in the server have opened all of their
        // descriptors.
        resources.scrape_until("the first verdict", |samples| {
            std::thread::sleep(Duration::from_millis(50));
            samples.one("clearway_doctor_verdict{outcome=\"unknown\"}") == 0.0
        });
        let descriptors = resources.server.descriptors();
        Self { descriptors, ..resources }
    }

    fn address(&self) -> SocketAddr {
        self.server.address.parse().unwrap()
    }

    /// Scrapes until everything is released, and `also` holds.
    fn check(&self, when: &str, also: impl Fn(&Samples) -> bool) {
        let gauges = ["clearway_http3_requests_in_progress", "clearway_memory_content_bytes"];
        self.scrape_until(when, |samples| {
            gauges.iter().all(|gauge| samples.sum(gauge) == 0.0) && also(samples)
        });
    }

    fn scrape_until(&self, when: &str, is_so: impl Fn(&Samples) -> bool) {
        let begun = Instant::now();
        loop {
            let samples = tokio::task::block_in_place(|| Samples::scrape(&self.metrics));
            if is_so(&samples) {
                let faults = ["clearway_quic_panics_total", "clearway_quic_shards_failed_total"];
                faults.iter().for_each(|fault| assert_eq!(samples.sum(fault), 0.0, "{when}"));
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{when}: {samples:?}");
        }
    }

    /// Checks that everything is released, including connections.
    fn check_all(&self, when: &str) {
        let gauges = [
            "clearway_quic_connections",
            "clearway_quic_connections_half_open",
            "clearway_memory_connections_bytes",
        ];
        self.check(when, |samples| {
            let requests = samples.sum("clearway_http3_requests_total");
            gauges.iter().all(|gauge| samples.sum(gauge) == 0.0)
                && requests == samples.sum("clearway_http3_request_duration_seconds_count")
        });
        // The descriptor of the scrape is closed a moment later.
        let begun = Instant::now();
        while self.server.descriptors() > self.descriptors {
            assert!(begun.elapsed() < TIMEOUT, "{when}: {}", self.server.descriptors());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn config(protocol: &str) -> ClientConfig {
    ClientConfig::dangerous_without_certificate_verification().application_protocols([protocol])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_every_request_returns_what_it_held() {
    let scratch = Scratch::new("books");
    let resources = ResourceCheck::open(&scratch, &["--echo"]).await;
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    for ending in ENDINGS {
        let when = format!("{ending:?}");
        let link = (ending == Ending::Lost)
            .then(|| tokio::task::block_in_place(|| Running::link(&resources.server.address, &[])));
        let address =
            link.as_ref().map_or(resources.address(), |link| link.address.parse().unwrap());
        let mut kept = Vec::new();
        for kind in KINDS {
            let config = config("h3");
            let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
            let held = exchange(&client, kind, ending).await;
            if ending == Ending::Whole {
                // Resources are checked while the connection still exists.
                resources.check(&format!("{kind:?}, {ending:?}"), |_| true);
            }
            kept.push((client, held));
        }
        match ending {
            Ending::Stalled => {
                // The server ends stalled requests, but not their connections. A tunnel may be
                // quiet.
                resources.scrape_until(&when, |samples| {
                    samples.sum("clearway_http3_requests_in_progress") <= 1.0
                        && samples.sum("clearway_quic_connections") == KINDS.len() as f64
                });
            }
            Ending::Lost => {
                drop(link);
                resources.check_all(&when);
            }
            _ => {}
        }
        drop(kept);
        resources.check_all(&when);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_request_over_http09_returns_what_it_held() {
    let scratch = Scratch::new("books-http09");
    let resources = ResourceCheck::open(&scratch, &["--http09"]).await;
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    for ending in ENDINGS {
        let link = (ending == Ending::Lost)
            .then(|| tokio::task::block_in_place(|| Running::link(&resources.server.address, &[])));
        let address =
            link.as_ref().map_or(resources.address(), |link| link.address.parse().unwrap());
        let mut kept = Vec::new();
        for path in ["small", "large", "missing"] {
            let config = config("hq-interop");
            let connecting = endpoint.connect_with(&config, address, "localhost");
            let connection: Connection = connecting.unwrap().await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            if ending == Ending::Stalled && path == "small" {
                // An incomplete request.
                send.write_all(b"GET /sm").await.unwrap();
                kept.push((connection, Some((send, receive))));
                continue;
            }
            send.finish_with(format!("GET /{path}\r\n").into()).await.unwrap();
            let first = match ending {
                Ending::Canceled | Ending::ClosedAtOnce => None,
                _ => receive.read_chunk(1).await.ok().flatten(),
            };
            match ending {
                Ending::Whole if first.is_some() => {
                    drop(receive.read_to_end(30_000_000).await.unwrap())
                }
                Ending::Closed | Ending::ClosedAtOnce => connection.close(0_u32.into(), b""),
                Ending::Stalled | Ending::Lost => {
                    kept.push((connection, Some((send, receive))));
                    continue;
                }
                _ => {}
            }
            kept.push((connection, None));
        }
        if ending == Ending::Stalled {
            resources.check("Stalled", |_| true);
        }
        drop(link);
        if ending != Ending::Lost {
            kept.clear();
        }
        resources.check_all(&format!("{ending:?}"));
    }
}

/// The TCP connections of metrics clients release their descriptors.
#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_scrape_returns_its_descriptor() {
    let scratch = Scratch::new("books-metrics");
    let resources = ResourceCheck::open(&scratch, &[]).await;
    let requests: [&[u8]; 7] = [
        b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
        b"HEAD /metrics HTTP/1.0\r\n\r\n",
        b"GET /metrics HT",
        b"\x00\xff\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\ncontent-length: 1000\r\n\r\nabc",
        b"",
    ];
    for request in requests {
        for is_read in [true, false] {
            let mut streams = Vec::new();
            for _ in 0..5 {
                let mut stream = TcpStream::connect(&resources.metrics).unwrap();
                stream.write_all(request).unwrap();
                if is_read {
                    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    let _ = stream.read(&mut [0; 100]);
                }
                streams.push(stream);
            }
            drop(streams);
            resources.check_all(&format!("{:?}", String::from_utf8_lossy(request)));
        }
    }
}
