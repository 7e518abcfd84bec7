//! The metrics of a server.
//!
//! `shards` has what the shards count, `requests` what this program counts of its requests. Shards write into counters that
//! nobody locks; they are read when the metrics are requested, and nothing else happens then.

mod requests;
mod shards;

use std::sync::Arc;

use clearway::Endpoint;
use prometheus_client::registry::Registry;

use crate::exporter::{self, Exporter};
pub(super) use requests::Requests;
use shards::Shards;

/// Offers the metrics of a server from now on, in a task, until another server replaces it.
pub(super) fn start(exporter: Exporter, endpoint: Endpoint, requests: &Requests) {
    let shards = endpoint.clone();
    let registry = registry(Shards::new(move || shards.shard_statistics()), requests);
    tokio::spawn(async move {
        tokio::select! {
            () = exporter.run(registry) => {}
            () = endpoint.replaced() => {}
        }
    });
}

fn registry(shards: Shards, requests: &Requests) -> Registry {
    let mut registry = exporter::registry();
    requests.register(registry.sub_registry_with_prefix("http3"));
    registry.sub_registry_with_prefix("quic").register_collector(Box::new(Arc::new(shards)));
    registry
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
