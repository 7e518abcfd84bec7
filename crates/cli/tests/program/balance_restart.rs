//! Tests that one balancer replaces another one while clients are served.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clearway::http3::{Client, PROTOCOL};
use clearway::{ClientConfig, Endpoint};
use http::Request;

use crate::support::{Running, Scratch, clearway, fail};

const TIMEOUT: Duration = Duration::from_secs(60);
const RESTARTS: usize = 10;

/// Two servers: one that supports prefaces, and one that does not, whose connection IDs are
/// learned.
struct Site {
    scratch: Scratch,
    _servers: [Running; 2],
    file: String,
}

impl Site {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        scratch.fill("root/file", 20_000);
        let root = scratch.path("root");
        let serve = |more: &[&str]| {
            let arguments = ["serve", &root, "--quiet", "--listen", "127.0.0.1:0", "--shards", "1"];
            let mut command = clearway(&[&arguments[..], more].concat());
            command.stderr(Stdio::null());
            Running::listening(command)
        };
        let servers = [serve(&["--balancer", "127.0.0.1"]), serve(&[])];
        let [with, without] = servers.each_ref().map(|it| &it.address);
        let file = scratch.path("backends.toml");
        let backends = format!(
            "[[server]]\nname = \"with\"\naddress = \"{with}\"\n\
             [[server]]\nname = \"without\"\naddress = \"{without}\"\npreface = false\n"
        );
        fs::write(&file, backends).unwrap();
        Self { scratch, _servers: servers, file }
    }

    fn balance(&self, listen: &str) -> Running {
        let socket = self.scratch.path("s");
        let arguments = ["balance", "--listen", listen, "--backends", &self.file, "--quiet"];
        let more = ["--hot-restart", &socket, "--shards", "2"];
        let mut command = clearway(&[&arguments[..], &more].concat());
        command.stderr(Stdio::piped());
        Running::balancing(command)
    }
}

/// Makes requests on one connection until `is_over`. Returns an error if the connection is lost.
async fn request_often(
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
) -> Result<(), String> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::dangerous_without_certificate_verification();
    let config = config.application_protocols([PROTOCOL]);
    let connected = Client::connect(&endpoint, &config, address, "localhost").await;
    let client = connected.map_err(|error| format!("cannot connect: {error}"))?;
    while !is_over.load(Ordering::SeqCst) {
        let request = Request::get("https://localhost/file").body(()).unwrap();
        let response = client.send(request).await.map_err(|error| format!("lost: {error}"))?;
        let body = response.into_body().bytes(100_000).await;
        let body = body.map_err(|error| format!("no content: {error}"))?;
        assert_eq!(body.len(), 20_000);
        count.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// Waits until this many more requests were answered.
async fn answered(count: &AtomicUsize, more: usize) {
    let (begun, before) = (Instant::now(), count.load(Ordering::SeqCst));
    while count.load(Ordering::SeqCst) < before + more {
        assert!(begun.elapsed() < TIMEOUT, "requests are no longer answered");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn ten_restarts_cut_no_connection() {
    let site = Site::new("balance-restarts");
    let mut running = site.balance("127.0.0.1:0");
    let listen = running.address.clone();
    let address: SocketAddr = listen.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let outcomes = runtime.block_on(async {
        let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = || tokio::spawn(request_often(address, is_over.clone(), count.clone()));
        // The probability that all clients go to the same one of two servers is negligible.
        let mut clients: Vec<_> = (0..16).map(|_| client()).collect();
        for _ in 0..RESTARTS {
            answered(&count, 100).await;
            // Some connections begin during the replacement.
            clients.push(client());
            let next = tokio::task::block_in_place(|| site.balance(&listen));
            assert_eq!(next.address, listen);
            let before = std::mem::replace(&mut running, next);
            tokio::task::block_in_place(|| before.end(TIMEOUT));
        }
        answered(&count, 100).await;
        is_over.store(true, Ordering::SeqCst);
        let mut outcomes = Vec::new();
        for client in clients {
            outcomes.push(client.await.unwrap());
        }
        outcomes
    });
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(outcomes.len(), 16 + RESTARTS);
}

#[test]
fn a_balancer_that_cannot_take_over_says_why() {
    let site = Site::new("balance-no-restart");
    let running = site.balance("127.0.0.1:0");
    let (listen, socket) = (running.address.clone(), site.scratch.path("s"));
    let start = |listen: &str, shards: &str| {
        let balance = ["balance", "--listen", listen, "--backends", &site.file];
        fail(&[&balance[..], &["--hot-restart", &socket, "--shards", shards]].concat())
    };
    assert!(start(&listen, "3").contains("use --shards 2"));
    assert!(start("127.0.0.1:1", "2").contains("listens at"));
    let root = site.scratch.path("root");
    let said = fail(&["serve", &root, "--listen", "127.0.0.1:0", "--hot-restart", &socket]);
    assert!(said.contains("cannot take over"), "{said}");
    // The balancer has been running all the time.
    assert!(running.interrupt().contains("to servers"));
}
