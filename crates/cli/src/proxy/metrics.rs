//! The metrics of a proxy.

use std::fmt;

use clearway::Endpoint;
use clearway::masque::ip::IpDropReason;
use clearway::masque::proxy_status::ProxyError;
use clearway::masque::udp::{DropReason, Traffic};
use clearway::masque::{Proxy, ProxyStatistics, TunnelKind, TunnelStatistics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::exporter::{self, Exporter};
use crate::serve::metrics::Shards;

/// The kinds of tunnels, with the values of the label `kind`.
const KINDS: [(TunnelKind, &str); 3] =
    [(TunnelKind::Udp, "udp"), (TunnelKind::Ip, "ip"), (TunnelKind::Tcp, "tcp")];

/// The value of the label `reason` for requests without valid credentials. All other values are the
/// names of Proxy Error Types (RFC 9209 §2.3).
const UNAUTHENTICATED: &str = "unauthenticated";

/// Starts a task that exports a proxy's metrics until another proxy replaces this one.
pub(super) fn start(exporter: Exporter, endpoint: Endpoint, proxy: Proxy) {
    let shards = endpoint.clone();
    let shards = Shards::new(move || shards.shard_statistics());
    let registry = registry(shards, move || proxy.statistics());
    tokio::spawn(async move {
        tokio::select! {
            () = exporter.run(registry) => {}
            () = endpoint.replaced() => {}
        }
    });
}

fn registry(
    shards: Shards,
    read: impl Fn() -> ProxyStatistics + Send + Sync + 'static,
) -> Registry {
    let mut registry = exporter::registry();
    let tunnels = Box::new(Tunnels { read: Box::new(read) });
    registry.sub_registry_with_prefix("proxy").register_collector(tunnels);
    registry.sub_registry_with_prefix("quic").register_collector(Box::new(shards));
    registry
}

/// Collector that reads the counters when the metrics are requested.
struct Tunnels {
    read: Box<dyn Fn() -> ProxyStatistics + Send + Sync>,
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

impl Collector for Tunnels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let statistics = (self.read)();
        encode_tunnels(&mut encoder, &statistics)?;
        encode_refused(&mut encoder, &statistics)?;
        encode_traffic(&mut encoder, &statistics)?;
        encode_dropped(&mut encoder, &statistics)
    }
}

fn encode_tunnels(
    encoder: &mut DescriptorEncoder<'_>,
    statistics: &ProxyStatistics,
) -> fmt::Result {
    let mut open =
        encoder.encode_descriptor("tunnels", "Open tunnels.", None, MetricType::Gauge)?;
    for (kind, name) in KINDS {
        open.encode_family(&[("kind", name)])?.encode_gauge(&statistics.of(kind).open)?;
    }
    let help = "Tunnels opened.";
    let mut opened =
        encoder.encode_descriptor("tunnels_opened", help, None, MetricType::Counter)?;
    for (kind, name) in KINDS {
        opened
            .encode_family(&[("kind", name)])?
            .encode_counter::<NoLabelSet, _, f64>(&statistics.of(kind).opened, None)?;
    }
    Ok(())
}

fn encode_refused(
    encoder: &mut DescriptorEncoder<'_>,
    statistics: &ProxyStatistics,
) -> fmt::Result {
    let help = "Requests for tunnels that were refused.";
    let mut refused =
        encoder.encode_descriptor("tunnels_refused", help, None, MetricType::Counter)?;
    let count = |error: &ProxyError| statistics.refused.get(error).copied().unwrap_or_default();
    let by_error = ProxyError::ALL.iter().map(|error| (error.token(), count(error)));
    for (reason, count) in by_error.chain([(UNAUTHENTICATED, statistics.unauthenticated)]) {
        refused
            .encode_family(&[("reason", reason)])?
            .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
    }
    Ok(())
}

/// Encodes the traffic in both directions. TCP tunnels have no datagrams.
fn encode_traffic(
    encoder: &mut DescriptorEncoder<'_>,
    statistics: &ProxyStatistics,
) -> fmt::Result {
    type Read = fn(&TunnelStatistics) -> Traffic;
    const DIRECTIONS: [(&str, Read); 2] =
        [("to_targets", |it| it.to_targets), ("to_clients", |it| it.to_clients)];
    let help = "Bytes relayed: UDP payloads, IP packets and TCP data.";
    let mut bytes =
        encoder.encode_descriptor("relayed", help, Some(&Unit::Bytes), MetricType::Counter)?;
    for (kind, name) in KINDS {
        for (direction, read) in DIRECTIONS {
            bytes
                .encode_family(&[("kind", name), ("direction", direction)])?
                .encode_counter::<NoLabelSet, _, f64>(&read(statistics.of(kind)).bytes, None)?;
        }
    }
    let help = "UDP payloads and IP packets relayed.";
    let mut datagrams =
        encoder.encode_descriptor("datagrams_relayed", help, None, MetricType::Counter)?;
    for (kind, name) in KINDS.into_iter().filter(|(kind, _)| *kind != TunnelKind::Tcp) {
        for (direction, read) in DIRECTIONS {
            datagrams
                .encode_family(&[("kind", name), ("direction", direction)])?
                .encode_counter::<NoLabelSet, _, f64>(&read(statistics.of(kind)).datagrams, None)?;
        }
    }
    Ok(())
}

fn encode_dropped(
    encoder: &mut DescriptorEncoder<'_>,
    statistics: &ProxyStatistics,
) -> fmt::Result {
    let help = "UDP payloads and IP packets dropped.";
    let mut dropped =
        encoder.encode_descriptor("datagrams_dropped", help, None, MetricType::Counter)?;
    let ProxyStatistics { udp_dropped, ip_dropped, .. } = statistics;
    let udp = DropReason::ALL.map(|reason| {
        ("udp", reason.name(), udp_dropped.get(&reason).copied().unwrap_or_default())
    });
    let ip = IpDropReason::ALL
        .map(|reason| ("ip", reason.name(), ip_dropped.get(&reason).copied().unwrap_or_default()));
    for (kind, reason, count) in udp.into_iter().chain(ip) {
        dropped
            .encode_family(&[("kind", kind), ("reason", reason)])?
            .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
