//! Transfers on streams without HTTP (ALPN `perf`, the protocol of draft-banks-quic-performance): a
//! client sends the number of bytes to download, followed by its upload. The server reads the
//! stream to the end, and then sends the requested bytes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::{Sink, Source};

/// The ALPN protocol of raw streams.
pub const PERF: &[u8] = b"perf";
/// Size in bytes of the number at the beginning of a client's stream.
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
    /// Directory for qlog files, one per connection, if the library supports them.
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
    /// Number of bytes to request, or to upload, on each stream.
    #[arg(long)]
    pub bytes: u64,
    /// Upload the bytes instead of requesting them.
    #[arg(long)]
    pub upload: bool,
    /// Number of concurrent streams on each connection.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Number of connections; all are open before the first transfer starts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub connections: u64,
    /// Directory for qlog files, one per connection, if the library supports them.
    #[arg(long)]
    pub qlog: Option<PathBuf>,
    /// The address of the server, whose certificate must be for `localhost`.
    pub address: SocketAddr,
}

impl RawClientOptions {
    /// Returns the file with the certificates to trust; `None` accepts any certificate.
    pub fn trusted(&self) -> Option<&Path> {
        self.ca.as_deref().filter(|_| !self.insecure)
    }

    /// Returns the number of bytes that each stream downloads.
    pub fn asked(&self) -> u64 {
        if self.upload { 0 } else { self.bytes }
    }

    /// Returns the number of bytes that each stream uploads.
    pub fn uploaded(&self) -> u64 {
        if self.upload { self.bytes } else { 0 }
    }
}

/// The part of a client's request on a raw stream that has been received so far.
pub struct RawRequest {
    asked: [u8; REQUEST_LEN],
    asked_received: usize,
    position: u64,
    sink: Sink,
}

impl RawRequest {
    /// Creates an empty request.
    pub fn new() -> Self {
        let sink = Sink::of_upload(None);
        Self { asked: [0; REQUEST_LEN], asked_received: 0, position: 0, sink }
    }

    /// Receives the next bytes of the stream. Returns an error if uploaded bytes are wrong.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.take_at(self.position, bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Receives bytes that start at stream offset `position`. The order is arbitrary, but each byte
    /// must be passed only once.
    pub fn take_at(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        let start = position.min(REQUEST_LEN as u64) as usize;
        let (asked, uploaded) = bytes.split_at(bytes.len().min(REQUEST_LEN - start));
        self.asked[start..start + asked.len()].copy_from_slice(asked);
        self.asked_received += asked.len();
        if uploaded.is_empty() {
            return Ok(());
        }
        self.sink.take_at(position + asked.len() as u64 - REQUEST_LEN as u64, uploaded)
    }

    /// Handles the end of the stream, and returns the response.
    pub fn finish(&self) -> Result<Source> {
        ensure!(
            self.asked_received == REQUEST_LEN,
            "the stream ended before the {REQUEST_LEN} bytes of the request"
        );
        Ok(Source::new(u64::from_be_bytes(self.asked)))
    }
}

impl Default for RawRequest {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PATTERN;

    fn stream() -> Vec<u8> {
        [&700_u64.to_be_bytes()[..], &PATTERN[..1000]].concat()
    }

    fn length(source: Source) -> usize {
        source.map(|piece| piece.len()).sum()
    }

    #[test]
    fn a_request_is_read_in_pieces_of_any_size_and_order() -> Result<()> {
        let stream = stream();
        for size in [1, 3, 8, 9, 1008] {
            let mut request = RawRequest::new();
            for piece in stream.chunks(size) {
                request.take(piece)?;
            }
            assert_eq!(length(request.finish()?), 700);
            let mut request = RawRequest::new();
            for (number, piece) in stream.chunks(size).enumerate().rev() {
                request.take_at((number * size) as u64, piece)?;
            }
            assert_eq!(length(request.finish()?), 700);
        }
        Ok(())
    }

    #[test]
    fn a_short_request_and_a_wrong_upload_are_noticed() -> Result<()> {
        let stream = stream();
        let mut request = RawRequest::new();
        request.take(&stream[..7])?;
        assert!(request.finish().is_err());
        assert!(request.take(&[stream[7], 1]).is_err());
        Ok(())
    }
}
