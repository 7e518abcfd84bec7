//! The servers of Clearway and of the peers. Each is started for one test.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

use super::Bench;
use super::files::QLOG;
use super::problem::Problem;
use crate::bounded::Server as Process;

/// Maximum number of ports to try when looking for a free one.
const PORTS_TRIED: usize = 16;

/// The prefix of errors that are caused by the test setup.
pub(crate) const NOT_STARTED: &str = "the server does not start";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    /// The program `clearway serve`.
    Serve,
    /// The library's example server `peer`.
    Library,
    Nginx,
    Haproxy,
    Caddy,
}

/// A special server behavior that a test needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variant {
    Usual,
    /// Validates every client address with a Retry packet.
    Retry,
    /// Initiates key updates often.
    KeyUpdate,
    /// Prefers QUIC version 2 over version 1.
    Version2,
}

/// A running server under test.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
}

impl Server {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Library => "library",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
        }
    }

    /// Returns whether this is a Clearway server.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Serve | Self::Library)
    }

    /// Starts the server, and waits until it is ready.
    pub(crate) fn start(self, bench: &Bench, variant: Variant) -> Result<Site, Problem> {
        let address = free_address()?;
        let command = match self {
            Self::Serve => serve(bench, address, variant),
            Self::Library => library(bench, address, variant),
            Self::Nginx => nginx(bench, address, variant)?,
            Self::Haproxy => haproxy(bench, address, variant)?,
            Self::Caddy => caddy(bench, address, variant)?,
        };
        let log = bench.folder.join(format!("{}.log", self.name()));
        let mut process = Process::start(command, &log)?;
        let is_ready = match self.is_ours() {
            true => process.wait(|log| log.contains("listening")),
            false => process.wait_for_tcp(address),
        };
        is_ready.map_err(|error| format!("{NOT_STARTED}: {error}"))?;
        Ok(Site { address, process })
    }
}

/// Returns an address whose port is free for both UDP and TCP. The kernel assigns ports of closed
/// TCP connections to UDP sockets.
fn free_address() -> Result<SocketAddr, String> {
    let failed = |error: io::Error| format!("cannot find a free port: {error}");
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORTS_TRIED {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn serve(bench: &Bench, address: SocketAddr, variant: Variant) -> Command {
    let mut command = Command::new(&bench.program);
    command.arg("serve").arg(bench.files.path("www"));
    command.args(["--listen", &address.to_string(), "--cert", &bench.files.path("chain.pem")]);
    command.args(["--key", &bench.files.path("key.pem"), "--qlog", &bench.files.path(QLOG)]);
    command.args(match variant {
        Variant::Usual => &[][..],
        Variant::Retry => &["--retry"],
        Variant::KeyUpdate => &["--key-update-after", "200"],
        Variant::Version2 => &["--quic-versions", "2,1"],
    });
    command
}

fn library(bench: &Bench, address: SocketAddr, variant: Variant) -> Command {
    let mut command = Command::new(&bench.example);
    command.args(["server", &address.to_string()]);
    command.args(["chain.pem", "key.pem", "www"].map(|name| bench.files.path(name)));
    command.args(match variant {
        Variant::Usual => &[][..],
        Variant::Retry => &["retry"],
        Variant::KeyUpdate => &["key-update"],
        Variant::Version2 => &["v2"],
    });
    command
}

/// Writes a configuration file into the chroot, and returns its path there.
fn configure(bench: &Bench, name: &str, text: &str) -> Result<String, String> {
    let path = bench.files.folder.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(bench.chroot.inside(name))
}

fn nginx(bench: &Bench, address: SocketAddr, variant: Variant) -> Result<Command, Problem> {
    let (port, backend) = (address.port(), bench.backend);
    let retry = match variant {
        Variant::Usual => "off",
        Variant::Retry => "on",
        Variant::KeyUpdate => return Err(Problem::Unsupported("nginx never starts a key update")),
        Variant::Version2 => return Err(Problem::Unsupported("nginx only supports version 1")),
    };
    let shared = bench.chroot.inside("");
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places = places.map(|name| format!("{name}_temp_path {shared}nginx-{name};\n"));
    let text = format!(
        "daemon off; master_process off; user root; pid {shared}nginx.pid;
        error_log stderr info;
        events {{ worker_connections 1024; }}
        http {{
            access_log off; client_max_body_size 100m;
            {}
            map $http_te $passes_hints {{ default 1; }}
            server {{
                listen 127.0.0.1:{port} quic reuseport; listen 127.0.0.1:{port} ssl;
                http3 on; quic_retry {retry}; ssl_early_data on;
                ssl_certificate {shared}chain.pem; ssl_certificate_key {shared}key.pem;
                root {shared}www; add_header x-early $ssl_early_data;
                location = /early {{ return 401; }}
                location /back/ {{
                    proxy_pass http://{backend}; proxy_http_version 1.1;
                    proxy_request_buffering off; proxy_pass_trailers on; early_hints $passes_hints;
                    proxy_set_header TE trailers; proxy_set_header Connection TE;
                }}
            }}
        }}\n",
        places.concat()
    );
    let file = configure(bench, "nginx.conf", &text)?;
    let mut command = bench.chroot.program("nginx");
    command.args(["-e", "stderr", "-c", &file]);
    Ok(command)
}

fn haproxy(bench: &Bench, address: SocketAddr, variant: Variant) -> Result<Command, Problem> {
    let (port, backend) = (address.port(), bench.backend);
    let both = bench.chroot.inside("both.pem");
    let retry = match variant {
        Variant::Usual | Variant::Version2 => "",
        Variant::Retry => " quic-force-retry",
        Variant::KeyUpdate => {
            return Err(Problem::Unsupported("haproxy never starts a key update"));
        }
    };
    // HAProxy serves no files, so Clearway's own backend runs behind it.
    let text = format!(
        "global
    maxconn 2000
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend peers
    bind quic4@127.0.0.1:{port} ssl crt {both} alpn h3 allow-0rtt{retry}
    bind 127.0.0.1:{port} ssl crt {both} alpn h2,http/1.1
    http-request return status 401 if {{ path /early }}
    http-response set-header x-early %[ssl_fc_has_early]
    default_backend back
backend back
    server back {backend}\n"
    );
    let file = configure(bench, "haproxy.cfg", &text)?;
    let mut command = bench.chroot.program("haproxy");
    command.args(["-db", "-f", &file]);
    Ok(command)
}

fn caddy(bench: &Bench, address: SocketAddr, variant: Variant) -> Result<Command, Problem> {
    let (port, backend, shared) = (address.port(), bench.backend, bench.chroot.inside(""));
    match variant {
        Variant::Usual | Variant::Version2 => {}
        Variant::Retry => return Err(Problem::Unsupported("caddy has no option for Retry")),
        Variant::KeyUpdate => {
            return Err(Problem::Unsupported("caddy has no option for key updates"));
        }
    }
    let text = format!(
        "{{
    admin off
    auto_https off
    servers {{
        protocols h1 h2 h3
    }}
}}
https://localhost:{port} {{
    bind 127.0.0.1
    tls {shared}chain.pem {shared}key.pem
    handle /early {{
        respond 401
    }}
    handle /back/* {{
        reverse_proxy {backend}
    }}
    handle {{
        root * {shared}www
        file_server
    }}
}}\n"
    );
    let file = configure(bench, "Caddyfile", &text)?;
    let mut command = bench.chroot.program("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config", &file]);
    Ok(command)
}
