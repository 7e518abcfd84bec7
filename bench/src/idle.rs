//! Many connections that are idle after one request each, to measure a server's memory per
//! connection.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clearway::http3::Client;
use http::{Request, StatusCode};

use crate::options::Mtu;
use crate::{Outcome, clients, http3, tls};

#[derive(Args)]
pub(crate) struct IdleOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of connections.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Bytes in the response to each connection's request.
    #[arg(long, default_value_t = 1024)]
    size: u64,
}

/// Opens the connections, prints `open N`, and keeps them until the process is killed.
pub(crate) fn run(options: &IdleOptions, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let work = async {
        let config = tls::client(&options.ca, http3::ALPN, mtu)?;
        let clients = clients::connect(config, options.connect, options.connections).await?;
        for client in &clients {
            ask(client, options.size).await?;
        }
        println!("open {}", clients.len());
        std::future::pending().await
    };
    runtime.block_on(tokio::task::LocalSet::new().run_until(work))
}

async fn ask(client: &Client, size: u64) -> Outcome {
    let url = format!("https://localhost/zero/{size}");
    let mut response = client.send(Request::get(url).body(())?).await?;
    let length = response.body_mut().bytes(usize::MAX).await?.len();
    if response.status() != StatusCode::OK || length as u64 != size {
        return Err(format!("status {}, {length} of {size} bytes", response.status()).into());
    }
    Ok(())
}
