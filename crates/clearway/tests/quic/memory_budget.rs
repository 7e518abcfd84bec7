//! Tests a server that is short of memory for connections: how it treats the heaviest users, and
//! that others are not affected.

use std::net::SocketAddr;
use std::time::Duration;

use clearway::transport::{TransportError, TransportErrorCause};
use clearway::wire::TransportErrorCode;
use clearway::{
    ConnectError, Connection, ConnectionError, Endpoint, MemoryBudget, MemoryStatistics,
    TransportConfig,
};

use crate::support::{Pair, run};

const LIMIT: u64 = 4 << 20;
const WINDOW: u64 = 256 << 10;
/// Windows grow during the test, unless they are limited.
const LARGEST_WINDOW: u64 = 4 << 20;

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(WINDOW)
        .initial_connection_receive_window(WINDOW)
        .max_stream_receive_window(LARGEST_WINDOW)
        .max_connection_receive_window(LARGEST_WINDOW)
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

async fn until(what: &str, budget: &MemoryBudget, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("not so: {what}: {budget:?}");
}

/// A client with another address, which makes requests on a connection and waits for each response.
struct Neighbor {
    client: Connection,
    server: Connection,
}

impl Neighbor {
    async fn connect(pair: &Pair, endpoint: &Endpoint) -> Self {
        let address = pair.server.local_address();
        let connecting = endpoint.connect_with(&pair.config, address, "localhost").unwrap();
        let (client, server) =
            tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        Self { client: client.unwrap(), server: server.unwrap() }
    }

    async fn ask(&self) {
        let (mut send, mut receive) = self.client.open_bi().await.unwrap();
        send.write_all(&[7; 10_000]).await.unwrap();
        send.finish().unwrap();
        let (mut answer, mut request) = self.server.accept_bi().await.unwrap();
        let read = request.read_to_end(20_000).await.unwrap();
        answer.write_all(&read).await.unwrap();
        answer.finish().unwrap();
        assert_eq!(receive.read_to_end(20_000).await.unwrap(), read);
    }
}

/// Clients with one address send data that the server does not read, up to their windows, until its
/// memory runs short. First their windows are limited, then they get no more connections, and
/// finally the connections that use the most memory are closed. A client with another address is
/// served at each level, and the counted memory stays within the budget.
#[test]
fn those_who_use_up_the_memory_are_limited_refused_and_closed() {
    run(async {
        let budget = MemoryBudget::new(LIMIT);
        let given = budget.clone();
        let pair = Pair::with(transport(), |server| server.memory_budget(given));
        // The address is in another network, so that the clients share nothing.
        let elsewhere = Endpoint::client(SocketAddr::from(([127, 0, 1, 2], 0))).unwrap();
        let neighbor = Neighbor::connect(&pair, &elsewhere).await;
        neighbor.ask().await;
        let mut greedy = Vec::new();
        for _ in 0..16 {
            greedy.push(pair.connect().await);
        }
        let held = || budget.statistics().held;
        // Each idle connection is charged the minimum; the neighbor's connection may still be
        // active.
        until("the connections rest", &budget, || held() <= 17 * (8 << 10) + (40 << 10)).await;
        assert_eq!(budget.statistics().windows_limited, 0);
        let mut streams = Vec::new();
        let mut refused_from = None;
        for (client, _) in &greedy {
            let before = held();
            if before >= LIMIT / 4 * 3 && refused_from.is_none() {
                refused_from = Some(before);
                let refused = pair.connecting().await.unwrap_err();
                assert!(is_refused(&refused), "{refused:?}");
                let other = Neighbor::connect(&pair, &elsewhere).await;
                other.ask().await;
            }
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&vec![0; 300 << 10]).await.unwrap();
            streams.push(send);
            let closed = || budget.statistics().connections_closed > 0;
            until("the budget is nearly used up", &budget, || {
                held() >= before + WINDOW / 4 * 3 || closed()
            })
            .await;
            neighbor.ask().await;
            if closed() {
                break;
            }
        }
        assert!(refused_from.is_some());
        until("one is closed", &budget, || budget.statistics().connections_closed > 0).await;
        neighbor.ask().await;
        let MemoryStatistics { peak, windows_limited, clients_refused, .. } = budget.statistics();
        assert!(peak <= LIMIT, "{peak}");
        assert!(windows_limited > 0 && clients_refused > 0);
        let lost = greedy.iter().filter_map(|(_, server)| server.close_reason()).next();
        match lost {
            Some(ConnectionError::TransportError(TransportError { code, cause, .. })) => {
                assert_eq!(code, TransportErrorCode::INTERNAL_ERROR);
                assert!(
                    matches!(cause, TransportErrorCause::Internal(why) if why.contains("memory"))
                );
            }
            other => panic!("{other:?}"),
        }
        drop((greedy, streams, neighbor));
        until("no memory is held any more", &budget, || held() == 0).await;
    });
}

fn is_refused(error: &ConnectError) -> bool {
    let refused = TransportErrorCode::CONNECTION_REFUSED;
    matches!(
        error,
        ConnectError::Lost(ConnectionError::ConnectionClosed { error_code, .. }) if *error_code == refused
    )
}
