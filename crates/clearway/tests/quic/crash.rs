//! Tests of a server that disappears without closing its connections, and is replaced by another
//! server with the same keys.

use std::net::SocketAddr;
use std::time::Duration;

use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, ConnectionError, Endpoint, EndpointError, ServerConfig, TicketKeys};
use tokio::net::UdpSocket;
use tokio::sync::watch;

use crate::support::{Identity, PROTOCOL, code, identity, loopback, run};

/// Creates a path to `server` that drops the server's datagrams while `is_lost` is set.
async fn path_to(server: SocketAddr, is_lost: watch::Receiver<bool>) -> SocketAddr {
    let to_client = UdpSocket::bind(loopback()).await.unwrap();
    let to_server = UdpSocket::bind(loopback()).await.unwrap();
    let address = to_client.local_addr().unwrap();
    tokio::spawn(async move {
        let mut client = None;
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                Ok((length, from)) = to_client.recv_from(&mut up) => {
                    client = Some(from);
                    // While there is no server, datagrams are lost.
                    let _ = to_server.send_to(&up[..length], server).await;
                }
                received = to_server.recv_from(&mut down) => {
                    let is_lost = *is_lost.borrow();
                    if let (Ok((length, _)), Some(client), false) = (received, client, is_lost) {
                        let _ = to_client.send_to(&down[..length], client).await;
                    }
                }
            }
        }
    });
    address
}

/// Changes a server's configuration.
type Configure = fn(ServerConfig) -> ServerConfig;

fn serve(
    identity: &Identity,
    at: SocketAddr,
    configure: Configure,
) -> Result<Endpoint, EndpointError> {
    let config = ServerConfig::new(vec![identity.certificate.clone()], identity.key.clone_key())
        .application_protocols([PROTOCOL]);
    Endpoint::server(at, configure(config))
}

/// Starts a server at this address, which another server may not have released yet.
async fn serve_again(identity: &Identity, at: SocketAddr, configure: Configure) -> Endpoint {
    loop {
        match serve(identity, at, configure) {
            Ok(server) => return server,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Returns how a client's connection ends if its server is gone and another server takes over its
/// address with these settings; `None` if the connection does not end within two seconds.
async fn end_after(before: Configure, after: Configure) -> Option<ConnectionError> {
    let identity = identity();
    let free = std::net::UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let server = serve(&identity, free, before).unwrap();
    let (lose, is_lost) = watch::channel(false);
    let path = path_to(free, is_lost).await;
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(&config, path, "localhost").unwrap();
    let (client, accepted) = tokio::join!(connecting, async { server.accept().await?.await.ok() });
    let client = client.unwrap();
    // The handshake is confirmed once this has arrived.
    let mut ready = accepted.as_ref().unwrap().open_uni().await.unwrap();
    ready.write_all(b"ready").await.unwrap();
    ready.finish().unwrap();
    let mut stream = client.accept_uni().await.unwrap();
    assert_eq!(stream.read_to_end(10).await.unwrap(), b"ready");

    lose.send_replace(true);
    drop((ready, accepted));
    server.close(code(0), b"");
    server.wait_idle().await;
    drop(server);
    let _server = serve_again(&identity, free, after).await;
    lose.send_replace(false);
    let mut stream = client.open_uni().await.unwrap();
    let _ = stream.write_all(&[7; 100]).await;
    tokio::time::timeout(Duration::from_secs(2), client.closed()).await.ok()
}

/// The stateless reset key (RFC 9000 §10.3.2) is derived from the ticket keys.
#[test]
fn a_server_that_starts_again_resets_the_connections_that_it_lost() {
    run(async {
        let first: Configure = |server| server.ticket_keys(TicketKeys::new(&[1; 32]));
        assert_eq!(end_after(first, first).await, Some(ConnectionError::Reset));
        let rotated: Configure = |server| {
            let keys = TicketKeys::new(&[2; 32]);
            keys.accept_previous(&[1; 32]);
            server.ticket_keys(keys)
        };
        assert_eq!(end_after(first, rotated).await, Some(ConnectionError::Reset));
        let other: Configure = |server| server.ticket_keys(TicketKeys::new(&[3; 32]));
        assert_eq!(end_after(first, other).await, None);
    });
}

#[test]
fn a_reset_key_takes_precedence_over_ticket_keys() {
    run(async {
        let first: Configure = |server| server.reset_key(&[1; 32]);
        let again: Configure =
            |server| server.reset_key(&[1; 32]).ticket_keys(TicketKeys::new(&[3; 32]));
        assert_eq!(end_after(first, again).await, Some(ConnectionError::Reset));
        let other: Configure = |server| server.reset_key(&[2; 32]);
        assert_eq!(end_after(first, other).await, None);
    });
}
