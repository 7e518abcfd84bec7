//! A digest of all datagrams sent in a run.

use core::fmt::Write;
use std::net::SocketAddr;

use aws_lc_rs::digest::{Context, SHA256};
use clearway_units::Timestamp;

use crate::end::{EndId, Side};

/// A SHA-256 digest of every datagram in send order: its time, sender, destination port and
/// payload.
#[derive(Clone)]
pub struct Digest {
    context: Context,
    /// Whether the payload is covered. Real TLS has its own source of randomness, so with it only
    /// times and sizes are covered.
    covers_bytes: bool,
    datagrams: u64,
}

impl Digest {
    /// Creates the digest of a run in which nothing has been sent yet. `covers_bytes` states
    /// whether the seed determines the datagrams' contents.
    pub fn new(covers_bytes: bool) -> Self {
        Self { context: Context::new(&SHA256), covers_bytes, datagrams: 0 }
    }

    /// Adds a sent datagram.
    pub fn add(&mut self, now: Timestamp, from: EndId, to: SocketAddr, payload: &[u8]) {
        self.datagrams += 1;
        self.context.update(&now.as_nanos().to_be_bytes());
        self.context.update(&(from.flow as u64).to_be_bytes());
        self.context.update(&[u8::from(from.side == Side::Server)]);
        self.context.update(&to.port().to_be_bytes());
        self.context.update(&(payload.len() as u64).to_be_bytes());
        if self.covers_bytes {
            self.context.update(payload);
        }
    }

    /// Returns the digest so far, in hexadecimal.
    pub fn value(&self) -> String {
        let mut text = String::new();
        for byte in self.context.clone().finish().as_ref() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Returns the number of datagrams that the digest covers.
    pub const fn datagrams(&self) -> u64 {
        self.datagrams
    }
}
