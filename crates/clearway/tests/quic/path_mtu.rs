//! Tests of the datagram size with default settings, over real sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::support::{PROTOCOL, identity, pattern, run};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Connection, Endpoint, ServerConfig};
use tokio::net::UdpSocket;

/// A transfer of this many bytes over loopback takes a few milliseconds.
const SIZE: usize = 3_000_000;
/// A transfer of this many bytes fits in the receive buffer of a relay that does not run meanwhile,
/// so that the path loses nothing but what is too large for it.
const FITTING: usize = 40_000;
/// Number of transfers of this size. Each is enough for a probe.
const ROUNDS: usize = 30;

async fn send(from: &Connection, to: &Connection, size: usize) {
    let mut stream = from.open_uni().await.unwrap();
    let writing = async {
        stream.write_all(&pattern(size)).await.unwrap();
        stream.finish().unwrap();
    };
    let reading = async { to.accept_uni().await.unwrap().read_to_end(size).await.unwrap() };
    let (_, received) = tokio::join!(writing, reading);
    assert!(received == pattern(size));
}

/// Returns the datagram sizes of the client and the server, after downloads and uploads; with a
/// `limit`, over a path that drops payloads of more bytes.
async fn sizes_found(host: IpAddr, limit: Option<usize>) -> (usize, usize) {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let server = ServerConfig::new(vec![identity.certificate], identity.key)
        .application_protocols([PROTOCOL]);
    let any = SocketAddr::new(host, 0);
    let server = Endpoint::server(any, server).unwrap();
    let client = Endpoint::client(any).unwrap();
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let remote = match limit {
        Some(limit) => relay(any, server.local_address(), limit).await,
        None => server.local_address(),
    };
    let connecting = client.connect_with(&config, remote, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (at_client, at_server) = tokio::join!(connecting, accepting);
    let at_client = at_client.unwrap();
    let (rounds, length) = if limit.is_some() { (ROUNDS, FITTING) } else { (1, SIZE) };
    for _ in 0..rounds {
        send(&at_server, &at_client, length).await;
        send(&at_client, &at_server, length).await;
    }
    let size = |connection: &Connection| connection.statistics().datagram_size as usize;
    (size(&at_client), size(&at_server))
}

/// Relays datagrams of at most `limit` bytes between a client and `server`; returns the address for
/// the client.
async fn relay(any: SocketAddr, server: SocketAddr, limit: usize) -> SocketAddr {
    let to_client = UdpSocket::bind(any).await.unwrap();
    let to_server = UdpSocket::bind(any).await.unwrap();
    to_server.connect(server).await.unwrap();
    let address = to_client.local_addr().unwrap();
    tokio::spawn(async move {
        let mut client = None;
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                Ok((length, from)) = to_client.recv_from(&mut up) => {
                    client = Some(from);
                    if length <= limit {
                        let _ = to_server.send(&up[..length]).await;
                    }
                }
                Ok(length) = to_server.recv(&mut down) => {
                    if let Some(client) = client.filter(|_| length <= limit) {
                        let _ = to_client.send_to(&down[..length], client).await;
                    }
                }
            }
        }
    });
    address
}

const FAMILIES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// This test uses no relay. A relay's receive buffer would hold only three of these datagrams, so
/// that the path would drop a quarter of them and smaller datagrams would be the right choice.
#[test]
fn the_loopback_interface_is_used_with_large_datagrams() {
    run(async {
        for host in FAMILIES {
            let (client, server) = sizes_found(host, None).await;
            assert!(client >= 8900 && server >= 8900, "{host}: {client} and {server}");
        }
    });
}

/// The path has the MTU of Ethernet, in both directions.
#[test]
fn a_path_of_1500_bytes_is_used_whole() {
    run(async {
        for (host, whole) in FAMILIES.into_iter().zip([1472, 1452]) {
            assert_eq!(sizes_found(host, Some(whole)).await, (whole, whole), "{host}");
        }
    });
}
