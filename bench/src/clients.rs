//! HTTP/3 client connections.

use std::net::SocketAddr;

use clearway::http3::Client;
use clearway::{ClientConfig, Endpoint};

use crate::{Outcome, transfer};

/// Maximum number of concurrent handshakes.
const OPENING: usize = 32;

/// Opens `count` connections to `remote` over a single socket.
pub(crate) async fn connect(
    config: ClientConfig,
    remote: SocketAddr,
    count: usize,
) -> Outcome<Vec<Client>> {
    let endpoint = Endpoint::client(transfer::local_address(remote))?;
    connect_at(&endpoint, config, remote, count).await
}

/// Like [`connect`], on a given endpoint.
pub(crate) async fn connect_at(
    endpoint: &Endpoint,
    config: ClientConfig,
    remote: SocketAddr,
    count: usize,
) -> Outcome<Vec<Client>> {
    let mut clients = Vec::new();
    while clients.len() < count {
        let opening: Vec<_> = (clients.len()..count)
            .take(OPENING)
            .map(|_| {
                let (endpoint, config) = (endpoint.clone(), config.clone());
                tokio::task::spawn_local(async move {
                    Client::connect(&endpoint, &config, remote, "localhost").await
                })
            })
            .collect();
        for client in opening {
            clients.push(client.await??);
        }
    }
    Ok(clients)
}

/// Shuts down all connections concurrently, because each shutdown takes a few probe timeouts.
pub(crate) async fn shut_down(clients: Vec<Client>) -> Outcome {
    let shut_down =
        |client: Client| tokio::task::spawn_local(async move { client.shutdown().await });
    let all: Vec<_> = clients.into_iter().map(shut_down).collect();
    for one in all {
        one.await?;
    }
    Ok(())
}
