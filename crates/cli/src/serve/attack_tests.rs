//! Clients that request much and accept little, and one elsewhere that has to be served nevertheless.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clearway::http3::{Client, Config, PROTOCOL, PendingResponse, SendBody, Timeouts};
use clearway::{
    Certificates, ClientConfig, Connection, Endpoint, RecvStream, ServerConfig, TransportConfig,
};
use http::{Request, StatusCode};

use super::http3::{Http3, Site};
use super::http09::{self, Http09};
use super::*;
use crate::certificate::Development;

/// So little that a piece of a file for each request of the greedy would be too much.
const MEMORY: u64 = 1 << 20;
const LARGE: usize = 1 << 20;
/// How many connections the greedy have, and requests on each.
const CONNECTIONS: usize = 20;
const REQUESTS: usize = 24;

/// Files of a temporary folder, which is removed at the end.
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

/// A client with as small a window for each stream as possible.
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

/// As many requests as there may be, none of whose responses is read.
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
    let site = Site { files, authorities, log, requests: Requests::new() };
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_accept_nothing_do_not_block_others_over_http09() {
    let served = Served::new("slow-http09");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Http09::bind(any, ServerConfig::with_resolver(certificates())).unwrap();
    let address = server.endpoint().local_address();
    let serving = tokio::spawn(http09::accept(
        server.endpoint().clone(),
        served.files.clone(),
        AccessLog::new(true),
    ));
    let protocol = crate::http09::PROTOCOL;
    let (here, elsewhere) = (endpoint(1), endpoint(2));
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS {
        let connecting = here.connect_with(&greedy(protocol), address, "localhost").unwrap();
        let connection = connecting.await.unwrap();
        for _ in 0..REQUESTS {
            kept.push(fetch(&connection).await);
        }
        let connecting = elsewhere.connect_with(&honest(protocol), address, "localhost").unwrap();
        let neighbor = connecting.await.unwrap();
        let file = fetch(&neighbor).await.read_to_end(2 * LARGE).await.unwrap();
        assert_eq!(file.len(), LARGE);
        assert!(served.files.store.statistics().held <= MEMORY);
    }
    serving.abort();
}
