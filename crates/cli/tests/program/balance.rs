//! Tests `balance`: several servers behind one address.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use clearway::http3::{Client, PROTOCOL};
use clearway::{ClientConfig, Endpoint};
use http::Request;
use rustix::process::Signal;

use crate::support::{Running, Scratch, clearway, fail, succeed};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a certificate, and a directory for each server. Each directory contains a file `who`
/// with the server's name, and the same file `large`.
fn scratch(name: &str, servers: &[&str]) -> Scratch {
    let scratch = Scratch::new(name);
    for server in servers {
        scratch.fill(&format!("{server}/large"), 2_000_000);
        fs::write(scratch.path(&format!("{server}/who")), server).unwrap();
    }
    let identity = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    fs::write(scratch.path("cert.pem"), identity.cert.pem()).unwrap();
    fs::write(scratch.path("key.pem"), identity.signing_key.serialize_pem()).unwrap();
    scratch
}

fn serve(scratch: &Scratch, name: &str, more: &[&str]) -> Running {
    let (certificate, key) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    let identity = ["--quiet", "--shards", "1", "--cert", &certificate, "--key", &key];
    let root = scratch.path(name);
    let mut command = clearway(&[&["serve", &root][..], &identity, more].concat());
    command.stderr(Stdio::null());
    Running::listening(command)
}

fn serve_anywhere(scratch: &Scratch, name: &str) -> Running {
    serve(scratch, name, &["--listen", "127.0.0.1:0"])
}

/// Returns the file entry of a server that does not support prefaces.
fn entry(name: &str, server: &Running, more: &str) -> String {
    let address = &server.address;
    format!("[[server]]\nname = \"{name}\"\naddress = \"{address}\"\npreface = false\n{more}\n")
}

/// Health checks ten times a second; a server is down after two failures, and has no slow start.
const HASTY: &str = "[health]\ninterval = \"100ms\"\ntimeout = \"2s\"\ndown-after = 2\nup-after = 1\nslow-start = \"0s\"\n";

/// A running balancer, its file, and its output.
struct Balancer {
    running: Running,
    file: String,
}

impl Balancer {
    fn start(scratch: &Scratch, backends: &str, more: &[&str]) -> Self {
        let file = scratch.path("backends.toml");
        fs::write(&file, backends).unwrap();
        let arguments = ["balance", "--listen", "127.0.0.1:0", "--shards", "2"];
        let mut command = clearway(&[&arguments[..], &["--backends", &file], more].concat());
        command.stderr(Stdio::piped());
        Self { running: Running::balancing(command), file }
    }

    /// Rewrites the balancer's file, and waits for an output line that begins with `expected`.
    fn rewrite(&mut self, backends: &str, expected: &str) -> String {
        fs::write(&self.file, backends).unwrap();
        self.running.signal(Signal::HUP);
        self.wait_for(expected)
    }

    /// Waits for a line on standard error that begins with `expected`.
    fn wait_for(&mut self, expected: &str) -> String {
        loop {
            let line = self.running.error_line();
            assert_ne!(line, "", "the balancer never printed {expected:?}");
            if line.starts_with(expected) {
                return line;
            }
        }
    }

    fn get(&self, scratch: &Scratch, path: &str) -> Vec<u8> {
        let (certificate, url) = (scratch.path("cert.pem"), self.running.url(path));
        succeed(&["get", "--quiet", "--ca", &certificate, &url]).stdout
    }

    /// Returns how many of `clients` new clients each server gets.
    fn served(&self, scratch: &Scratch, clients: usize) -> BTreeMap<String, usize> {
        let mut served = BTreeMap::new();
        for _ in 0..clients {
            let who = String::from_utf8(self.get(scratch, "who")).unwrap();
            *served.entry(who).or_default() += 1;
        }
        served
    }
}

#[test]
fn downloads_from_three_servers_are_byte_for_byte_and_counted() {
    let scratch = scratch("balance-three", &["a", "b", "c"]);
    let servers = ["a", "b", "c"].map(|name| (name, serve_anywhere(&scratch, name)));
    let file: String = servers.iter().map(|(name, server)| entry(name, server, "")).collect();
    let mut balancer = Balancer::start(&scratch, &file, &["--metrics", "127.0.0.1:0", "--json"]);
    let line = balancer.wait_for("metrics are at ");
    let page = line.trim().strip_prefix("metrics are at ").unwrap().to_owned();
    let large = fs::read(scratch.path("a/large")).unwrap();
    assert!(balancer.get(&scratch, "large") == large);
    let served = balancer.served(&scratch, 20);
    // The probability that all clients go to the same one of three servers is negligible.
    assert!(served.len() > 1, "{served:?}");
    let text = ureq::get(&page).call().unwrap().body_mut().read_to_string().unwrap();
    for (name, _) in &servers {
        let state =
            format!("clearway_balance_server_state{{server=\"{name}\",state=\"active\"}} 1.0\n");
        assert!(text.contains(&state), "{text}");
    }
    let summary: serde_json::Value = serde_json::from_str(&balancer.running.interrupt()).unwrap();
    let count = |pointer: &str| summary.pointer(pointer).and_then(|it| it.as_u64()).unwrap();
    assert!(count("/to_clients/sent_bytes") > 2_000_000, "{summary}");
    let of_servers: u64 = ["/servers/a", "/servers/b", "/servers/c"].map(count).iter().sum();
    // One in 32 of the packets whose QUIC bit a client has cleared looks like a preface, and is
    // dropped.
    let (sent, dropped) = (count("/to_servers/sent"), count("/to_servers/dropped"));
    assert_eq!(of_servers, sent + dropped, "{summary}");
    assert!(dropped < 5, "{summary}");
    // Each client has begun one connection.
    assert_eq!(count("/means/hash"), 21, "{summary}");
    for name in served.keys() {
        assert!(count(&format!("/servers/{name}")) > 0, "{summary}");
    }
}

/// Sends forged connection IDs from many addresses, with and without datagrams that may begin a
/// connection, while clients come and go.
#[test]
fn floods_of_invented_connections_leave_ports_for_clients() {
    let scratch = scratch("balance-flood", &["a"]);
    let server = serve_anywhere(&scratch, "a");
    let file = format!("{}[health]\noff = true\n", entry("a", &server, ""));
    let balancer = Balancer::start(&scratch, &file, &["--ports", "64"]);
    let address = balancer.running.address.clone();
    let mut seed = 0_u64;
    for round in 0..2_u8 {
        for number in 0..200_u8 {
            let attacker = UdpSocket::bind(format!("127.{}.{number}.1:0", 20 + round)).unwrap();
            seed += 1;
            let invented = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
            let short = [&[0x43][..], &invented, &[number; 22]].concat();
            let first = [&[0xc3, 0, 0, 0, 1, 8][..], &invented, &[8], &invented, &[0, 0x44, 0x9e]];
            let first = [&first.concat()[..], &[number; 1172]].concat();
            let datagram = if round == 0 { short } else { first };
            attacker.send_to(&datagram, &address).unwrap();
        }
        assert_eq!(balancer.get(&scratch, "who"), b"a");
        assert_eq!(balancer.get(&scratch, "large").len(), 2_000_000);
    }
}

/// A client cannot spoof an address toward a server whose entry says that it does not accept
/// prefaces.
#[test]
fn a_client_cannot_make_a_preface() {
    let scratch = scratch("balance-spoof", &["a"]);
    let server = serve(&scratch, "a", &["--listen", "127.0.0.1:0", "--balancer", "127.0.0.1"]);
    let file = format!("{}[health]\noff = true\n", entry("a", &server, ""));
    let balancer = Balancer::start(&scratch, &file, &[]);
    let victim = UdpSocket::bind("127.0.0.1:0").unwrap();
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = victim.local_addr().unwrap().port().to_be_bytes();
    // An unknown version is answered with Version Negotiation, to the address in the preface.
    let preface = [&[1][..], &port, &[127, 0, 0, 1, 127, 0, 0, 1]].concat();
    let unknown = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &[7; 8], &[8], &[9; 8], &[0; 1300]];
    let unknown = unknown.concat();
    let spoofed = [&preface[..], &unknown].concat();
    attacker.send_to(&spoofed, &balancer.running.address).unwrap();
    // Both datagrams take the same path in this order, so when the second one is answered, the
    // first one was answered already or never will be.
    attacker.send_to(&unknown, &balancer.running.address).unwrap();
    attacker.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = [0; 2000];
    let length = attacker.recv(&mut answer).unwrap();
    assert_eq!(answer[..length].get(1..5), Some(&[0; 4][..]), "not a Version Negotiation packet");
    attacker.set_nonblocking(true).unwrap();
    assert!(attacker.recv(&mut answer).is_err(), "a response with a preface came back");
    victim.set_nonblocking(true).unwrap();
    assert!(victim.recv(&mut answer).is_err());
}

/// A file that makes a balancer its own server, or has a multicast group as a server, is rejected
/// before anything starts.
#[test]
fn a_balancer_is_not_its_own_server() {
    let scratch = Scratch::new("balance-self");
    let file = scratch.path("backends.toml");
    for (address, listen, why) in [
        ("127.0.0.1:6370", "127.0.0.1:6370", "this balancer itself listens there (127.0.0.1:6370)"),
        ("127.0.0.1:6370", "0.0.0.0:6370", "this balancer itself listens there (0.0.0.0:6370)"),
        ("224.0.0.1:443", "127.0.0.1:6370", "multicast"),
        ("255.255.255.255:443", "127.0.0.1:6370", "broadcast"),
    ] {
        let text = format!("[[server]]\nname = \"a\"\naddress = \"{address}\"\npreface = false\n");
        fs::write(&file, text).unwrap();
        for check in [&["--check"][..], &[]] {
            let arguments = [&["balance", "--listen", listen, "--backends", &file], check].concat();
            let said = fail(&arguments);
            assert!(said.contains(&format!("{file}:3:11: ")) && said.contains(why), "{said}");
        }
    }
}

/// The servers remain unchanged, and the error is reported with its position.
#[test]
fn a_wrong_file_changes_nothing_and_a_right_one_everything() {
    let scratch = scratch("balance-reload", &["a", "b"]);
    let (a, b) = (serve_anywhere(&scratch, "a"), serve_anywhere(&scratch, "b"));
    let metrics = ["--metrics", "127.0.0.1:0"];
    let mut balancer = Balancer::start(&scratch, &entry("a", &a, ""), &metrics);
    let page = balancer.wait_for("metrics are at ").trim()["metrics are at ".len()..].to_owned();
    let wrong = entry("b", &b, "wieght = 2");
    let line = balancer.rewrite(&wrong, "clearway: the backends were not reloaded");
    let place = format!("the previous ones stay in use: {}:5:1: unknown key wieght", balancer.file);
    assert!(line.contains(&place), "{line}");
    assert_eq!(balancer.get(&scratch, "who"), b"a");
    balancer.rewrite(&entry("b", &b, ""), "reloaded the backends: 1 server");
    balancer.wait_for("server \"b\"");
    assert_eq!(balancer.served(&scratch, 3), BTreeMap::from([("b".to_owned(), 3)]));
    let text = ureq::get(&page).call().unwrap().body_mut().read_to_string().unwrap();
    // If the test is slow, the file may be read twice.
    for outcome in ["ok", "failed"] {
        let none = format!("clearway_balance_reloads_total{{outcome=\"{outcome}\"}} 0.0\n");
        assert!(!text.contains(&none) && text.contains(none.trim_end_matches("0.0\n")), "{text}");
    }
    // The change is also detected without a signal.
    fs::write(&balancer.file, entry("a", &a, "")).unwrap();
    balancer.wait_for("reloaded the backends: 1 server");
    balancer.wait_for("server \"a\"");
    assert_eq!(balancer.get(&scratch, "who"), b"a");
}

#[test]
fn a_server_that_is_killed_gets_no_clients_until_it_is_back() {
    let scratch = scratch("balance-killed", &["a", "b"]);
    let (a, b) = (serve_anywhere(&scratch, "a"), serve_anywhere(&scratch, "b"));
    let file = format!("{}{}{HASTY}", entry("a", &a, ""), entry("b", &b, ""));
    let mut balancer = Balancer::start(&scratch, &file, &[]);
    let address = a.address.clone();
    let killed = Instant::now();
    a.signal(Signal::KILL);
    let line = balancer.wait_for(&format!("server \"a\" ({address}) is down: "));
    assert!(killed.elapsed() < TIMEOUT, "{line}");
    assert_eq!(balancer.served(&scratch, 10), BTreeMap::from([("b".to_owned(), 10)]));
    drop(a);
    let again = serve(&scratch, "a", &["--listen", &address]);
    balancer.wait_for(&format!("server \"a\" ({}) is up", again.address));
    let begun = Instant::now();
    while !balancer.served(&scratch, 1).contains_key("a") {
        assert!(begun.elapsed() < TIMEOUT, "it gets no clients");
    }
}

/// A download in progress continues; new clients go elsewhere.
#[test]
fn a_server_that_drains_keeps_its_clients_and_gets_no_new_ones() {
    let scratch = scratch("balance-drain", &["a", "b"]);
    let (a, b) = (serve_anywhere(&scratch, "a"), serve_anywhere(&scratch, "b"));
    let mut balancer = Balancer::start(&scratch, &entry("a", &a, ""), &[]);
    // The download takes about four seconds.
    let link = Running::link(&balancer.running.address, &["--rate", "4mbit"]);
    let (certificate, url) = (scratch.path("cert.pem"), balancer.running.url("large"));
    let download = ["get", "--quiet", "--ca", &certificate, "--connect", &link.address, &url];
    let mut download = clearway(&download).stdout(Stdio::piped()).spawn().unwrap();
    let mut content = vec![0; 1000];
    download.stdout.as_mut().unwrap().read_exact(&mut content).unwrap();
    let both = format!("{}{}", entry("a", &a, "drain = true"), entry("b", &b, ""));
    balancer.rewrite(
        &both,
        "reloaded the backends: 2 servers, 0 configs; new clients go to 1 of the servers",
    );
    balancer.wait_for("server \"b\"");
    assert_eq!(balancer.served(&scratch, 10), BTreeMap::from([("b".to_owned(), 10)]));
    assert!(download.try_wait().unwrap().is_none(), "the download ended too early for this test");
    download.stdout.as_mut().unwrap().read_to_end(&mut content).unwrap();
    assert!(download.wait().unwrap().success());
    assert!(content == fs::read(scratch.path("a/large")).unwrap());
}

/// Returns QUIC-LB configuration `number` in a balancer's format.
fn config(number: u8) -> String {
    format!(
        "[[config]]\nid = {number}\nserver-id-length = 2\nnonce-length = 14\nkey = \"{}\"\n",
        key(number)
    )
}

/// Returns the same QUIC-LB configuration in a server's format.
fn config_of_server(number: u8, server_id: &str) -> String {
    format!(
        "config-id = {number}\nserver-id = \"{server_id}\"\nnonce-length = 14\nkey = \"{}\"\n",
        key(number)
    )
}

fn key(number: u8) -> String {
    format!("{number:02x}").repeat(16)
}

/// A client changes its address twice a second, and in the middle of its download the keys change,
/// first at the balancer and then at the servers.
#[test]
fn clients_move_and_keys_change_and_connections_stay() {
    let scratch = scratch("balance-quic-lb", &["a", "b", "c"]);
    let servers = ["a", "b", "c"].map(|name| {
        let file = scratch.path(&format!("{name}.toml"));
        let server_id = format!("0{name}0{name}");
        fs::write(&file, config_of_server(0, &server_id)).unwrap();
        let more = ["--listen", "127.0.0.1:0", "--balancer", "127.0.0.1", "--quic-lb", &file];
        (serve(&scratch, name, &more), file, server_id)
    });
    let entries = |configs: &[u8]| -> String {
        let entries = servers.iter().map(|(server, _, id)| {
            let ids = configs.iter().map(|number| format!("{number} = \"{id}\""));
            let ids = ids.collect::<Vec<_>>().join(", ");
            let address = &server.address;
            format!(
                "[[server]]\nname = \"{id}\"\naddress = \"{address}\"\nserver-id = {{ {ids} }}\n"
            )
        });
        configs.iter().map(|number| config(*number)).chain(entries).collect()
    };
    let mut balancer = Balancer::start(&scratch, &entries(&[0]), &["--json"]);
    let balanced = balancer.running.address.clone();
    let path = ["--rate", "8mbit", "--queue", "20", "--rebind-every", "500ms"];
    let link = Running::link(&balanced, &path);
    let (certificate, url) = (scratch.path("cert.pem"), balancer.running.url("large"));
    let download = ["get", "--quiet", "--ca", &certificate, "--connect", &link.address, &url];
    let mut download = clearway(&download).stdout(Stdio::piped()).spawn().unwrap();
    let mut content = vec![0; 400_000];
    download.stdout.as_mut().unwrap().read_exact(&mut content).unwrap();
    balancer.rewrite(&entries(&[0, 1]), "reloaded the backends: 3 servers, 2 configs");
    for (server, file, id) in &servers {
        fs::write(file, config_of_server(1, id)).unwrap();
        server.signal(Signal::HUP);
    }
    let mut rest = vec![0; 800_000];
    download.stdout.as_mut().unwrap().read_exact(&mut rest).unwrap();
    content.append(&mut rest);
    // The IDs of configuration 0 are retired by now.
    balancer.rewrite(&entries(&[1]), "reloaded the backends: 3 servers, 1 config");
    download.stdout.as_mut().unwrap().read_to_end(&mut content).unwrap();
    assert!(download.wait().unwrap().success());
    assert!(content == fs::read(scratch.path("a/large")).unwrap());
    let summary: serde_json::Value = serde_json::from_str(&balancer.running.interrupt()).unwrap();
    let count = |pointer: &str| summary.pointer(pointer).and_then(|it| it.as_u64()).unwrap();
    let by_server_id = count("/means/server_id");
    // Not all of these were sent: a send may fail, or a server's socket may be full.
    let others: u64 = ["flow", "learned", "address", "hash"]
        .map(|it| count(&format!("/means/{it}")))
        .iter()
        .sum();
    assert!(by_server_id > 50 && others < 20, "{summary}");
    // After the link has left a port, an ICMP message may take the place of the next datagram.
    assert!(count("/to_clients/dropped") < 10, "{summary}");
}

#[test]
fn a_server_behind_a_balancer_sees_the_address_of_its_client() {
    let scratch = scratch("balance-preface", &["a"]);
    let (root, certificate, key) =
        (scratch.path("a"), scratch.path("cert.pem"), scratch.path("key.pem"));
    let listen = ["serve", &root, "--listen", "127.0.0.1:0", "--balancer", "127.0.0.1"];
    let command = clearway(&[&listen[..], &["--cert", &certificate, "--key", &key]].concat());
    let server = Running::listening(command);
    let file = entry("a", &server, "").replace("preface = false", "preface = true");
    let balancer = Balancer::start(&scratch, &file, &[]);
    let balancer_address = balancer.running.address.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        // The client has a unique address.
        let endpoint = Endpoint::client("127.0.0.77:0".parse().unwrap()).unwrap();
        let config = ClientConfig::dangerous_without_certificate_verification();
        let config = config.application_protocols([PROTOCOL]);
        let client = Client::connect(&endpoint, &config, balancer_address, "localhost").await;
        let request = Request::get("https://localhost/who").body(()).unwrap();
        let response = client.unwrap().send(request).await.unwrap();
        assert_eq!(response.into_body().bytes(10).await.unwrap()[..], b"a"[..]);
        endpoint.local_address()
    });
    let log = server.interrupt();
    assert!(log.starts_with(&format!("{client} GET ")), "{log}");
}

#[test]
fn a_file_is_checked_and_shown() {
    let scratch = Scratch::new("balance-check");
    let file = scratch.path("backends.toml");
    let text = "[[config]]\nid = 0\nserver-id-length = 2\nnonce-length = 14\nkey = \"8f95f09245765f80256934e50c66207f\"\n\
                [[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\nserver-id = \"0a01\"\nweight = 3\n\
                [[server]]\nname = \"b\"\naddress = \"192.0.2.2:443\"\nserver-id = \"0a02\"\n\
                [[server]]\nname = \"c\"\naddress = \"192.0.2.3:443\"\nserver-id = \"0a03\"\ndrain = true\n";
    fs::write(&file, text).unwrap();
    let check = ["balance", "--check", "--backends", &file];
    let shown = String::from_utf8(succeed(&check).stdout).unwrap();
    let row = |name: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{shown}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("a"), "a 192.0.2.1:443 0: 0a01 yes 3 75.0 %");
    assert_eq!(row("b"), "b 192.0.2.2:443 0: 0a02 yes 1 25.0 %");
    assert_eq!(row("c"), "c 192.0.2.3:443 0: 0a03 yes 1 draining");
    assert_eq!(row("0"), "0 2 14 1 18 octets AES-128, one pass");
    let json = succeed(&[&check[..], &["--json"]].concat()).stdout;
    assert!(!String::from_utf8_lossy(&json).contains("8f95"), "a key is shown");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["servers"][0]["share_of_new_clients"], 0.75);
    assert_eq!(json["configs"][0]["connection_id_length"], 18);

    fs::write(&file, text.replace("0a02", "0a01")).unwrap();
    let line = fail(&check);
    assert!(
        line.starts_with(&format!("{file}:14:13: \"a\" and \"b\" have the same server ID")),
        "{line}"
    );
}

#[test]
fn a_balancer_that_cannot_start_says_why() {
    let scratch = Scratch::new("balance-fails");
    let file = scratch.path("backends.toml");
    let line = fail(&["balance", "--backends", &file]);
    assert!(line.contains(&file) && line.contains("cannot read the backends"), "{line}");
    fs::write(&file, "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\n").unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = fail(&["balance", "--backends", &file, "--listen", &address]);
    assert!(line.contains(&format!("cannot listen on UDP {address}")), "{line}");
    assert!(line.contains("--listen"), "{line}");
    for wrong in [["--shards", "0"], ["--ports", "0"], ["--idle", "0s"], ["--remember", "0"]] {
        let mut command = clearway(&["balance", "--backends", &file]);
        let output = command.args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

/// Every client must answer a Retry, including one that uses QUIC version 2. The server accepts the
/// token, and confirms it in its transport parameters, which clients check.
#[test]
fn new_clients_answer_a_retry_of_the_balancer() {
    let scratch = scratch("balance-retry", &["a"]);
    let keys = scratch.path("keys");
    fs::write(&keys, "5a".repeat(32)).unwrap();
    let more = ["--listen", "127.0.0.1:0", "--balancer", "127.0.0.1", "--ticket-keys", &keys];
    let server = serve(&scratch, "a", &more);
    let entry = entry("a", &server, "").replace("preface = false", "preface = true");
    let file = format!("{entry}[retry]\nabove = 0\n[health]\noff = true\n");
    let path = scratch.path("backends.toml");
    fs::write(&path, &file).unwrap();
    let said = fail(&["balance", "--listen", "127.0.0.1:0", "--backends", &path]);
    assert!(said.contains("with --ticket-keys"), "{said}");
    let options = ["--ticket-keys", &keys, "--metrics", "127.0.0.1:0"];
    let mut balancer = Balancer::start(&scratch, &file, &options);
    let line = balancer.wait_for("metrics are at ");
    let page = line.trim().strip_prefix("metrics are at ").unwrap().to_owned();
    let count = |name: &str| {
        let text = ureq::get(&page).call().unwrap().body_mut().read_to_string().unwrap();
        let values = text.lines().filter(|line| line.starts_with(name));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
    };
    let (certificate, url) = (scratch.path("cert.pem"), balancer.running.url("large"));
    let large = fs::read(scratch.path("a/large")).unwrap();
    for version in ["1", "2", "1", "2"] {
        let get = ["get", "--quiet", "--ca", &certificate, "--quic-version", version, &url];
        assert!(succeed(&get).stdout == large);
    }
    let tokens = |outcome: &str| {
        let all = [0, 1].map(|shard| {
            count(&format!(
                "clearway_balance_tokens_total{{shard=\"{shard}\",outcome=\"{outcome}\"}}"
            ))
        });
        all[0] + all[1]
    };
    assert!(tokens("valid") >= 4.0 && count("clearway_balance_retries_total") >= 4.0);
    assert_eq!(tokens("invalid"), 0.0);
    // Without the limit, no client receives a Retry.
    let before = count("clearway_balance_retries_total");
    balancer.rewrite(&file.replace("[retry]\nabove = 0\n", ""), "reloaded the backends");
    assert!(balancer.get(&scratch, "large") == large);
    assert_eq!(count("clearway_balance_retries_total"), before);
    // A file that requires keys would be rejected without them. Here the keys exist, so it is
    // accepted.
    balancer.rewrite(&file, "reloaded the backends");
}
