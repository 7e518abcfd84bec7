//! Raw streams (ALPN "perf", draft-banks-quic-performance): on a bidirectional stream, a client
//! sends the number of bytes to download, followed by its upload. After the end of the upload, the
//! server sends the requested bytes.

mod client;
mod server;
pub(crate) mod stream;
mod tasks;

use crate::options::{Mtu, RawClientOptions, RawFace, RawServerOptions};
use crate::{Outcome, attached, tls};

/// The ALPN protocol of raw streams.
pub(crate) const ALPN: &str = "perf";
/// Size in bytes of the number that a client sends first.
pub(crate) const REQUEST_LEN: usize = 8;
/// Maximum number of concurrent handshakes.
const OPENING: usize = 32;

/// The data that a client transfers on each connection.
#[derive(Clone, Copy)]
struct Transfer {
    /// Number of bytes to download on the connection.
    asked: u64,
    /// Number of bytes to upload on the connection.
    uploaded: u64,
}

pub(crate) fn serve(options: &RawServerOptions, mtu: Mtu) -> Outcome {
    let RawServerOptions { server, many, face } = options;
    let config = tls::server(&server.cert, &server.key, ALPN, mtu, many.idle_timeout())?;
    let config = many.apply(config);
    if many.attached && !matches!(face, RawFace::Shard) {
        attached::end_with_input();
    }
    match face {
        RawFace::Shard => server::serve(server.listen, config, many.attached),
        RawFace::Async => tasks::serve(server.listen, config),
    }
}

pub(crate) fn transfer(options: &RawClientOptions, mtu: Mtu) -> Outcome {
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let transfer = match options.upload {
        true => Transfer { asked: 0, uploaded: options.bytes },
        false => Transfer { asked: options.bytes, uploaded: 0 },
    };
    let count = options.connections.get();
    let elapsed = match options.face {
        RawFace::Shard => client::run(&config, options.address, count, transfer)?,
        RawFace::Async => tasks::run(&config, options.address, count, transfer)?,
    };
    crate::transfer::print(options.bytes * count as u64, elapsed);
    Ok(())
}
