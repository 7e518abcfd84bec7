//! The metrics of a server, for Prometheus: `GET /metrics` over HTTP/1.1, in OpenMetrics' text format.
//!
//! `shards` has what the shards count, `requests` what this program counts of its requests. Shards write into counters that
//! nobody locks; they are read when the metrics are requested, and nothing else happens then. `docs/metrics.md` lists all.

mod requests;
mod shards;

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use clearway::Endpoint;
use http::{Response, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::http1::{self, Body, Content};
use crate::listening::Listening;
use crate::output;
pub(super) use requests::Requests;
use shards::Shards;

/// The type of OpenMetrics' text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The path of the metrics.
const PATH: &str = "/metrics";

/// The options for metrics.
#[derive(Args, Debug)]
pub(crate) struct MetricsOptions {
    /// Offer metrics for Prometheus at http://ADDRESS/metrics, to everyone who can reach that; port 0 means any free port.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Also accept requests for --metrics under this host name, not only under the address. May be repeated.
    #[arg(long, value_name = "NAME", requires = "metrics")]
    metrics_name: Vec<String>,
}

impl MetricsOptions {
    /// Begins to listen, if an address is given.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub(super) async fn listen(&self) -> Result<Option<Exporter>, Failure> {
        let Some(address) = self.metrics else { return Ok(None) };
        let failed = |error| Listening::METRICS.failed(address, &error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Some(Exporter { listener, address, names: self.metrics_name.clone() }))
    }
}

/// Listens at the address of the metrics.
pub(super) struct Exporter {
    listener: TcpListener,
    address: SocketAddr,
    names: Vec<String>,
}

impl Exporter {
    /// Answers requests from now on, in a task.
    pub(super) fn start(self, endpoint: Endpoint, requests: &Requests) {
        let Self { listener, address, names } = self;
        let registry = registry(Shards::new(move || endpoint.shard_statistics()), requests);
        tokio::spawn(async move { http1::serve(listener, &names, Metrics(registry)).await });
        output::status(&format!("metrics are at http://{address}{PATH}"));
    }
}

fn registry(shards: Shards, requests: &Requests) -> Registry {
    let mut registry = Registry::with_prefix("clearway");
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version of the program", build);
    requests.register(registry.sub_registry_with_prefix("http3"));
    registry.sub_registry_with_prefix("quic").register_collector(Box::new(Arc::new(shards)));
    registry
}

struct Metrics(Registry);

impl Content for Metrics {
    async fn get(&self, path: &str) -> Response<Body> {
        if path != PATH {
            return http1::refusal(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
        }
        let mut text = String::new();
        match encode(&mut text, &self.0) {
            Ok(()) => http1::whole(CONTENT_TYPE, text),
            Err(_) => http1::refusal(StatusCode::INTERNAL_SERVER_ERROR, "this has no form\n"),
        }
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
