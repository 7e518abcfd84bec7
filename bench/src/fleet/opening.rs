//! Connections that make one small request each. They are opened at a steady rate, or from fixed
//! addresses.
//!
//! These connections are not closed explicitly. A packet that arrives after its connection has
//! ended belongs to no connection, and could not be told apart from one that was routed to the
//! wrong server. Instead, the connections end silently by the idle timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clearway::Endpoint;
use clearway::http3::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Fleet, IDLE_TIMEOUT, connect};
use crate::Outcome;

/// Number of concurrent probes.
const PROBING: usize = 16;

/// Connections that are opened at a steady rate.
pub(super) struct Openings {
    done: Mutex<Vec<Value>>,
    unfinished: AtomicUsize,
}

impl Openings {
    pub(super) fn start(fleet: &Arc<Fleet>, per_second: u32) -> Arc<Self> {
        let openings = Arc::new(Self { done: Mutex::default(), unfinished: AtomicUsize::new(0) });
        let (fleet, all) = (fleet.clone(), openings.clone());
        tokio::spawn(async move {
            let mut due = tokio::time::interval(Duration::from_secs(1) / per_second);
            for number in 0.. {
                due.tick().await;
                if fleet.is_over() {
                    return;
                }
                all.unfinished.fetch_add(1, Ordering::SeqCst);
                let (fleet, all) = (fleet.clone(), all.clone());
                tokio::spawn(async move { all.open(&fleet, number).await });
            }
        });
        openings
    }

    async fn open(&self, fleet: &Fleet, number: usize) {
        let (at, began) = (fleet.now(), Instant::now());
        let opened = match Endpoint::client(fleet.addresses.of_opening(number)) {
            Ok(endpoint) => {
                let connected = connect(&endpoint, fleet, fleet.remote).await;
                connected.map(|(client, server)| (endpoint, client, server))
            }
            Err(error) => Err(error.to_string()),
        };
        let took = began.elapsed().as_secs_f64();
        let said = match &opened {
            Ok((.., server)) => json!({"at": at, "took": took, "server": server}),
            Err(error) => json!({"at": at, "took": took, "error": error}),
        };
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        self.unfinished.fetch_sub(1, Ordering::SeqCst);
        if let Ok((endpoint, client, _)) = opened {
            end_in_silence(endpoint, client).await;
        }
    }

    /// Returns the connections that have ended since the last call.
    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::SeqCst)
    }
}

/// Keeps a connection and its socket until the connection has timed out.
async fn end_in_silence(endpoint: Endpoint, client: Client) {
    // Longer than the idle timeout, which restarts with the last packet.
    let _ = tokio::time::timeout(2 * IDLE_TIMEOUT, client.closed()).await;
    drop(endpoint);
}

/// Endpoints that connect from fixed addresses.
pub(super) struct Probes(Vec<Endpoint>);

impl Probes {
    /// Creates probe endpoints at `count` addresses.
    pub(super) fn new(fleet: &Fleet, count: u16) -> Outcome<Self> {
        let open = |number| Endpoint::client(fleet.addresses.of_probe(number));
        Ok(Self((0..count).map(open).collect::<Result<_, _>>()?))
    }

    /// Connects once from each address. Returns the servers' names, with `null` for connections
    /// that failed.
    pub(super) async fn connect(&self, fleet: &Arc<Fleet>) -> Vec<Option<String>> {
        let permits = Arc::new(Semaphore::new(PROBING));
        let mut connecting = Vec::new();
        for endpoint in &self.0 {
            let (endpoint, fleet, permits) = (endpoint.clone(), fleet.clone(), permits.clone());
            connecting.push(tokio::spawn(async move {
                let permit = permits.acquire().await;
                let (client, server) = connect(&endpoint, &fleet, fleet.remote).await.ok()?;
                drop(permit);
                tokio::spawn(end_in_silence(endpoint, client));
                Some(server)
            }));
        }
        let mut servers = Vec::new();
        for one in connecting {
            servers.push(one.await.unwrap_or_default());
        }
        servers
    }
}
