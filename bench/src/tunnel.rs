//! Parts of `cargo xtask bench tunnel`: a proxy for UDP, and its clients.

mod clients;
mod proxy;

use clap::Subcommand;

use crate::Outcome;
use crate::options::Mtu;

#[derive(Subcommand)]
pub(crate) enum Part {
    /// Serve UDP tunnels to targets on loopback.
    Proxy(proxy::ProxyOptions),
    /// Download over HTTP/3, directly or through a tunnel.
    Download(clients::DownloadOptions),
    /// Open tunnels, and keep them open until this program is killed.
    Idle(clients::IdleTunnelsOptions),
}

pub(crate) fn run(part: &Part, mtu: Mtu) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().worker_threads(1).build()?;
    match part {
        Part::Proxy(options) => runtime.block_on(proxy::run(options, mtu)),
        Part::Download(options) => runtime.block_on(clients::download(options, mtu)),
        Part::Idle(options) => runtime.block_on(clients::hold(options, mtu)),
    }
}
