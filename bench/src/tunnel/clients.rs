//! Clients that use a proxy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use clearway::http3::{Client, Config};
use clearway::masque::target::{Host, Target};
use clearway::masque::{self, TunnelKind, UdpTunnel, UriTemplate};
use clearway::{ClientConfig, Endpoint, TransportConfig};
use http::{Request, StatusCode};

use crate::options::Mtu;
use crate::pattern::Sink;
use crate::{Outcome, http3, tls, transfer};

/// Idle timeout of connections to the proxy: idle tunnels must outlive the measurement.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Args)]
pub(crate) struct DownloadOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// The address of the proxy, if the download goes through one.
    #[arg(long)]
    proxy: Option<SocketAddr>,
    /// Number of bytes to download.
    #[arg(long)]
    size: u64,
}

#[derive(Args)]
pub(crate) struct IdleTunnelsOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the proxy, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// The target of the tunnels.
    #[arg(long)]
    target: SocketAddr,
    /// Number of connections to the proxy.
    #[arg(long)]
    connections: usize,
    /// Number of tunnels of each connection.
    #[arg(long)]
    tunnels: usize,
}

pub(super) async fn download(options: &DownloadOptions, mtu: Mtu) -> Outcome {
    let mut outer = None;
    let (endpoint, mtu) = match options.proxy {
        None => (Endpoint::client(transfer::local_address(options.connect))?, mtu),
        Some(proxy) => {
            let client = connect(&options.ca, proxy, mtu).await?;
            let tunnel = open(&client, proxy, options.connect).await?;
            let socket = tunnel.into_socket(([127, 0, 0, 1], 0).into(), options.connect);
            outer = Some(client);
            // The MTU inside depends on the one outside.
            (Endpoint::client_over(socket)?, Mtu::Discovered)
        }
    };
    let config = tls::client(&options.ca, http3::ALPN, mtu)?;
    let client = Client::connect(&endpoint, &config, options.connect, "localhost").await?;
    let began = Instant::now();
    let url = format!("https://localhost/zero/{}", options.size);
    let response = client.send(Request::get(url).body(())?).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server responded with status {}", response.status()).into());
    }
    let mut body = response.into_body();
    let mut sink = Sink::new();
    while let Some(chunk) = body.chunk().await {
        if !sink.accept(&chunk?) {
            return Err(format!("wrong bytes after {}", sink.received).into());
        }
    }
    let elapsed = began.elapsed();
    client.shutdown().await;
    endpoint.wait_idle().await;
    // Closes the tunnel, which is an open request of the connection to the proxy.
    drop((client, endpoint));
    if let Some(outer) = outer {
        outer.shutdown().await;
    }
    transfer::print(sink.received, elapsed);
    Ok(())
}

/// Opens the tunnels, prints `open N`, and keeps them until the process is killed.
pub(super) async fn hold(options: &IdleTunnelsOptions, mtu: Mtu) -> Outcome {
    let config = config(&options.ca, mtu)?;
    let endpoint = Endpoint::client(transfer::local_address(options.connect))?;
    let mut open_tunnels = Vec::new();
    for _ in 0..options.connections {
        let client = connect_at(&endpoint, &config, options.connect).await?;
        for _ in 0..options.tunnels {
            open_tunnels.push(open(&client, options.connect, options.target).await?);
        }
    }
    println!("open {}", open_tunnels.len());
    std::future::pending().await
}

fn config(ca: &Path, mtu: Mtu) -> Outcome<ClientConfig> {
    let config = ClientConfig::with_roots(tls::roots(ca)?).application_protocols([http3::ALPN]);
    Ok(config.transport(transport(mtu)?))
}

/// Returns the configuration of connections with tunnels.
pub(super) fn transport(mtu: Mtu) -> Outcome<TransportConfig> {
    let builder = masque::transport_config(tls::transport_builder(mtu, IDLE_TIMEOUT));
    // The size that the library chooses for tunnels would replace the one given.
    let builder = match mtu {
        Mtu::Fixed(size) => builder.initial_datagram_size(size.into()),
        Mtu::Discovered => builder,
    };
    Ok(builder.build()?)
}

async fn connect(ca: &Path, proxy: SocketAddr, mtu: Mtu) -> Outcome<Client> {
    let endpoint = Endpoint::client(transfer::local_address(proxy))?;
    connect_at(&endpoint, &config(ca, mtu)?, proxy).await
}

async fn connect_at(
    endpoint: &Endpoint,
    config: &ClientConfig,
    proxy: SocketAddr,
) -> Outcome<Client> {
    let http3 = Config { datagrams: true, ..Config::default() };
    Ok(Client::connect_with(endpoint, config, proxy, "localhost", http3).await?)
}

async fn open(client: &Client, proxy: SocketAddr, target: SocketAddr) -> Outcome<UdpTunnel> {
    let authority = format!("localhost:{}", proxy.port()).parse()?;
    let template = UriTemplate::well_known(TunnelKind::Udp, authority);
    let SocketAddr::V4(address) = target else { return Err("the target must be IPv4".into()) };
    let port = address.port().try_into()?;
    let target = Target { host: Host::V4(*address.ip()), port };
    Ok(client.connect_udp(&template, &target).await?)
}
