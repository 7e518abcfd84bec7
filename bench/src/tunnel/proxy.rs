//! A proxy with a fixed datagram size. It otherwise does the same as `clearway proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clearway::http3::{Config, Server};
use clearway::masque::limits::Limits;
use clearway::masque::policy::Policy;
use clearway::masque::{Proxy, ProxyOptions as Settings};

use super::clients;
use crate::options::Mtu;
use crate::{Outcome, attached, http3, tls};

#[derive(Args)]
#[group(id = "tunnel::ProxyOptions")]
pub(crate) struct ProxyOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddr,
    /// Certificate chain, PEM.
    #[arg(long)]
    cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    key: PathBuf,
}

pub(super) async fn run(options: &ProxyOptions, mtu: Mtu) -> Outcome {
    attached::end_with_input();
    let (cert, key) = (&options.cert, &options.key);
    let config = tls::server(cert, key, http3::ALPN, mtu, clients::IDLE_TIMEOUT)?
        .transport(clients::transport(mtu)?);
    let http3 = Config { extended_connect: true, datagrams: true, ..Config::default() };
    let server = Server::bind_with(options.listen, config, http3)?;
    let mut settings = Settings::default();
    settings.policy = Policy::default().with_rule("allow 127.0.0.0/8".parse()?);
    settings.limits = Limits { tunnels: 100_000, tunnels_per_client: 100_000, ..Limits::default() };
    let proxy = Proxy::new(settings);
    println!("listening {}", server.local_address());
    while let Some((request, responder)) = server.accept().await {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.serve(request, responder).await });
    }
    Ok(())
}
