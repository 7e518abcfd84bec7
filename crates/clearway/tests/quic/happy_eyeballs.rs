//! Tests of connecting to a host with several addresses.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use clearway::http3;
use clearway::{CONNECTION_ATTEMPT_DELAY, ConnectionError};

use crate::support::{Pair, code, run};

/// Time limit for the tests: far less than the 20 seconds after which an attempt to an unresponsive
/// address is abandoned.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_silent_address_does_not_delay_the_next_one_and_nothing_is_left_of_it() {
    run(async {
        let pair = Pair::new();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addresses = [silent.local_addr().unwrap(), pair.server.local_address()];
        let begun = Instant::now();
        let (client, server) =
            tokio::join!(pair.client.connect_any(&pair.config, addresses, "localhost"), async {
                pair.server.accept().await.unwrap().await
            });
        let (client, server) = (client.unwrap(), server.unwrap());
        let time = begun.elapsed();
        assert!((CONNECTION_ATTEMPT_DELAY..SOON).contains(&time), "{time:?}");
        assert_eq!(client.remote_address(), pair.server.local_address());
        client.close(code(7), b"");
        assert!(matches!(server.closed().await, ConnectionError::ApplicationClosed { .. }));
        // The losing attempt is closed, long before the handshake timeout.
        while pair.client.statistics().connections > 0 {
            assert!(begun.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn http3_connects_to_the_address_that_answers_and_errors_name_all() {
    run(async {
        let pair = Pair::with(Default::default(), |server| {
            server.application_protocols([http3::PROTOCOL])
        });
        let config = pair.config.clone().application_protocols([http3::PROTOCOL]);
        let unused = {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        };
        let addresses = [unused, pair.server.local_address()];
        let settings = http3::Config::default;
        let connecting =
            http3::Client::connect_any(&pair.client, &config, addresses, "localhost", settings());
        let (client, server) =
            tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        assert_eq!(client.unwrap().remote_address(), Some(pair.server.local_address()));
        drop(server);
        let none =
            http3::Client::connect_any(&pair.client, &config, [unused], "localhost", settings());
        let error = none.await.unwrap_err();
        let [(address, http3::Error::Connection(ConnectionError::Unreachable))] = error.attempts()
        else {
            panic!("{error:?}")
        };
        assert_eq!(*address, unused);
    });
}
