//! Exports metrics for Prometheus: `GET /metrics` over HTTP/1.1, in the OpenMetrics text format.
//!
//! Counters are read when the metrics are requested; otherwise, they cost nothing.
//! `docs/metrics.md` lists all metrics.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use http::{Response, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::address;
use crate::events::Events;
use crate::failure::Failure;
use crate::http1::{self, Body, Content};
use crate::listening::Listening;
use crate::output;

/// The media type of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The path of the metrics.
const PATH: &str = "/metrics";
/// How long a server keeps trying to listen on the address of the server that it has replaced; the
/// next constant is the interval between attempts.
const TAKE_OVER_TIME: Duration = Duration::from_secs(5);
const TAKE_OVER_INTERVAL: Duration = Duration::from_millis(50);

/// The options for metrics.
#[derive(Args, Debug)]
pub(crate) struct MetricsOptions {
    /// Serve metrics for Prometheus at http://ADDR/metrics.
    ///
    /// Everyone who can reach the address can read the metrics. Port 0 selects any free port.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    metrics: Option<SocketAddr>,
    /// Also accept this host name in requests for --metrics. May be repeated.
    ///
    /// Without this option, only IP addresses and localhost are accepted.
    #[arg(long, value_name = "NAME", requires = "metrics")]
    metrics_name: Vec<String>,
}

impl MetricsOptions {
    /// Starts listening, if an address is given. If the replaced server still listens there, this
    /// server starts listening as soon as the replaced one has stopped.
    ///
    /// # Errors
    ///
    /// Returns an error if listening on the address fails.
    pub(crate) async fn listen(&self, is_replacing: bool) -> Result<Option<Exporter>, Failure> {
        let Some(address) = self.metrics else { return Ok(None) };
        let failed = |error| Listening::METRICS.failed(address, &error);
        let listener = match TcpListener::bind(address).await {
            Err(error) if is_replacing && error.kind() == io::ErrorKind::AddrInUse => None,
            bound => Some(bound.map_err(failed)?),
        };
        Ok(Some(Exporter { listener, address, names: self.metrics_name.clone() }))
    }
}

/// The listener for metrics.
pub(crate) struct Exporter {
    /// The listening socket; `None` while the server that is being replaced still listens there.
    listener: Option<TcpListener>,
    address: SocketAddr,
    names: Vec<String>,
}

impl Exporter {
    /// Responds to requests with the metrics of `registry`.
    pub(crate) async fn run(self, registry: Registry) {
        let listener = match self.listener {
            Some(listener) => Ok(listener),
            None => take_over(self.address).await,
        };
        let listener = listener.and_then(|it| it.local_addr().map(|address| (it, address)));
        match listener {
            Ok((listener, address)) => {
                output::status(&format!("metrics are at http://{address}{PATH}"));
                http1::serve(listener, &self.names, Metrics(registry)).await;
            }
            Err(error) => {
                output::status(&format!("cannot serve metrics at {}: {error}", self.address))
            }
        }
    }
}

/// Listens on `address` as soon as the replaced server has stopped listening there.
async fn take_over(address: SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < TAKE_OVER_TIME =>
            {
                tokio::time::sleep(TAKE_OVER_INTERVAL).await;
            }
            bound => return bound,
        }
    }
}

/// Creates a metrics registry that contains this program's version.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::with_prefix("clearway");
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version of the program", build);
    registry.sub_registry_with_prefix("output").register_collector(Box::new(Printed));
    registry.register_collector(Box::new(Events));
    registry
}

/// The metric of lines that this program could not print.
#[derive(Debug)]
struct Printed;

impl Collector for Printed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Output lines dropped because the reader was too slow or they could not be written.";
        let mut metric =
            encoder.encode_descriptor("lines_dropped", help, None, MetricType::Counter)?;
        for (stream, count) in ["stdout", "stderr"].into_iter().zip(output::dropped()) {
            metric
                .encode_family(&[("stream", stream)])?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }
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
            Err(_) => {
                http1::refusal(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded\n")
            }
        }
    }
}

#[cfg(test)]
#[path = "exporter_tests.rs"]
pub(crate) mod tests;
