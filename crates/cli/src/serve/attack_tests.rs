//! Tests clients that request much but accept little, and other clients that must be served
//! nevertheless.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clearway::http3::{Client, Code, Config, Error, PROTOCOL, PendingResponse, SendBody, Timeouts};
use clearway::{
    Certificates, ClientConfig, Connection, Endpoint, RecvStream, ServerConfig, TransportConfig,
};
use http::{Request, StatusCode};

use super::answering::answering;
use super::http3::{Http3, Site};
use super::http09::{self, Http09};
use super::*;
use crate::certificate::Development;

/// Memory limit that is too small for one piece of a file per request of the greedy client.
const MEMORY: u64 = 1 << 20;
const LARGE: usize = 1 << 20;
/// Number of the greedy client's connections, and of requests on each connection.
const CONNECTIONS: usize = 20;
const REQUESTS: usize = 24;

/// Files of a temporary directory, which is removed at the end.
struct Served {
    folder: PathBuf,
    files: Files,
}

impl Served {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("large"), vec![7; LARGE]).unwrap();
        let files = Files::new(&folder, false, Store::new(64, MEMORY)).unwrap();
        Self { folder, files }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn certificates() -> Arc<Certificates> {
    let identity = Development::generate().unwrap().identity;
    Arc::new(Certificates::new([identity]).unwrap())
}

/// Returns a client with the smallest possible stream windows.
fn greedy(protocol: &[u8]) -> ClientConfig {
    let transport = TransportConfig::builder()
        .initial_stream_receive_window(1)
        .max_stream_receive_window(1)
        .build()
        .unwrap();
    honest(protocol).transport(transport)
}

fn honest(protocol: &[u8]) -> ClientConfig {
    ClientConfig::dangerous_without_certificate_verification().application_protocols([protocol])
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::client(SocketAddr::from(([127, 0, 0, last], 0))).unwrap()
}

/// Makes the maximum number of requests, and reads none of the responses.
async fn ask_greedily(address: SocketAddr) -> (Client, Vec<(SendBody, PendingResponse)>) {
    let client =
        Client::connect(&endpoint(1), &greedy(PROTOCOL), address, "localhost").await.unwrap();
    let ask = |_| {
        let request = Request::get("https://localhost/large").body(()).unwrap();
        client.open(request).unwrap()
    };
    let asked = (0..REQUESTS).map(ask).collect();
    (client, asked)
}

async fn download(client: &Client) -> (StatusCode, usize) {
    let request = Request::get("https://localhost/large").body(()).unwrap();
    let (send, response) = client.open(request).unwrap();
    send.finish().await.unwrap();
    let (parts, mut body) = response.response().await.unwrap().into_parts();
    (parts.status, body.bytes(2 * LARGE).await.unwrap().len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_accept_nothing_do_not_keep_others_from_being_served() {
    let served = Served::new("slow-http3");
    let minute = Duration::from_secs(60);
    let timeouts = Timeouts { request: minute, send: minute };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let certificates = certificates();
    let authorities = AuthorityOptions::default().authorities(certificates.clone());
    let config = ServerConfig::with_resolver(certificates);
    let server = Http3::bind(any, config, Config::default(), timeouts).unwrap();
    let address = server.endpoint().local_address();
    let (files, log) = (served.files.clone(), AccessLog::new(true));
    let site =
        Site { files, authorities, log, requests: Requests::new(), _answering: answering().0 };
    let serving = tokio::spawn(async move { server.serve(site).await });
    let mut kept = Vec::new();
    let elsewhere = endpoint(2);
    for _ in 0..CONNECTIONS {
        let (client, mut asked) = ask_greedily(address).await;
        for (send, response) in asked.drain(..) {
            send.finish().await.unwrap();
            kept.push((client.clone(), response));
        }
        let neighbor =
            Client::connect(&elsewhere, &honest(PROTOCOL), address, "localhost").await.unwrap();
        assert_eq!(download(&neighbor).await, (StatusCode::OK, LARGE));
        assert!(served.files.store.statistics().held <= MEMORY);
    }
    serving.abort();
}

async fn fetch(connection: &Connection) -> RecvStream {
    let (mut send, receive) = connection.open_bi().await.unwrap();
    send.write_all(b"GET /large\r\n").await.unwrap();
    send.finish().unwrap();
    receive
}

/// An HTTP/0.9 server, which stops at the end of the test.
struct Old {
    endpoint: Endpoint,
    serving: tokio::task::JoinHandle<()>,
}

impl Old {
    fn serve(files: &Files, timeouts: Timeouts) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Http09::bind(any, ServerConfig::with_resolver(certificates())).unwrap();
        let endpoint = server.endpoint().clone();
        let site = http09::Site {
            files: files.clone(),
            log: AccessLog::new(true),
            timeouts,
            _answering: answering().0,
        };
        Self { endpoint: endpoint.clone(), serving: tokio::spawn(http09::accept(endpoint, site)) }
    }

    fn address(&self) -> SocketAddr {
        self.endpoint.local_address()
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const OLD: &[u8] = crate::http09::PROTOCOL;

async fn connect(from: &Endpoint, config: &ClientConfig, address: SocketAddr) -> Connection {
    from.connect_with(config, address, "localhost").unwrap().await.unwrap()
}

/// Content that the greedy client does not accept is not read from files, so memory remains for all
/// other clients, even at the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_accept_nothing_do_not_block_others_over_http09() {
    let served = Served::new("slow-http09");
    let server = Old::serve(&served.files, Timeouts { request: MINUTE, send: MINUTE });
    let (here, elsewhere) = (endpoint(1), endpoint(2));
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS {
        let connection = connect(&here, &greedy(OLD), server.address()).await;
        for _ in 0..REQUESTS {
            kept.push(fetch(&connection).await);
        }
        // One byte of each response, and the overhead of the piece that contains it.
        let most = kept.len() as u64 * 200;
        let held = || served.files.store.statistics().held;
        until("no more is held", || held() <= most).await;
        for neighbor in [&here, &elsewhere] {
            let neighbor = connect(neighbor, &honest(OLD), server.address()).await;
            let download = async { fetch(&neighbor).await.read_to_end(2 * LARGE).await };
            let file = tokio::time::timeout(Duration::from_secs(20), download).await;
            assert_eq!(file.expect("a download in time").unwrap().len(), LARGE);
        }
    }
    assert_eq!(served.files.store.statistics().resets, 0);
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not true in time: {what}");
}

/// Forwards datagrams to a server and back. After some responses, it drops all datagrams from the
/// client.
async fn cut_off(server: SocketAddr) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let of_client = tokio::net::UdpSocket::bind(any).await.unwrap();
    let of_server = tokio::net::UdpSocket::bind(any).await.unwrap();
    let address = of_client.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut here, mut there) = ([0; 2048], [0; 2048]);
        let (mut client, mut responses) = (any, 0);
        loop {
            tokio::select! {
                Ok((length, from)) = of_client.recv_from(&mut here) => {
                    client = from;
                    if responses < 20 {
                        of_server.send_to(&here[..length], server).await.unwrap();
                    }
                }
                Ok((length, _)) = of_server.recv_from(&mut there) => {
                    responses += usize::from(length > 1000);
                    of_client.send_to(&there[..length], client).await.unwrap();
                }
            }
        }
    });
    address
}

/// Clients that grant flow control credit but then acknowledge nothing occupy memory until it runs
/// low.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_not_acknowledged_is_reset_for_others_over_http09() {
    let served = Served::new("silent-http09");
    let server = Old::serve(&served.files, Timeouts { request: MINUTE, send: MINUTE });
    let mut kept = Vec::new();
    for number in 0..8 {
        let through = cut_off(server.address()).await;
        let connection = connect(&endpoint(10 + number), &honest(OLD), through).await;
        for _ in 0..REQUESTS {
            kept.push(fetch(&connection).await);
        }
    }
    let statistics = || served.files.store.statistics();
    until("a response was reset", || statistics().resets > 0).await;
    assert!(statistics().held <= MEMORY);
}

/// A client that accepts nothing is disconnected after the timeout; one that accepts a little from
/// time to time is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_apply_over_http09() {
    let served = Served::new("timeouts-http09");
    // Longer than the delay of a task on a busy machine.
    let short = Duration::from_millis(1500);
    let server = Old::serve(&served.files, Timeouts { request: MINUTE, send: short });
    let transport = TransportConfig::builder().initial_stream_receive_window(200_000);
    let transport = transport.max_stream_receive_window(200_000).build().unwrap();
    let client = honest(OLD).transport(transport);
    let connection = connect(&endpoint(1), &client, server.address()).await;
    let (mut silent, mut slow) = (fetch(&connection).await, fetch(&connection).await);
    let mut received = 0;
    while let Some(chunk) = slow.read_chunk(100_000).await.unwrap() {
        received += chunk.len();
        tokio::time::sleep(short / 8).await;
    }
    assert_eq!(received, LARGE);
    tokio::time::sleep(2 * short).await;
    let outcome = silent.read_to_end(2 * LARGE).await;
    assert!(outcome.is_err(), "{:?}", outcome.map(|all| all.len()));
    // An incomplete request.
    let server = Old::serve(&served.files, Timeouts { request: short, send: MINUTE });
    let connection = connect(&endpoint(1), &client, server.address()).await;
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"GET /lar").await.unwrap();
    let outcome = tokio::time::timeout(10 * short, receive.read_to_end(LARGE)).await;
    assert!(outcome.expect("an end in time").is_err());
}

/// A file that is truncated while it is being sent, so that the announced length is not reached, is
/// reset over either protocol: a part of a file must not be mistaken for the whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_shrinks_is_not_sent_as_complete() {
    let served = Served::new("shrinking");
    let path = served.folder.join("large");
    // Smaller than the file, so that the server reads the rest only after the client has read the
    // beginning.
    let transport = TransportConfig::builder().initial_stream_receive_window(100_000);
    let transport = transport.max_stream_receive_window(100_000).build().unwrap();
    let timeouts = Timeouts { request: MINUTE, send: MINUTE };

    let server = Old::serve(&served.files, timeouts);
    let client = honest(OLD).transport(transport.clone());
    let connection = connect(&endpoint(1), &client, server.address()).await;
    let mut response = fetch(&connection).await;
    response.read_chunk(1000).await.unwrap().unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(300_000).unwrap();
    let outcome = response.read_to_end(2 * LARGE).await;
    assert!(outcome.is_err(), "{:?}", outcome.map(|all| all.len()));

    fs::write(&path, vec![7; LARGE]).unwrap();
    let certificates = certificates();
    let authorities = AuthorityOptions::default().authorities(certificates.clone());
    let config = ServerConfig::with_resolver(certificates);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Http3::bind(any, config, Config::default(), timeouts).unwrap();
    let address = server.endpoint().local_address();
    let (files, log) = (served.files.clone(), AccessLog::new(true));
    let site =
        Site { files, authorities, log, requests: Requests::new(), _answering: answering().0 };
    let serving = tokio::spawn(async move { server.serve(site).await });
    let client = honest(PROTOCOL).transport(transport);
    let client = Client::connect(&endpoint(1), &client, address, "localhost").await.unwrap();
    let request = Request::get("https://localhost/large").body(()).unwrap();
    let (send, response) = client.open(request).unwrap();
    send.finish().await.unwrap();
    let mut body = response.response().await.unwrap().into_body();
    body.chunk().await.unwrap().unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(300_000).unwrap();
    let outcome = body.bytes(2 * LARGE).await;
    assert!(matches!(outcome, Err(Error::Reset(Code::INTERNAL_ERROR))), "{outcome:?}");
    serving.abort();
}
