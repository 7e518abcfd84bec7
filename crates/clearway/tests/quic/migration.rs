//! Tests of connections that migrate to other addresses, over real sockets (RFC 9000 §9).

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use clearway::{
    Application, ConfigError, Connection, ConnectionWaker, EndpointError, Event, MigrateError,
    MigrateFailure, MigrationError, PathEvent, PreferredAddressUnusable, ServerConfig, SocketIndex,
    Timestamp, TransportConfig,
};

use crate::support::{Pair, code, identity, loopback, pattern, run};

/// Number of bytes per transfer: several flow control windows, so that the transfer outlasts the
/// migrations.
const LENGTH: usize = 24 << 20;

fn any_port() -> SocketAddr {
    "0.0.0.0:0".parse().unwrap()
}

/// Sends the pattern on a new stream, and returns when the peer has received all of it.
async fn send_pattern(connection: Connection) {
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&pattern(LENGTH)).await.unwrap();
    stream.finish().unwrap();
    stream.stopped().await.unwrap();
}

/// Returns the number of open file descriptors of the process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_download_survives_three_migrations() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let first = server.remote_address();
        assert_eq!(first, pair.client.local_address());
        let sending = tokio::spawn(send_pattern(server.clone()));
        let mut stream = client.accept_uni().await.unwrap();
        let mut received = Vec::with_capacity(LENGTH);
        let mut places = vec![first];
        while let Some(chunk) = stream.read_chunk(64 << 10).await.unwrap() {
            received.extend_from_slice(&chunk);
            if places.len() <= 3 && received.len() > places.len() * LENGTH / 5 {
                // Migrates to another port, to an address chosen by the test, and back to the
                // endpoint's address.
                let wanted = match places.len() {
                    1 => any_port(),
                    2 => "127.0.0.2:0".parse().unwrap(),
                    _ => first,
                };
                let local = client.migrate(wanted).await.unwrap();
                assert!(!places[1..].contains(&local));
                places.push(local);
            }
        }
        assert!(received == pattern(LENGTH), "the content differs");
        sending.await.unwrap();
        let [_, second, third, fourth] = places[..] else { panic!("{places:?}") };
        assert_eq!((second.ip(), fourth), (first.ip(), first));
        assert_eq!(third.ip(), Ipv4Addr::new(127, 0, 0, 2));
        // The server has seen each of the addresses, including the return to the first.
        for remote in [second, third, fourth] {
            assert_eq!(server.path_event().await, Ok(PathEvent::PeerMigrated { remote }));
            let remote = pair.server.local_address();
            assert_eq!(client.path_event().await, Ok(PathEvent::Migrated { remote }));
        }
        assert_eq!(server.remote_address(), first);
        client.close(code(0), b"");
        server.closed().await;
    });
}

/// Sockets are closed if their path was abandoned or never worked, or their connection has ended.
#[test]
fn sockets_are_closed_with_the_paths_that_use_them() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        client.migrate(any_port()).await.unwrap();
        let with_one = descriptors();
        for _ in 0..8 {
            client.migrate(any_port()).await.unwrap();
        }
        // A path is permanently abandoned after three probe timeouts.
        while descriptors() > with_one {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(server.remote_address().ip(), Ipv4Addr::LOCALHOST);
        client.close(code(0), b"");
        pair.client.wait_idle().await;
        while descriptors() >= with_one {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn a_migration_that_cannot_begin_says_why() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let refused = |error: MigrateError| match error {
            MigrateError::NotStarted(MigrateFailure::Refused(error)) => error,
            other => panic!("{other:?}"),
        };
        let error = server.migrate(any_port()).await.unwrap_err();
        assert_eq!(refused(error), MigrationError::NotAClient);
        let error = client.migrate(pair.client.local_address()).await.unwrap_err();
        assert_eq!(refused(error), MigrationError::SameSocket);
        let error = client.migrate("[2001:db8::1]:0".parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, MigrateError::NotStarted(MigrateFailure::OtherFamily(_))));
        // An address that no interface has: the operating system reports the error.
        let error = client.migrate("192.0.2.1:0".parse().unwrap()).await.unwrap_err();
        assert!(
            matches!(&error, MigrateError::NotStarted(MigrateFailure::Socket { error, .. })
                if error.kind() == std::io::ErrorKind::AddrNotAvailable),
            "{error:?}"
        );
        // None of this affects the connection.
        tokio::join!(send_pattern(server.clone()), async {
            client.accept_uni().await.unwrap().read_to_end(LENGTH).await.unwrap()
        });
        client.close(code(0), b"");
        let error = client.migrate(any_port()).await.unwrap_err();
        assert!(matches!(error, MigrateError::ConnectionEnded), "{error:?}");
    });
}

#[test]
fn a_server_may_forbid_migration() {
    run(async {
        let forbids = TransportConfig::builder().allow_active_migration(false).build().unwrap();
        let pair = Pair::with(TransportConfig::default(), |server| server.transport(forbids));
        let (client, _server) = pair.connect().await;
        let error = client.migrate(any_port()).await.unwrap_err();
        let expected = "the server forbids migration (disable_active_migration)";
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn clients_move_to_the_preferred_address() {
    run(async {
        let preferred = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), 0);
        let pair =
            Pair::with(TransportConfig::default(), |server| server.preferred_address_v4(preferred));
        let preferred = pair.server.preferred_address_v4().unwrap();
        assert_eq!(*preferred.ip(), Ipv4Addr::new(127, 0, 0, 3));
        assert_ne!(preferred.port(), 0);
        let (client, server) = pair.connect().await;
        let remote = preferred.into();
        assert_eq!(client.path_event().await, Ok(PathEvent::Migrated { remote }));
        assert_eq!(client.remote_address(), remote);
        tokio::join!(send_pattern(server.clone()), async {
            let received = client.accept_uni().await.unwrap().read_to_end(LENGTH).await.unwrap();
            assert!(received == pattern(LENGTH), "the content differs");
        });
        let remote = pair.client.local_address();
        assert_eq!(server.path_event().await, Ok(PathEvent::Migrated { remote }));
        // The connection can migrate again from there.
        let local = client.migrate(any_port()).await.unwrap();
        assert_eq!(server.path_event().await, Ok(PathEvent::PeerMigrated { remote: local }));
    });
}

#[test]
fn preferred_addresses_that_no_host_has_are_refused() {
    let server = |address: [u8; 4]| {
        let identity = identity();
        ServerConfig::new(vec![identity.certificate], identity.key)
            .application_protocols(["test"])
            .preferred_address_v4(SocketAddrV4::new(address.into(), 4434))
    };
    for address in [[0, 0, 0, 0], [224, 0, 0, 1], [255, 255, 255, 255]] {
        let error = clearway::Endpoint::server(loopback(), server(address)).unwrap_err();
        assert!(
            matches!(error, EndpointError::Config(ConfigError::PreferredAddress(_))),
            "{error:?}"
        );
    }
    // An address that no interface has: the error contains the address.
    let error = clearway::Endpoint::server(loopback(), server([192, 0, 2, 1])).unwrap_err();
    let EndpointError::Io(error) = error else { panic!("{error:?}") };
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<PreferredAddressUnusable>());
    assert_eq!(cause.unwrap().address, "192.0.2.1:4434".parse().unwrap());
}

/// An application that migrates when its handshake is complete, and reports the outcome and events.
struct Mover {
    waker: ConnectionWaker,
    news: tokio::sync::mpsc::UnboundedSender<(Option<SocketIndex>, Option<Event>)>,
}

impl Application for Mover {
    fn process(&mut self, _now: Timestamp, connection: &mut clearway::transport::Connection) {
        while let Some(event) = connection.next_event() {
            if event == Event::Connected {
                let news = self.news.clone();
                let on_start = move |started: Result<clearway::Migration, MigrateFailure>| {
                    let _ = news.send((Some(started.unwrap().socket), None));
                };
                self.waker.migrate(any_port(), Box::new(on_start));
            }
            let _ = self.news.send((None, Some(event)));
        }
    }
}

/// An application in the shard requests a migration through its waker, and gets the transport's
/// events. It need not wait until the handshake is confirmed.
#[test]
fn an_application_in_the_shard_migrates() {
    run(async {
        let pair = Pair::new();
        let (news, mut told) = tokio::sync::mpsc::unbounded_channel();
        let remote = pair.server.local_address();
        pair.client
            .connect_application(
                &pair.config,
                remote,
                "localhost",
                Box::new(|waker| Box::new(Mover { waker, news })),
                Box::new(|failure| panic!("{failure}")),
            )
            .unwrap();
        let server = pair.server.accept().await.unwrap().await.unwrap();
        let (mut started, mut confirmed) = (None, false);
        loop {
            match told.recv().await.unwrap() {
                (Some(socket), _) => started = Some(socket),
                (_, Some(Event::HandshakeConfirmed)) => confirmed = true,
                (_, Some(Event::Migrated { socket, .. })) => {
                    assert_eq!((Some(socket), true), (started, confirmed));
                    break;
                }
                _ => {}
            }
        }
        let event = server.path_event().await.unwrap();
        assert!(matches!(event, PathEvent::PeerMigrated { .. }), "{event:?}");
    });
}
