//! Connections for one small request each: at a steady rate, and all at once from addresses that stay the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clearway::Endpoint;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Fleet, close, connect};

/// How many probes are in progress at the same time.
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
        let outcome = match Endpoint::client(fleet.addresses.of_opening(number)) {
            Ok(endpoint) => {
                let connected = connect(&endpoint, fleet, fleet.remote).await;
                let took = began.elapsed().as_secs_f64();
                close(endpoint).await;
                connected.map(|(_, server)| json!({"at": at, "took": took, "server": server}))
            }
            Err(error) => Err(error.to_string()),
        };
        let failed =
            |error| json!({"at": at, "took": began.elapsed().as_secs_f64(), "error": error});
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(outcome.unwrap_or_else(failed));
        self.unfinished.fetch_sub(1, Ordering::SeqCst);
    }

    /// Those that have ended since the last call.
    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::SeqCst)
    }
}

/// Connects once from each of so many addresses, and returns the names of the servers, `null` where there was no connection.
pub(super) async fn probe(fleet: &Arc<Fleet>, count: u16) -> Vec<Option<String>> {
    let permits = Arc::new(Semaphore::new(PROBING));
    let mut probes = Vec::new();
    for number in 0..count {
        let (fleet, permits) = (fleet.clone(), permits.clone());
        probes.push(tokio::spawn(async move {
            let _permit = permits.acquire().await;
            let endpoint = Endpoint::client(fleet.addresses.of_probe(number)).ok()?;
            let connected = connect(&endpoint, &fleet, fleet.remote).await;
            close(endpoint).await;
            connected.ok().map(|(_, server)| server)
        }));
    }
    let mut servers = Vec::new();
    for probe in probes {
        servers.push(probe.await.unwrap_or_default());
    }
    servers
}
