//! The metrics of a server.
//!
//! `shards` exports the shards' counters, `memory` the memory that clients use, and `requests` this
//! program's own request counters. Shards write to lock-free counters, which are read when the
//! metrics are requested, so metrics cost nothing otherwise.

mod memory;
mod requests;
mod shards;

use std::sync::Arc;

use clearway::{Endpoint, MemoryBudget, ShardStatistics};
use clearway_doctor::Application;
use prometheus_client::registry::Registry;

use super::store::Store;
use crate::doctor::Carried;
use crate::exporter::{self, Exporter};
use crate::failure::Failure;
use memory::Memory;
pub(super) use requests::Requests;
pub(crate) use shards::Shards;

/// Starts a task that exports a server's metrics, including the doctor's, until another server
/// replaces this one.
pub(super) fn start(
    exporter: Exporter,
    endpoint: Endpoint,
    requests: &Requests,
    store: &Store,
) -> Result<(), Failure> {
    let (shards, told) = (endpoint.clone(), endpoint.clone());
    let doctor = Carried::start(move || application(&told.shard_statistics()))?;
    let (of_connections, store) = (endpoint.memory_budget().cloned(), store.clone());
    let memory = Memory::new(move || {
        let connections = of_connections.as_ref().map(MemoryBudget::statistics);
        (connections.unwrap_or_default(), store.statistics())
    });
    let shards = Shards::new(move || shards.shard_statistics());
    let registry = registry(shards, memory, requests, doctor);
    tokio::spawn(async move {
        tokio::select! {
            () = exporter.run(registry) => {}
            () = endpoint.replaced() => {}
        }
    });
    Ok(())
}

/// Returns the losses of the shards themselves, for the doctor. Their reads are never truncated:
/// each buffer holds the largest datagram, or the maximum number of coalesced ones.
fn application(shards: &[ShardStatistics]) -> Application {
    let all: ShardStatistics = shards.iter().copied().sum();
    Application {
        received: all.datagrams_received,
        queue_full: all.hand_over_dropped + all.forward_dropped + all.incoming_dropped,
        unknown_connections: all.datagrams_unknown,
        undecryptable: all.packets_dropped,
        send_refused: all.batches_failed,
        ..Application::default()
    }
}

fn registry(shards: Shards, memory: Memory, requests: &Requests, doctor: Carried) -> Registry {
    let mut registry = exporter::registry();
    requests.register(registry.sub_registry_with_prefix("http3"));
    registry.sub_registry_with_prefix("quic").register_collector(Box::new(Arc::new(shards)));
    registry.sub_registry_with_prefix("memory").register_collector(Box::new(memory));
    registry.sub_registry_with_prefix("doctor").register_collector(Box::new(doctor));
    registry
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
