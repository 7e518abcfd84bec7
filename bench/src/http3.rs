//! HTTP/3: the server generates `/zero/N` and checks what is posted to `/sink`, the client does the opposite.

mod client;
mod ids;
mod shard;
mod tasks;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clearway::QuicLb;
use clearway::http3::{Config, serve_in_shard};

pub(crate) use self::client::run as transfer;
use self::ids::Ids;
pub(crate) use self::shard::Generator;
use crate::options::Mtu;
use crate::{Outcome, attached, tls};

/// The application protocol.
pub(crate) const ALPN: &str = "h3";
/// The path to which content is posted.
const SINK: &str = "/sink";

#[derive(Args)]
#[group(id = "http3::ServerOptions")]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    server: crate::options::ServerOptions,
    /// Where requests are handled.
    #[arg(long, value_enum, default_value_t = Face::Shard)]
    face: Face,
    /// How many connections there may be at the same time; by default as many as the library's default.
    #[arg(long)]
    max_connections: Option<usize>,
    /// After how many seconds of silence a connection is lost.
    #[arg(long, default_value_t = 30)]
    idle_timeout: u64,
    /// How many shards share the port.
    #[arg(long, default_value = "1")]
    shards: NonZeroUsize,
    /// Take datagrams from the load balancer at this address only, which puts the client's address before each.
    #[arg(long, requires = "quic_lb")]
    balancer: Option<IpAddr>,
    /// Issue connection IDs that the load balancer can route.
    #[arg(long, value_name = "SERVER-ID:NONCE-LENGTH:KEY")]
    quic_lb: Option<Ids>,
    /// End when standard input ends, and with the face of the shard print what the shards have counted for each line of it.
    #[arg(long)]
    attached: bool,
}

/// The ways to write a server.
#[derive(Clone, Copy, ValueEnum)]
enum Face {
    /// On the shard's thread, by a `Handler`.
    Shard,
    /// In tasks on the shard's thread.
    Async,
    /// In tasks of a runtime, on another thread.
    Runtime,
}

pub(crate) fn serve(options: &ServerOptions, mtu: Mtu) -> Outcome {
    let server = &options.server;
    let idle_timeout = Duration::from_secs(options.idle_timeout);
    let mut config = tls::server(&server.cert, &server.key, ALPN, mtu, idle_timeout)?;
    if let Some(max) = options.max_connections {
        config = config.max_connections(max);
    }
    config = config.shards(options.shards).balancers(options.balancer);
    if let Some(Ids(ids)) = &options.quic_lb {
        config = config.quic_lb(QuicLb::clone(ids));
    }
    if options.attached && !matches!(options.face, Face::Shard) {
        attached::end_with_input();
    }
    match options.face {
        Face::Shard => {
            let handlers = |_: &_| Generator::default();
            let endpoint = serve_in_shard(server.listen, config, Config::default(), handlers)?;
            attached::serve(&endpoint, options.attached)
        }
        Face::Async => tasks::serve(server.listen, config, true),
        Face::Runtime => tasks::serve(server.listen, config, false),
    }
}

/// `N` of `/zero/N`.
fn size_of(path: &str) -> Option<u64> {
    path.strip_prefix("/zero/")?.parse().ok()
}
