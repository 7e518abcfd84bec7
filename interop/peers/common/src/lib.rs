//! Code shared by the Rust peers, so that they have the same command line and the same checks: the
//! options, the files that a server serves, and the data that a client counts, verifies and prints.

#![forbid(unsafe_code)]

mod handshakes;
mod interop;
mod load;
mod options;
mod pace;
mod raw;
mod resource;
mod sink;
mod source;
mod summary;

pub use handshakes::{HANDSHAKE_TIMEOUT, HandshakesOptions, HandshakesSummary, KeyExchange};
pub use interop::{HQ, Interop, InteropClient, InteropServer, UNSUPPORTED, hq_path};
pub use load::{LoadOptions, Schedule, Tally};
pub use options::{ClientOptions, DatagramOptions, PARALLEL, ServerOptions};
pub use pace::Pace;
pub use raw::{PERF, REQUEST_LEN, RawClientOptions, RawRequest, RawServerOptions};
pub use resource::{Resource, SINK, zero_length};
pub use sink::Sink;
pub use source::Source;
pub use summary::Summary;

/// Period of the generated content: byte `i` of `/zero/N` is `i mod 251`.
pub const PERIOD: usize = 251;

/// A whole number of pattern periods, so that every piece of a generated body starts at the
/// beginning of the pattern.
pub static PATTERN: [u8; PERIOD * 512] = pattern();

const fn pattern() -> [u8; PERIOD * 512] {
    let mut bytes = [0; PERIOD * 512];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = (index % PERIOD) as u8;
        index += 1;
    }
    bytes
}
