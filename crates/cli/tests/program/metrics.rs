//! Tests `serve --metrics` and `serve --log`.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Running, Scratch, clearway, succeed};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a server with metrics. Also returns the address of the metrics.
pub(crate) fn serve(scratch: &Scratch, more: &[&str]) -> (Running, String) {
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let arguments = ["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate];
    let mut command = clearway(&[&arguments[..], &["--metrics", "127.0.0.1:0"], more].concat());
    command.stderr(Stdio::piped());
    let mut server = Running::listening(command);
    let address = address(&mut server);
    (server, address)
}

/// Returns the address of a program's metrics, which it prints on standard error.
pub(crate) fn address(program: &mut Running) -> String {
    loop {
        let line = program.error_line();
        if let Some(address) = line.strip_prefix("metrics are at http://") {
            return address.trim().strip_suffix("/metrics").unwrap().to_owned();
        }
        assert_ne!(line, "", "the address is not printed");
    }
}

fn download(scratch: &Scratch, server: &Running, path: &str) -> Vec<u8> {
    let certificate = scratch.path("cert.pem");
    succeed(&["get", "--quiet", "--ca", &certificate, &server.url(path)]).stdout
}

/// The samples of a scrape.
#[derive(Debug)]
pub(crate) struct Samples(Vec<(String, f64)>);

impl Samples {
    pub(crate) fn scrape(address: &str) -> Self {
        let mut response = ureq::get(format!("http://{address}/metrics")).call().unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let text = response.body_mut().read_to_string().unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(samples.collect())
    }

    /// Returns the sum of the samples with this name, regardless of their labels.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let of_name = self.all(name);
        assert!(!of_name.is_empty(), "there is no {name}");
        of_name.into_iter().sum()
    }

    fn all(&self, name: &str) -> Vec<f64> {
        let is_of_name = |sample: &str| sample.split('{').next() == Some(name);
        self.0.iter().filter(|(sample, _)| is_of_name(sample)).map(|(_, value)| *value).collect()
    }

    pub(crate) fn one(&self, sample: &str) -> f64 {
        let found = self.0.iter().find(|(name, _)| name == sample);
        found.unwrap_or_else(|| panic!("there is no {sample}")).1
    }
}

/// Scrapes until `condition` holds.
pub(crate) fn scrape_until(address: &str, condition: impl Fn(&Samples) -> bool) -> Samples {
    let begun = Instant::now();
    loop {
        let samples = Samples::scrape(address);
        if condition(&samples) {
            return samples;
        }
        assert!(begun.elapsed() < TIMEOUT, "{:?}", samples.0);
    }
}

#[test]
fn metrics_count_what_was_done() {
    let scratch = Scratch::new("metrics");
    let content = scratch.fill("root/file", 2_000_000);
    let (server, address) = serve(&scratch, &["--shards", "1"]);
    let before = Samples::scrape(&address);
    for name in ["clearway_quic_connections_accepted_total", "clearway_http3_requests_total"] {
        assert_eq!(before.sum(name), 0.0, "{name}");
    }
    for _ in 0..3 {
        assert_eq!(download(&scratch, &server, "file"), content);
    }
    let mut missing = clearway(&["get", "--ca", &scratch.path("cert.pem"), &server.url("missing")]);
    assert!(!missing.output().unwrap().status.success());

    // The clients have closed their connections; the server forgets them after a few probe
    // timeouts.
    let samples = scrape_until(&address, |samples| {
        samples.sum("clearway_quic_connections") == 0.0
            && samples.sum("clearway_http3_requests_in_progress") == 0.0
    });
    assert_eq!(samples.sum("clearway_quic_connections_accepted_total"), 4.0);
    assert_eq!(samples.sum("clearway_quic_handshakes_completed_total"), 4.0);
    assert_eq!(samples.sum("clearway_quic_handshakes_failed_total"), 0.0);
    assert_eq!(samples.sum("clearway_quic_panics_total"), 0.0);
    assert_eq!(samples.sum("clearway_http3_requests_total"), 4.0);
    assert_eq!(samples.one("clearway_http3_responses_total{class=\"2xx\"}"), 3.0);
    assert_eq!(samples.one("clearway_http3_responses_total{class=\"4xx\"}"), 1.0);
    assert_eq!(samples.sum("clearway_http3_request_duration_seconds_count"), 4.0);
    assert!(samples.sum("clearway_http3_request_duration_seconds_sum") > 0.0);
    let version = concat!("clearway_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    assert_eq!(samples.one(version), 1.0);

    let bytes = samples.sum("clearway_quic_sent_bytes_total");
    assert!((6_000_000.0..12_000_000.0).contains(&bytes), "{bytes}");
    let datagrams = samples.sum("clearway_quic_datagrams_sent_total");
    assert!(bytes / datagrams > 1000.0, "{bytes} bytes in {datagrams} datagrams");
    assert_eq!(samples.sum("clearway_quic_batch_size_datagrams_sum"), datagrams);
    let batches = samples.sum("clearway_quic_batches_sent_total");
    assert_eq!(samples.sum("clearway_quic_batch_size_datagrams_count"), batches);
    assert!(batches <= datagrams, "{batches} batches of {datagrams} datagrams");
    assert!(samples.sum("clearway_quic_packets_sent_total") >= datagrams * 0.9);
    assert!(samples.sum("clearway_quic_received_bytes_total") > 4.0 * 1200.0);
    assert!(samples.sum("clearway_quic_packets_received_total") > 4.0);
    assert!(samples.sum("clearway_quic_turn_duration_seconds_count") > 0.0);
    server.interrupt();
}

#[test]
fn the_counts_of_four_shards_add_up() {
    const CLIENTS: usize = 24;
    let scratch = Scratch::new("metrics-shards");
    scratch.fill("root/file", 10_000);
    let (server, address) = serve(&scratch, &["--shards", "4"]);
    let children: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let certificate = scratch.path("cert.pem");
            let mut command = clearway(&["get", "--quiet", "--ca", &certificate]);
            command.arg(server.url("file")).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let samples = Samples::scrape(&address);
    for name in [
        "clearway_quic_connections_accepted_total",
        "clearway_quic_handshakes_completed_total",
        "clearway_http3_requests_total",
    ] {
        assert_eq!(samples.sum(name), CLIENTS as f64, "{name}");
    }
    let accepted = samples.all("clearway_quic_connections_accepted_total");
    assert_eq!(accepted.len(), 4);
    // The probability that all clients go to the same one of four shards is negligible.
    assert!(accepted.iter().all(|count| *count < CLIENTS as f64), "{accepted:?}");
    assert!(samples.sum("clearway_quic_sent_bytes_total") >= CLIENTS as f64 * 10_000.0);
    server.interrupt();
}

/// Neither a client that sends half a request nor one that reads nothing blocks other clients.
#[test]
fn a_slow_scraper_does_not_hold_up_anybody() {
    let scratch = Scratch::new("metrics-slow");
    let content = scratch.fill("root/file", 100_000);
    let (server, address) = serve(&scratch, &[]);
    let connect = || TcpStream::connect(&address).unwrap();
    let mut stalled = Vec::new();
    for _ in 0..20 {
        let mut half = connect();
        half.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").unwrap();
        let mut silent = connect();
        for _ in 0..100 {
            silent.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        }
        stalled.extend([half, silent]);
    }
    assert_eq!(download(&scratch, &server, "file"), content);
    assert_eq!(Samples::scrape(&address).sum("clearway_http3_requests_total"), 1.0);
    drop(stalled);
    server.interrupt();
}

#[test]
fn an_address_in_use_is_named() {
    let scratch = Scratch::new("metrics-in-use");
    scratch.fill("root/file", 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let root = scratch.path("root");
    let message =
        crate::support::fail(&["serve", &root, "--listen", "127.0.0.1:0", "--metrics", &address]);
    assert!(message.contains(&format!("cannot listen on TCP {address}")), "{message}");
    assert!(message.contains("--metrics"), "{message}");
}

#[test]
fn only_known_hosts_and_paths_are_answered() {
    let scratch = Scratch::new("metrics-hosts");
    scratch.fill("root/file", 1);
    let (server, address) = serve(&scratch, &["--metrics-name", "metrics.example"]);
    let status = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response["HTTP/1.1 ".len()..][..3].to_owned()
    };
    assert_eq!(status("metrics.example:9433", "/metrics"), "200");
    assert_eq!(status("other.example:9433", "/metrics"), "403");
    assert_eq!(status("localhost", "/"), "404");
    server.interrupt();
}

/// With HTTP/0.9, there are no HTTP/3 requests to count, but there are connections.
#[test]
fn http09_has_metrics_of_its_connections() {
    let scratch = Scratch::new("metrics-http09");
    let content = scratch.fill("root/file", 1000);
    let (server, address) = serve(&scratch, &["--http09"]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    let output = succeed(&["get", "--quiet", "--http09", "--ca", &certificate, &url]).stdout;
    assert_eq!(output, content);
    let samples = Samples::scrape(&address);
    assert_eq!(samples.sum("clearway_quic_handshakes_completed_total"), 1.0);
    assert_eq!(samples.sum("clearway_http3_requests_total"), 0.0);
    server.interrupt();
}

/// Returns the server's standard error while it serves one download.
fn reported(name: &str, arguments: &[&str], variable: Option<&str>) -> String {
    let scratch = Scratch::new(name);
    scratch.fill("root/file", 1000);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let serve = ["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate];
    let mut command = clearway(&[&serve[..], arguments].concat());
    let errors = scratch.path("errors");
    command.stderr(fs::File::create(&errors).unwrap());
    if let Some(variable) = variable {
        command.env("RUST_LOG", variable);
    }
    let server = Running::listening(command);
    download(&scratch, &server, "file");
    server.interrupt();
    fs::read_to_string(&errors).unwrap()
}

#[test]
fn connections_are_reported_as_much_as_is_asked_for() {
    let debug = reported("log-debug", &["--log", "clearway_io=debug"], None);
    let spans: Vec<_> = debug.lines().filter(|line| line.contains("connection{id=")).collect();
    let find = |text: &str| spans.iter().find(|line| line.contains(text));
    for (level, text) in [
        ("DEBUG", "began"),
        ("DEBUG", "handshake complete version=0x00000001"),
        ("INFO", "closed reason=closed by the peer's application with code 0x100"),
    ] {
        let line = find(text).unwrap_or_else(|| panic!("{text}: {debug}"));
        assert!(line.contains(level) && line.contains(" remote=127.0.0.1:"), "{line}");
    }
    let info = reported("log-info", &[], Some("info"));
    assert!(info.contains("closed by the peer") && !info.contains("handshake"), "{info}");
    let nothing = reported("log-nothing", &[], None);
    assert!(!nothing.contains("connection{"), "{nothing}");
    // The option takes precedence over the environment variable.
    let warn = reported("log-warn", &["--log", "warn"], Some("trace"));
    assert!(!warn.contains("connection{"), "{warn}");
    let wrong = clearway(&["serve", "--log", "inof"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("\"inof\" is not a level"),
        "{wrong:?}"
    );
}

/// A shell starts programs with a low descriptor limit, which metrics clients could use up.
#[test]
fn a_server_permits_itself_all_descriptors_that_it_may_have() {
    let scratch = Scratch::new("descriptors");
    scratch.fill("root/file", 10);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_clearway")]);
    command.args(["serve", &scratch.path("root"), "--listen", "127.0.0.1:0"]);
    command.args(["--save-cert", &scratch.path("cert.pem")]).stderr(Stdio::null());
    let server = Running::listening(command);
    let limits = server.descriptor_limits();
    assert_ne!(limits.maximum, Some(64), "this machine has no more");
    assert_eq!(limits.current, limits.maximum);
}
