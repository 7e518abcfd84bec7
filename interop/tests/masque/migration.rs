//! Large downloads with `clearway get` through `clearway proxy` from other servers, while the
//! client's address changes and another proxy takes over from the first one.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{self, Peer, Server, Workspace};

/// Size of each download.
const SIZE: usize = 100_000_000;

/// The link options of the path to the proxy. The download takes at least five seconds at this
/// rate, in which the NAT in front of the client rebinds often.
const PATH: [&str; 8] = [
    "--delay",
    "2ms",
    "--to-client-rate",
    "160mbit",
    "--to-client-queue",
    "200",
    "--rebind-every",
    "600ms",
];

/// The client itself moves to another port after this time.
const MIGRATION: &str = "900ms";

/// Number of migrations before the proxy is replaced: both of the client itself and of the NAT.
const MIGRATIONS: f64 = 3.0;

/// Number of bytes that have been relayed when the proxy is replaced: a tenth of the download.
const RELAYED: f64 = 1e7;

/// Time limit for programs to start, and for the first part of the download.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of ports to try for a server that cannot choose one itself.
const PORTS: usize = 16;

/// Caddy, which serves the workspace's files.
struct Caddy {
    child: Child,
    address: String,
}

impl Caddy {
    /// Starts the server at a port that is free for both UDP and TCP. Another program may take the
    /// port before the server does.
    fn start(peer: &Peer, workspace: &Workspace) -> Self {
        for _ in 0..PORTS {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP socket");
            let address = socket.local_addr().expect("an address");
            if TcpListener::bind(address).is_err() {
                continue;
            }
            drop(socket);
            let file = workspace.path("Caddyfile");
            fs::write(&file, configuration(workspace, address.port())).expect("Caddyfile");
            let mut command = peer.command();
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
            command.env("XDG_DATA_HOME", workspace.path("data"));
            command.env("XDG_CONFIG_HOME", workspace.path("config"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let mut caddy = Self { child, address: address.to_string() };
            if caddy.is_ready() {
                return caddy;
            }
        }
        panic!("caddy does not start");
    }

    /// Waits until the server accepts connections. Returns `false` if it has exited.
    fn is_ready(&mut self) -> bool {
        let begun = Instant::now();
        while self.child.try_wait().expect("the server's status").is_none() {
            if TcpStream::connect(&self.address).is_ok() {
                return true;
            }
            assert!(begun.elapsed() < LIMIT, "caddy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(workspace: &Workspace, port: u16) -> String {
    let [certificate, key, root] = ["cert.pem", "key.pem", "root"].map(|name| workspace.text(name));
    format!(
        "{{
    admin off
    auto_https off
    servers {{
        protocols h1 h2 h3
    }}
}}
https://localhost:{port} {{
    bind 127.0.0.1
    tls {certificate} {key}
    root * {root}
    file_server
}}\n"
    )
}

/// Returns a proxy that replaces the one at the same socket, if there is one.
fn proxy(workspace: &Workspace, listen: &str) -> Command {
    let mut command = support::clearway();
    command.args(["proxy", "--listen", listen, "--quiet", "--metrics", "127.0.0.1:0"]);
    command.args(["--allow", "localhost", "--allow", "127.0.0.0/8"]);
    command.args(["--cert", &workspace.text("cert.pem"), "--key", &workspace.text("key.pem")]);
    command.args(["--hot-restart", &workspace.text("restart")]);
    command
}

/// Downloads the file through the proxy at `proxy`.
fn download(workspace: &Workspace, proxy: &str, server: &str) {
    let certificate = workspace.text("cert.pem");
    let mut command = support::clearway();
    command.args(["get", "--proxy", &format!("https://{}", super::named(proxy))]);
    command.args(["--proxy-ca", &certificate, "--ca", &certificate]);
    command.args(["--rebind-after", MIGRATION]);
    command.arg("--output").arg(workspace.path("downloaded")).arg(support::url(server));
    support::succeed(command);
}

/// Waits until a part of the download has passed the proxy, and the client has migrated.
fn await_migrations(metrics: &str) {
    let begun = Instant::now();
    while support::metric(metrics, "clearway_proxy_relayed_bytes_total") < RELAYED
        || support::metric(metrics, "clearway_quic_migrations_total") < MIGRATIONS
    {
        assert!(begun.elapsed() < LIMIT, "the client does not migrate");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Downloads from `server`, and replaces the proxy meanwhile. The first proxy continues the
/// connection, whose packets the second one forwards.
fn download_and_replace(workspace: &Workspace, server: &str) {
    let (first, metrics) = Server::start_with_metrics(&mut proxy(workspace, "127.0.0.1:0"));
    let path = support::clearway_link(&first.address, &PATH);
    std::thread::scope(|scope| {
        let downloading = scope.spawn(|| download(workspace, &path.address, server));
        await_migrations(&metrics);
        let (_second, metrics) = Server::start_with_metrics(&mut proxy(workspace, &first.address));
        assert!(!workspace.path("downloaded").exists(), "the download was too fast");
        downloading.join().expect("the download succeeds");
        let forwarded = support::metric(&metrics, "clearway_quic_datagrams_forwarded_out_total");
        assert!(forwarded > 0.0, "the second proxy received nothing for the first one");
    });
    workspace.assert_same(&workspace.path("downloaded"));
}

#[test]
fn a_download_from_caddy_survives_migrations_and_a_restart() {
    let Some(peer) = Peer::find("caddy") else { return };
    let workspace = Workspace::new("masque-caddy-restart", SIZE);
    let caddy = Caddy::start(&peer, &workspace);
    download_and_replace(&workspace, &caddy.address);
}

#[test]
fn a_download_from_quic_go_survives_migrations_and_a_restart() {
    let Some(peer) = Peer::find("quic-go") else { return };
    let workspace = Workspace::new("masque-quic-go-restart", SIZE);
    let server = peer.serve(&workspace);
    download_and_replace(&workspace, &server.address);
}
