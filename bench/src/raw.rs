//! Raw streams (ALPN "perf", draft-banks-quic-performance): on a bidirectional stream a client sends how many bytes it wants
//! to have, then what it uploads; after the end of that the server sends what was asked for.

mod client;
mod server;
pub(crate) mod stream;
mod tasks;

use crate::options::{Mtu, RawClientOptions, RawFace, RawServerOptions};
use crate::{Outcome, attached, tls};

/// The application protocol.
pub(crate) const ALPN: &str = "perf";
/// The size of the number that a client sends first.
pub(crate) const REQUEST_LEN: usize = 8;
/// Connections that are being opened at the same time.
const OPENING: usize = 32;

/// What a client transfers on each connection.
#[derive(Clone, Copy)]
struct Transfer {
    /// How many bytes it asks for.
    asked: u64,
    /// How many bytes it sends.
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
