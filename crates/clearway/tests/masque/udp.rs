//! UDP tunnels (RFC 9298).

use std::net::SocketAddr;
use std::time::Duration;

use clearway::http3::{self, DatagramError};
use clearway::masque::udp::DropReason;
use clearway::masque::{RelayEnd, TunnelError};
use clearway::{Connection, Endpoint, TransportConfig};
use tokio::net::UdpSocket;

use crate::support::{Proxied, Setup, configs, loopback, run};

/// Starts an echo server, and returns its address.
async fn echo() -> SocketAddr {
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    address
}

#[test]
fn payloads_of_every_size_return() {
    run(async {
        let proxied = Proxied::new().await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        for length in [0, 1, 1200, 1280] {
            let payload = vec![length as u8; length];
            tunnel.send(&payload).unwrap();
            assert_eq!(tunnel.receive().await.unwrap().unwrap(), payload, "{length}");
        }
        let error = tunnel.send(&[0; 3000]).unwrap_err();
        let TunnelError::Http(http3::Error::Datagram(DatagramError::TooLarge { maximum })) = error
        else {
            panic!("{error}");
        };
        assert!(maximum >= 1280, "{maximum}");
        tunnel.close();
        let (statistics, end) = proxied.end().await;
        assert!(matches!(end, RelayEnd::Closed | RelayEnd::Tunnel(_)), "{end:?}");
        assert_eq!(statistics.to_socket.datagrams, 4);
        assert_eq!(statistics.to_peer.bytes, 1 + 1200 + 1280);
    });
}

/// Queued payloads are sent by `flush`, and a full batch without it.
#[test]
fn queued_payloads_arrive_in_order() {
    run(async {
        let proxied = Proxied::new().await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        // The proxy sends only a few datagrams to a target that has not answered.
        tunnel.send(b"hello").unwrap();
        assert_eq!(tunnel.receive().await.unwrap().unwrap(), "hello");
        for count in [10u8, 64] {
            for number in 0..count {
                tunnel.queue(&[number; 100]).unwrap();
            }
            if count < 64 {
                tunnel.flush().unwrap();
            }
            for number in 0..count {
                assert_eq!(tunnel.receive().await.unwrap().unwrap(), [number; 100][..]);
            }
        }
        assert_eq!(tunnel.statistics().to_peer.datagrams, 1 + 10 + 64);
    });
}

/// Path MTU discovery starts although every payload is too large at first, at both ends.
#[test]
fn payloads_of_one_size_that_is_too_large_at_first_pass_later() {
    run(async {
        let proxied = Proxied::new().await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        let payload = [7; 1400];
        assert!(tunnel.max_payload().unwrap() < payload.len());
        loop {
            // Rejected at first. Later the proxy drops the reply at first.
            let _ = tunnel.send(&payload);
            let reply = tokio::time::timeout(Duration::from_millis(20), tunnel.receive()).await;
            if let Ok(reply) = reply {
                assert_eq!(reply.unwrap().unwrap(), payload[..]);
                break;
            }
        }
    });
}

/// Without DATAGRAM frames, payloads travel in capsules (RFC 9297 §3.5), of any length.
#[test]
fn capsules_replace_datagrams() {
    run(async {
        let setup =
            Setup { transport: TransportConfig::default(), datagrams: false, ..Setup::default() };
        let proxied = Proxied::with(setup).await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        for length in [0, 1, 1452, 9000] {
            let payload = vec![7; length];
            tunnel.send(&payload).unwrap();
            assert_eq!(tunnel.receive().await.unwrap().unwrap(), payload, "{length}");
        }
    });
}

#[test]
fn idle_tunnels_are_closed() {
    run(async {
        let mut setup = Setup::default();
        setup.options.idle_timeout = Duration::from_millis(100);
        let proxied = Proxied::with(setup).await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        tunnel.send(b"hello").unwrap();
        assert_eq!(tunnel.receive().await.unwrap().unwrap(), "hello");
        assert_eq!(tunnel.receive().await.unwrap(), None);
        assert!(matches!(proxied.end().await.1, RelayEnd::Idle));
    });
}

#[test]
fn the_idle_timeout_may_have_any_value() {
    run(async {
        let mut setup = Setup::default();
        setup.options.idle_timeout = Duration::ZERO;
        let proxied = Proxied::with(setup).await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        assert_eq!(tunnel.receive().await.unwrap(), None);
        assert!(matches!(proxied.end().await.1, RelayEnd::Idle));

        let mut setup = Setup::default();
        setup.options.idle_timeout = Duration::MAX;
        let proxied = Proxied::with(setup).await;
        let mut tunnel = proxied.tunnel(echo().await).await;
        tunnel.send(b"hello").unwrap();
        assert_eq!(tunnel.receive().await.unwrap().unwrap(), "hello");
    });
}

/// A closed port, which ICMP reports, does not end the tunnel.
#[test]
fn a_target_may_appear_later() {
    run(async {
        let proxied = Proxied::new().await;
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let mut tunnel = proxied.tunnel(address).await;
        tunnel.send(b"lost").unwrap();
        tokio::time::timeout(Duration::from_millis(50), tunnel.receive()).await.unwrap_err();
        let socket = UdpSocket::bind(address).await.unwrap();
        tunnel.send(b"received").unwrap();
        let mut buffer = [0; 100];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"received");
        socket.send_to(b"answer", from).await.unwrap();
        assert_eq!(tunnel.receive().await.unwrap().unwrap(), "answer");
    });
}

/// Hosts that do not answer get few datagrams: a proxy cannot be used to flood them.
#[test]
fn a_silent_target_is_not_flooded() {
    run(async {
        let proxied = Proxied::new().await;
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let mut tunnel = proxied.tunnel(socket.local_addr().unwrap()).await;
        for _ in 0..1000 {
            tunnel.send(&[0; 1000]).unwrap();
            tokio::task::yield_now().await;
        }
        let mut count = 0;
        let mut buffer = [0; 2000];
        let wait = Duration::from_millis(300);
        while tokio::time::timeout(wait, socket.recv_from(&mut buffer)).await.is_ok() {
            count += 1;
        }
        assert!((1..100).contains(&count), "{count}");
        tunnel.close();
        let (statistics, _) = proxied.end().await;
        assert_eq!(statistics.to_socket.datagrams, count);
        assert!(statistics.dropped[&DropReason::Unanswered] > 0, "{statistics:?}");
    });
}

/// Returns both ends of a QUIC connection inside a tunnel.
async fn inner(proxied: &Proxied) -> (Endpoint, Endpoint, Connection, Connection) {
    let (server, config) = configs(TransportConfig::default(), "inner");
    let server = Endpoint::server(loopback(), server).unwrap();
    let address = server.local_address();
    let socket = proxied.tunnel(address).await.into_socket(loopback(), address);
    let client = Endpoint::client_over(socket).unwrap();
    let connecting = client.connect_with(&config, address, "localhost").unwrap();
    let (inside, outside) =
        tokio::join!(connecting, async { server.accept().await.unwrap().await });
    (server, client, inside.unwrap(), outside.unwrap())
}

async fn transfer(from: &Connection, to: &Connection, length: usize) {
    let content: Vec<u8> = (0..length).map(|at| (at * 31 + at / 251) as u8).collect();
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&content).await.unwrap();
        stream.finish().unwrap();
    };
    let receive = async { to.accept_uni().await.unwrap().read_to_end(length).await.unwrap() };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == content);
}

#[test]
fn quic_runs_inside_of_quic() {
    run(async {
        let proxied = Proxied::new().await;
        let (_server, _client, inside, outside) = inner(&proxied).await;
        transfer(&inside, &outside, 3_000_000).await;
        transfer(&outside, &inside, 3_000_000).await;
        let size = inside.statistics().datagram_size;
        assert!((1280..1500).contains(&size), "{size}");
        // The outer connection migrates, and the inner one does not notice.
        proxied.client.migrate("127.0.0.1:0".parse().unwrap()).await.unwrap();
        transfer(&outside, &inside, 1_000_000).await;
    });
}

#[test]
fn an_inner_connection_ends_with_its_tunnel() {
    run(async {
        let proxied = Proxied::new().await;
        let (_server, client, inside, _outside) = inner(&proxied).await;
        proxied.client.close(http3::Code::NO_ERROR);
        inside.closed().await;
        assert!(client.failure().is_some());
    });
}
