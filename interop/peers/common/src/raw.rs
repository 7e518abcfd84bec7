//! Transfers on streams without HTTP (ALPN `perf`, the protocol of draft-banks-quic-performance): a client sends how many
//! bytes it wants, then what it uploads; the server reads to the end, then sends what was asked for.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::{Sink, Source};

/// The application protocol of raw streams.
pub const PERF: &[u8] = b"perf";
/// The size of the number with which a client's stream begins, in bytes.
pub const REQUEST_LEN: usize = 8;

/// Options of `raw-server`.
#[derive(clap::Args, Clone, Debug)]
pub struct RawServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Certificate chain, PEM.
    #[arg(long)]
    pub cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    pub key: PathBuf,
    /// Directory for qlog files, one per connection, where the library writes them.
    #[arg(long)]
    pub qlog: Option<PathBuf>,
}

/// Options of `raw-client`.
#[derive(clap::Args, Clone, Debug)]
pub struct RawClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long, required_unless_present = "insecure")]
    pub ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long)]
    pub insecure: bool,
    /// Number of bytes to ask for, or to upload, on each stream.
    #[arg(long)]
    pub bytes: u64,
    /// Upload the bytes, and ask for none.
    #[arg(long)]
    pub upload: bool,
    /// Number of concurrent streams on each connection.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Number of connections; all are open before the first transfer starts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub connections: u64,
    /// Directory for qlog files, one per connection, where the library writes them.
    #[arg(long)]
    pub qlog: Option<PathBuf>,
    /// The address of the server, whose certificate must be for `localhost`.
    pub address: SocketAddr,
}

impl RawClientOptions {
    /// The certificate to trust; `None` trusts any.
    pub fn trusted(&self) -> Option<&Path> {
        self.ca.as_deref().filter(|_| !self.insecure)
    }

    /// How many bytes each stream asks for.
    pub fn asked(&self) -> u64 {
        if self.upload { 0 } else { self.bytes }
    }

    /// How many bytes each stream uploads.
    pub fn uploaded(&self) -> u64 {
        if self.upload { self.bytes } else { 0 }
    }
}

/// What a client sends on a raw stream.
pub struct RawRequest {
    asked: Vec<u8>,
    sink: Sink,
}

impl RawRequest {
    /// Nothing so far.
    pub fn new() -> Self {
        Self { asked: Vec::new(), sink: Sink::of_upload(None) }
    }

    /// Receives the next bytes of the stream. Returns an error if uploaded bytes are wrong.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let missing = REQUEST_LEN - self.asked.len();
        let (asked, uploaded) = bytes.split_at(missing.min(bytes.len()));
        self.asked.extend_from_slice(asked);
        self.sink.take(uploaded)
    }

    /// Receives the end of the stream, and returns what to answer.
    pub fn finish(&self) -> Result<Source> {
        let asked = <[u8; REQUEST_LEN]>::try_from(self.asked.as_slice());
        ensure!(asked.is_ok(), "the stream ended before the {REQUEST_LEN} bytes of a request");
        Ok(Source::new(asked.map_or(0, u64::from_be_bytes)))
    }
}

impl Default for RawRequest {
    fn default() -> Self {
        Self::new()
    }
}
