//! The metrics of a DNS forwarder.

use std::fmt;

use clearway_dns::{
    Forwarder, ForwarderStatistics, Handler, Protocol, Server, ServerStatistics, UpstreamStatistics,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::exporter;

/// Returns the registry with the metrics of a server and its forwarder.
pub(super) fn registry<H: Handler>(server: Server<H>, forwarder: Forwarder) -> Registry {
    let read = move || (server.statistics(), forwarder.statistics());
    let mut registry = exporter::registry();
    let dns = registry.sub_registry_with_prefix("dns");
    dns.register_collector(Box::new(Dns { read: Box::new(read) }));
    registry
}

/// Collector that reads the counters when the metrics are requested.
struct Dns {
    read: Box<dyn Fn() -> (ServerStatistics, ForwarderStatistics) + Send + Sync>,
}

impl fmt::Debug for Dns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Dns").finish_non_exhaustive()
    }
}

impl Collector for Dns {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (server, forwarder) = (self.read)();
        encode_clients(&mut encoder, &server)?;
        encode_forwarder(&mut encoder, &forwarder)?;
        encode_upstreams(&mut encoder, &forwarder.upstreams)
    }
}

fn encode_clients(
    encoder: &mut DescriptorEncoder<'_>,
    server: &ServerStatistics,
) -> Result<(), fmt::Error> {
    let help = "Queries received.";
    let mut queries = encoder.encode_descriptor("queries", help, None, MetricType::Counter)?;
    for (protocol, count) in Protocol::ALL.into_iter().zip(server.queries) {
        queries
            .encode_family(&[("protocol", protocol.name())])?
            .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
    }
    let counts = [
        ("responses", "Responses sent.", server.responses),
        (
            "queries_overload",
            "Queries rejected because too many were outstanding.",
            server.overloads,
        ),
        ("queries_cancelled", "Queries that the client canceled.", server.cancellations),
        ("queries_too_early", "Unsafe operations refused in early data.", server.too_early),
        ("queries_timed_out", "Queries abandoned at the time limit.", server.timeouts),
        ("queries_malformed", "Queries that are not DNS messages.", server.malformed),
        ("violations", "Connections closed with DOQ_PROTOCOL_ERROR.", server.violations),
        ("panics", "Queries whose processing panicked.", server.panics),
    ];
    encode_counts(encoder, counts)
}

fn encode_forwarder(
    encoder: &mut DescriptorEncoder<'_>,
    forwarder: &ForwarderStatistics,
) -> Result<(), fmt::Error> {
    let counts = [
        ("cache_hits", "Queries answered from the cache.", forwarder.hits),
        ("cache_misses", "Queries not answered from the cache.", forwarder.misses),
        (
            "queries_coalesced",
            "Cache misses that waited for the response to an identical query.",
            forwarder.coalesced,
        ),
        ("queries_failed", "Queries that no upstream server answered.", forwarder.failures),
        ("queries_refused", "Queries that are not forwarded.", forwarder.rejected),
    ];
    encode_counts(encoder, counts)?;
    let help = "Responses in the cache.";
    encoder
        .encode_descriptor("cache_entries", help, None, MetricType::Gauge)?
        .encode_gauge(&forwarder.cache_entries)?;
    let help = "Memory that the cache occupies.";
    encoder
        .encode_descriptor("cache", help, Some(&Unit::Bytes), MetricType::Gauge)?
        .encode_gauge(&forwarder.cache_bytes)
}

fn encode_counts<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    counts: [(&'static str, &'static str, u64); N],
) -> Result<(), fmt::Error> {
    for (name, help, value) in counts {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
    }
    Ok(())
}

fn encode_upstreams(
    encoder: &mut DescriptorEncoder<'_>,
    upstreams: &[UpstreamStatistics],
) -> Result<(), fmt::Error> {
    let help = "Whether the upstream server is used: 1, or 0 while it is down.";
    let mut up = encoder.encode_descriptor("upstream_up", help, None, MetricType::Gauge)?;
    for upstream in upstreams {
        let labels = [("upstream", upstream.url.as_str())];
        up.encode_family(&labels)?.encode_gauge(&i64::from(upstream.is_up))?;
    }
    type Read = fn(&UpstreamStatistics) -> u64;
    let counts: [(&str, &str, Read); 3] = [
        ("upstream_queries", "Queries sent to the upstream server.", |it| it.queries),
        ("upstream_failures", "Queries that the upstream server did not answer.", |it| it.failures),
        ("upstream_probes", "Probes sent while the upstream server was down.", |it| it.probes),
    ];
    for (name, help, read) in counts {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for upstream in upstreams {
            metric
                .encode_family(&[("upstream", upstream.url.as_str())])?
                .encode_counter::<NoLabelSet, _, f64>(&read(upstream), None)?;
        }
    }
    Ok(())
}
