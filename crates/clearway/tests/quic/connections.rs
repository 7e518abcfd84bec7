//! Tests of the start and end of connections, on loopback.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{PROTOCOL, Pair, code, identity, loopback, run};
use bytes::Bytes;
use clearway::rustls::RootCertStore;
use clearway::transport::DropReason;
use clearway::{
    ClientConfig, ConfigError, ConnectError, ConnectFailure, ConnectionError, DatagramOutcome,
    Endpoint, EndpointError, MAX_BALANCERS, Observation, Observer, SendDatagramError, ServerConfig,
    Side, Timestamp, TransportConfig,
};

#[test]
fn both_ends_have_the_results_of_the_handshake() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        assert_eq!(client.application_protocol(), Some(PROTOCOL.as_bytes()));
        assert_eq!(server.application_protocol(), Some(PROTOCOL.as_bytes()));
        assert_eq!(server.server_name(), Some("localhost"));
        assert_eq!(client.peer_identity().map(<[_]>::len), Some(1));
        assert!(server.peer_identity().is_none());
        assert_eq!(client.remote_address(), pair.server.local_address());
        assert_eq!(server.remote_address(), pair.client.local_address());
        assert!(client.statistics().packets_received > 0);

        let ours = client.export_keying_material(32, b"label", Some(b"context")).await.unwrap();
        let theirs = server.export_keying_material(32, b"label", Some(b"context")).await.unwrap();
        assert_eq!(ours, theirs);
        assert_ne!(ours, client.export_keying_material(32, b"other", None).await.unwrap());
    });
}

#[test]
fn the_peer_learns_the_close_code() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        server.close(code(42), b"that is the answer");
        assert_eq!(server.closed().await, ConnectionError::LocallyClosed);
        assert_eq!(
            client.closed().await,
            ConnectionError::ApplicationClosed {
                error_code: code(42),
                reason: Bytes::from_static(b"that is the answer")
            }
        );
        assert!(client.close_reason().is_some());
        assert!(client.accept_bi().await.is_err());
        assert!(client.read_datagram().await.is_err());
        assert!(client.export_keying_material(1, b"x", None).await.is_err());
    });
}

/// The responder is not a QUIC server: the error describes what arrived.
#[test]
fn a_failed_handshake_says_what_arrived() {
    run(async {
        let socket = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut datagram = [0; 2048];
            while let Ok((_, client)) = socket.recv_from(&mut datagram).await {
                drop(socket.send_to(b"?", client).await);
            }
        });
        let pair = Pair::new();
        let transport = TransportConfig::builder().handshake_timeout(Duration::from_millis(300));
        let config = pair.config.clone().transport(transport.build().unwrap());
        let connecting = pair.client.connect_with(&config, address, "localhost").unwrap();
        let error = connecting.await.unwrap_err();
        let ConnectError::Lost(ConnectionError::HandshakeTimedOut(packets)) = &error else {
            panic!("{error:?}")
        };
        assert!(packets.dropped.get(DropReason::Invalid) > 0, "{packets}");
        assert_eq!(packets.processed, 0);
        assert!(error.to_string().contains("dropped: "), "{error}");
        assert!(error.to_string().contains(" did not parse as QUIC"), "{error}");
    });
}

#[test]
fn an_unreachable_port_is_detected_quickly() {
    run(async {
        // A port that was free a moment ago, and so most likely still is.
        let free = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
        let pair = Pair::new();
        let began = Instant::now();
        let connecting = pair.client.connect_with(&pair.config, free, "localhost").unwrap();
        let error = connecting.await.unwrap_err();
        assert_eq!(error, ConnectError::Lost(ConnectionError::Unreachable));
        assert!(began.elapsed() < Duration::from_secs(2), "took {:?}", began.elapsed());
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        // The endpoint is not affected.
        pair.connect().await;
    });
}

#[test]
fn a_dead_peer_does_not_affect_other_connections() {
    run(async {
        let pair = Pair::new();
        let other = Pair::new();
        let connecting =
            pair.client.connect_with(&other.config, other.server.local_address(), "localhost");
        let (client, server) =
            tokio::join!(connecting.unwrap(), async { other.server.accept().await.unwrap().await });
        let (living, living_server) = pair.connect().await;
        drop(server);
        drop(client);
        let free = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
        let connecting = pair.client.connect_with(&pair.config, free, "localhost").unwrap();
        assert!(connecting.await.is_err());
        let mut send = living.open_uni().await.unwrap();
        send.write_all(b"alive").await.unwrap();
        send.finish().unwrap();
        let mut recv = living_server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"alive");
    });
}

#[test]
fn the_idle_timeout_ends_a_connection() {
    run(async {
        let transport = TransportConfig::builder()
            .max_idle_timeout(Some(Duration::from_millis(200)))
            .initial_rtt(Duration::from_millis(10))
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        let (ours, theirs) = tokio::join!(client.closed(), server.closed());
        assert_eq!((ours, theirs), (ConnectionError::TimedOut, ConnectionError::TimedOut));
        pair.client.wait_idle().await;
    });
}

#[test]
fn a_certificate_that_is_not_trusted_is_rejected() {
    run(async {
        let pair = Pair::new();
        let mut roots = RootCertStore::empty();
        roots.add(identity().certificate).unwrap();
        let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
        let remote = pair.server.local_address();
        let connecting = pair.client.connect_with(&config, remote, "localhost").unwrap();
        let accepting = async { pair.server.accept().await.unwrap().await };
        let (error, server_error) = tokio::join!(connecting, accepting);
        let error = error.unwrap_err();
        let ConnectError::Lost(ConnectionError::TransportError(inner)) = &error else {
            panic!("{error:?}")
        };
        assert!(inner.code.to_string().contains("CRYPTO"), "{}", inner.code);
        let server_error = server_error.unwrap_err();
        assert!(
            matches!(&server_error, ConnectError::Lost(ConnectionError::ConnectionClosed { .. })),
            "{server_error:?}"
        );

        let trusting = ClientConfig::dangerous_without_certificate_verification()
            .application_protocols([PROTOCOL]);
        let connecting = pair.client.connect_with(&trusting, remote, "localhost").unwrap();
        let accepting = async { pair.server.accept().await.unwrap().await };
        let (client, server) = tokio::join!(connecting, accepting);
        assert!(client.is_ok() && server.is_ok());
    });
}

#[test]
fn a_certificate_for_another_name_is_rejected() {
    run(async {
        let pair = Pair::new();
        let remote = pair.server.local_address();
        let connecting = pair.client.connect_with(&pair.config, remote, "example.com").unwrap();
        assert!(matches!(
            connecting.await.unwrap_err(),
            ConnectError::Lost(ConnectionError::TransportError(_))
        ));
    });
}

#[test]
fn without_a_common_application_protocol_there_is_no_connection() {
    run(async {
        let pair = Pair::new();
        let config = pair.config.clone().application_protocols(["another"]);
        let remote = pair.server.local_address();
        let connecting = pair.client.connect_with(&config, remote, "localhost").unwrap();
        let error = connecting.await.unwrap_err();
        // no_application_protocol is alert 120 (RFC 9001 §8.1).
        let ConnectError::Lost(ConnectionError::ConnectionClosed { error_code, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error_code, clearway::wire::TransportErrorCode::crypto(120));
    });
}

#[test]
fn a_connection_that_cannot_be_started_fails_with_the_reason() {
    run(async {
        let pair = Pair::new();
        let remote = pair.server.local_address();
        let connecting = pair.client.connect_with(&pair.config, remote, "not a name").unwrap();
        let error = connecting.await.unwrap_err();
        assert!(matches!(error, ConnectError::NotStarted(ConnectFailure::Endpoint(_))), "{error}");

        let v6 = "[::1]:9".parse().unwrap();
        let connecting = pair.client.connect_with(&pair.config, v6, "localhost").unwrap();
        let expected = ConnectError::NotStarted(ConnectFailure::UnsupportedAddress(v6));
        assert_eq!(connecting.await.unwrap_err(), expected);

        let config = pair.config.clone().application_protocols([""; 0]);
        let error = pair.client.connect_with(&config, remote, "localhost").unwrap_err();
        assert!(matches!(error, ConfigError::Tls(_)), "{error}");
        let error = pair.client.connect(remote, "localhost").unwrap_err();
        assert!(matches!(error, ConfigError::NoClientConfig), "{error}");
    });
}

#[test]
fn an_address_in_use_is_refused() {
    let taken = UdpSocket::bind(loopback()).unwrap();
    let address = taken.local_addr().unwrap();
    assert_eq!(Endpoint::client(address).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let identity = identity();
    let config = ServerConfig::new(vec![identity.certificate], identity.key)
        .application_protocols([PROTOCOL]);
    let error = Endpoint::server(address, config).unwrap_err();
    assert!(matches!(error, EndpointError::Io(_)), "{error}");
}

#[test]
fn a_retry_validates_the_address() {
    run(async {
        let pair = Pair::with(TransportConfig::default(), |server| server.retry_above(0));
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"x").await.unwrap();
        assert!(server.accept_uni().await.is_ok());
        // The Retry and the second Initial: one more datagram in each direction.
        assert!(pair.server.statistics().datagrams_sent > 1);
    });
}

#[test]
fn a_server_behind_balancers_takes_datagrams_of_these_only() {
    run(async {
        // Datagrams from a balancer without a preface count as the balancer's own.
        let balancers = [loopback().ip()];
        let pair = Pair::with(TransportConfig::default(), |server| server.balancers(balancers));
        let (_client, _server) = pair.connect().await;
        let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
        stranger.send_to(&[0x40; 100], pair.server.local_address()).unwrap();
        while pair.server.statistics().foreign_dropped == 0 {
            tokio::task::yield_now().await;
        }
    });
    let identity = identity();
    let config = ServerConfig::new(vec![identity.certificate], identity.key)
        .application_protocols([PROTOCOL])
        .balancers((0..=MAX_BALANCERS as u32).map(|it| IpAddr::V4(it.into())));
    let error = Endpoint::server(loopback(), config).unwrap_err();
    assert!(error.to_string().contains("balancers"), "{error}");
}

#[test]
fn a_later_connection_resumes_the_session() {
    run(async {
        let pair = Pair::new();
        for _ in 0..3 {
            let (client, server) = pair.connect().await;
            // The server sends data on a stream after its session ticket.
            let mut send = server.open_uni().await.unwrap();
            send.finish().unwrap();
            let mut recv = client.accept_uni().await.unwrap();
            assert_eq!(recv.read_to_end(0).await.unwrap(), b"");
        }
    });
}

#[test]
fn clients_beyond_the_limit_are_refused() {
    run(async {
        let pair = Pair::with(TransportConfig::default(), |server| server.max_connections(1));
        let (_client, _server) = pair.connect().await;
        let error = pair.connecting().await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Lost(ConnectionError::ConnectionClosed { .. })),
            "{error:?}"
        );
    });
}

#[test]
fn dropping_everything_closes_everything() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (send, recv) = client.open_bi().await.unwrap();
        drop(client);
        // Streams keep the connection open.
        assert!(server.close_reason().is_none());
        drop(send);
        assert!(server.close_reason().is_none());
        drop(recv);
        let expected =
            ConnectionError::ApplicationClosed { error_code: code(0), reason: Bytes::new() };
        assert_eq!(server.closed().await, expected);
        // An endpoint without handles continues to serve its connections.
        let (client, server) = pair.connect().await;
        drop(pair);
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"still here").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(&recv.read_chunk(100).await.unwrap().unwrap()[..], b"still here");
    });
}

#[test]
fn dropping_a_connecting_future_closes_the_connection() {
    run(async {
        let pair = Pair::new();
        drop(pair.connecting());
        pair.client.wait_idle().await;
        // The server may or may not have received an Initial packet; others are served either way.
        let connecting = pair.connecting();
        let accepting = async {
            loop {
                if let Ok(connection) = pair.server.accept().await.unwrap().await {
                    return connection;
                }
            }
        };
        let (client, server) = tokio::join!(connecting, accepting);
        assert_eq!(client.unwrap().remote_address(), pair.server.local_address());
        assert_eq!(server.remote_address(), pair.client.local_address());
    });
}

#[test]
fn closing_an_endpoint_closes_its_connections() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        pair.server.close(code(5), b"maintenance");
        let error = client.closed().await;
        assert!(
            matches!(error, ConnectionError::ApplicationClosed { error_code, .. } if error_code == code(5)),
            "{error:?}"
        );
        assert_eq!(server.closed().await, ConnectionError::LocallyClosed);
        assert!(pair.server.accept().await.is_none());
        // New clients are refused, and no new connections are made.
        assert!(pair.connecting().await.is_err());
        let remote = pair.client.local_address();
        let connecting = pair.server.connect_with(&pair.config, remote, "localhost").unwrap();
        let expected = ConnectError::NotStarted(ConnectFailure::ShuttingDown);
        assert_eq!(connecting.await.unwrap_err(), expected);
        pair.server.wait_idle().await;
    });
}

#[test]
fn datagrams_are_sent_in_both_directions() {
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(1200))
            .discover_path_mtu(false)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        let maximum = client.max_datagram_size().unwrap();
        let largest = Bytes::from(vec![9; maximum]);
        client.send_datagram(largest.clone()).unwrap();
        assert_eq!(server.read_datagram().await.unwrap(), largest);
        server.send_datagram(Bytes::from_static(b"short")).unwrap();
        assert_eq!(client.read_datagram().await.unwrap(), "short");
        let too_large = client.send_datagram(Bytes::from(vec![0; maximum + 1]));
        assert_eq!(too_large, Err(SendDatagramError::TooLarge { maximum }));
    });
}

/// A larger path MTU is discovered once datagrams are sent.
#[test]
fn larger_datagrams_can_be_sent_once_the_path_is_known_to_carry_them() {
    run(async {
        let transport =
            TransportConfig::builder().max_datagram_frame_size(Some(65_535)).build().unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        assert_eq!(client.max_datagram_size(), Some(1156));
        let mut maximum = 1156;
        while maximum < 1400 {
            client.send_datagram(Bytes::from_static(b"a")).unwrap();
            assert_eq!(server.read_datagram().await.unwrap(), "a");
            maximum = client.max_datagram_size().unwrap();
        }
        let large = Bytes::from(vec![7; maximum]);
        client.send_datagram(large.clone()).unwrap();
        assert_eq!(server.read_datagram().await.unwrap(), large);
        assert!(client.statistics().datagram_size > 1400);
    });
}

#[test]
fn datagrams_need_a_peer_that_supports_them() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        assert_eq!(client.max_datagram_size(), None);
        let error = client.send_datagram(Bytes::new()).unwrap_err();
        assert_eq!(error, SendDatagramError::Unsupported);
    });
}

#[test]
fn ipv6_and_ipv4_reach_a_socket_for_both() {
    run(async {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let server = ServerConfig::new(vec![identity.certificate], identity.key)
            .application_protocols([PROTOCOL]);
        let Ok(server) = Endpoint::server("[::]:0".parse().unwrap(), server) else {
            // The host has no IPv6.
            return;
        };
        let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
        let port = server.local_address().port();
        for (bind, remote) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]"), ("[::]:0", "127.0.0.1")]
        {
            let client = Endpoint::client(bind.parse().unwrap()).unwrap();
            let remote = format!("{remote}:{port}").parse().unwrap();
            let connecting = client.connect_with(&config, remote, "localhost").unwrap();
            let accepting = async { server.accept().await.unwrap().await };
            let (ours, theirs) = tokio::join!(connecting, accepting);
            assert!(ours.is_ok() && theirs.is_ok(), "{bind} to {remote}: {ours:?}, {theirs:?}");
        }
    });
}

#[test]
fn both_ends_can_be_observed() {
    struct Counter(Arc<AtomicUsize>);

    impl Observer for Counter {
        fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
            if matches!(observation, Observation::Started { .. } | Observation::Closed(_)) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    run(async {
        let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let factory = |counts: &[Arc<AtomicUsize>; 2]| {
            let [client, server] = counts.clone();
            Arc::new(move |side: Side| {
                let count = if side.is_client() { client.clone() } else { server.clone() };
                Some(Box::new(Counter(count)) as Box<dyn Observer>)
            })
        };
        let mut pair = Pair::with(TransportConfig::default(), |it| it.observer(factory(&counts)));
        pair.config = pair.config.observer(factory(&counts));
        let (client, server) = pair.connect().await;
        client.close(code(0), b"");
        server.closed().await;
        pair.client.wait_idle().await;
        pair.server.wait_idle().await;
        assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [2, 2]);
    });
}

/// With default settings, a download over loopback uses datagrams larger than Ethernet carries, of
/// at least 8,900 bytes, for nearly all of its data.
#[test]
fn a_download_over_loopback_uses_large_datagrams() {
    run(async {
        const BYTES: u64 = 20 << 20;
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let writer = tokio::spawn(async move {
            let mut send = server.open_uni().await.unwrap();
            let chunk = Bytes::from(vec![1; 1 << 20]);
            for _ in 0..BYTES >> 20 {
                send.write_chunk(chunk.clone()).await.unwrap();
            }
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
            server.statistics()
        });
        let mut recv = client.accept_uni().await.unwrap();
        let mut received = 0;
        while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
            received += chunk.len() as u64;
        }
        assert_eq!(received, BYTES);
        let statistics = writer.await.unwrap();
        assert!(statistics.datagram_size >= 8900, "{}", statistics.datagram_size);
        let mean = statistics.bytes_sent / statistics.packets_sent;
        assert!(mean > 4000, "packets of {mean} bytes on average");
        assert_eq!(client.statistics().datagram_size, 1200, "only acknowledgements");
    });
}

/// A task that waits for room sends more datagrams than the queue holds, and gets the outcome of
/// each one.
#[test]
fn a_task_can_wait_for_room_and_for_outcomes() {
    const COUNT: u64 = 200;
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(1200))
            .datagram_send_buffer(4000)
            .datagram_notices(true)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        assert_eq!(client.datagram_send_buffer_space(), 4000 - 64);
        let reader = tokio::spawn(async move { while server.read_datagram().await.is_ok() {} });
        let too_large = client.send_datagram_wait(Bytes::from(vec![0; 5000])).await;
        assert!(matches!(too_large, Err(SendDatagramError::TooLarge { .. })));
        let sender = client.clone();
        let sending = tokio::spawn(async move {
            for _ in 0..COUNT {
                sender.send_datagram_wait(Bytes::from(vec![5; 1000])).await.unwrap();
            }
        });
        let mut acknowledged = std::collections::BTreeSet::new();
        while acknowledged.len() < COUNT as usize {
            let (id, outcome) = client.datagram_outcome().await.unwrap();
            match outcome {
                DatagramOutcome::Acknowledged => assert!(acknowledged.insert(id)),
                other => assert_eq!(other, DatagramOutcome::Lost),
            }
        }
        sending.await.unwrap();
        assert!(client.datagram_statistics().acknowledged >= COUNT);
        drop(client);
        reader.await.unwrap();
    });
}

#[test]
fn the_oldest_datagrams_make_room_where_that_is_wanted() {
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(1200))
            .datagram_send_limit(4)
            .datagram_drops_oldest(true)
            .datagram_notices(true)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, _server) = pair.connect().await;
        for _ in 0..1000 {
            client.send_datagram(Bytes::from_static(b"news")).unwrap();
        }
        let mut outcomes = Vec::new();
        while outcomes.len() < 1000 {
            outcomes.push(client.datagram_outcome().await.unwrap().1);
        }
        assert!(outcomes.contains(&DatagramOutcome::Displaced));
        assert_eq!(outcomes.last(), Some(&DatagramOutcome::Acknowledged), "the newest arrive");
    });
}
