//! HTTP/3 endpoints. The server generates the content of `/zero/N` and checks uploads to `/sink`;
//! the client does the opposite.

mod client;
mod shard;
mod tasks;

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use clearway::http3::{Config, serve_in_shard};

pub(crate) use self::client::run as transfer;
pub(crate) use self::shard::Generator;
use crate::options::{BusyPollOptions, ManyOptions, Mtu};
use crate::{Outcome, attached, tls};

/// The ALPN protocol of HTTP/3.
pub(crate) const ALPN: &str = "h3";
/// The path for uploads.
const SINK: &str = "/sink";

#[derive(Args)]
#[group(id = "http3::ServerOptions")]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    server: crate::options::ServerOptions,
    /// Where requests are handled.
    #[arg(long, value_enum, default_value_t = Face::Shard)]
    face: Face,
    #[command(flatten)]
    many: ManyOptions,
    #[command(flatten)]
    busy_poll: BusyPollOptions,
    /// Number of shards that share the port.
    #[arg(long, default_value = "1")]
    shards: NonZeroUsize,
}

/// The APIs for writing a server.
#[derive(Clone, Copy, ValueEnum)]
enum Face {
    /// On the shard's thread, by a `Handler`.
    Shard,
    /// In tasks on the shard's thread.
    Async,
    /// In tasks of a tokio runtime, on another thread.
    Runtime,
}

pub(crate) fn serve(options: &ServerOptions, mtu: Mtu) -> Outcome {
    let server = &options.server;
    let many = &options.many;
    let config = tls::server(&server.cert, &server.key, ALPN, mtu, many.idle_timeout())?;
    let config = many.apply(config).shards(options.shards);
    if many.attached && !matches!(options.face, Face::Shard) {
        attached::end_with_input();
    }
    match options.face {
        Face::Shard => {
            let handlers = |_: &_| Generator::default();
            let endpoint = serve_in_shard(server.listen, config, Config::default(), handlers)?;
            options.busy_poll.apply(&endpoint);
            attached::serve(&endpoint, many.attached)
        }
        Face::Async => tasks::serve(server.listen, config, &options.busy_poll, true),
        Face::Runtime => tasks::serve(server.listen, config, &options.busy_poll, false),
    }
}

/// Returns the `N` in a path of the form `/zero/N`.
fn size_of(path: &str) -> Option<u64> {
    path.strip_prefix("/zero/")?.parse().ok()
}
