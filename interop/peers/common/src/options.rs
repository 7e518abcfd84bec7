use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use http::Uri;

/// Options of `server`.
#[derive(clap::Args, Clone, Debug)]
pub struct ServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Directory whose files are served.
    #[arg(long)]
    pub root: PathBuf,
    /// Certificate chain, PEM.
    #[arg(long)]
    pub cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    pub key: PathBuf,
    /// Directory for qlog files, one per connection.
    #[arg(long)]
    pub qlog: Option<PathBuf>,
    /// Respond to the first Initial packet of each client with a Retry packet (RFC 9000 section 8.1.2).
    #[arg(long)]
    pub retry: bool,
}

/// Options of `client`.
#[derive(clap::Args, Clone, Debug)]
pub struct ClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long, required_unless_present = "insecure")]
    pub ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long)]
    pub insecure: bool,
    /// File for the body; `-` is standard output (the summary then goes to standard error).
    #[arg(long, required_unless_present = "discard")]
    pub output: Option<PathBuf>,
    /// Only count the body, and check the bytes of `/zero/N`.
    #[arg(long, conflicts_with = "output")]
    pub discard: bool,
    /// Number of requests on one connection, at most 32 at a time; only the body of the first is written.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Address to connect to, instead of 127.0.0.1 and the URL's port.
    #[arg(long)]
    pub connect: Option<SocketAddr>,
    /// Directory for qlog files, one per connection.
    #[arg(long)]
    pub qlog: Option<PathBuf>,
    /// The URL to download: `https://localhost:PORT/path`.
    pub url: Uri,
}

/// The maximum number of concurrent requests of a client.
pub const PARALLEL: usize = 32;

impl ClientOptions {
    /// The server's name, for TLS and the request.
    pub fn host(&self) -> Result<&str> {
        self.url.host().context("the URL has no host")
    }

    /// The address that datagrams are sent to.
    pub fn address(&self) -> SocketAddr {
        let port = self.url.port_u16().unwrap_or(443);
        self.connect.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

/// A rate: operations per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "expected a number above 0".to_owned())
}
