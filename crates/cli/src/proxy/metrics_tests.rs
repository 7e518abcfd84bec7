use super::*;
use crate::exporter::tests::{assert_documented, read, text};

fn shown(statistics: ProxyStatistics) -> Registry {
    registry(Shards::new(Vec::new), move || statistics.clone())
}

fn is_of_proxy(name: &str) -> bool {
    name.starts_with("clearway_proxy_")
}

#[test]
fn the_document_lists_what_is_exported() {
    assert_documented(&shown(ProxyStatistics::default()), is_of_proxy);
}

#[test]
fn the_document_lists_every_reason() {
    let document = read("metrics.md");
    let errors = ProxyError::ALL.iter().map(|error| error.token());
    let names = errors
        .chain(DropReason::ALL.map(DropReason::name))
        .chain(IpDropReason::ALL.map(IpDropReason::name))
        .chain([UNAUTHENTICATED]);
    for name in names {
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn counts_have_labels() {
    let mut statistics = ProxyStatistics::default();
    statistics.udp.open = 1;
    statistics.ip.opened = 2;
    statistics.tcp.to_targets = Traffic { datagrams: 0, bytes: 3 };
    statistics.udp.to_clients = Traffic { datagrams: 4, bytes: 5 };
    statistics.unauthenticated = 6;
    statistics.refused.insert(ProxyError::DnsError, 7);
    statistics.udp_dropped.insert(DropReason::Bandwidth, 8);
    statistics.ip_dropped.insert(IpDropReason::Policy, 9);
    let text = text(&shown(statistics));
    for sample in [
        "tunnels{kind=\"udp\"} 1",
        "tunnels_opened_total{kind=\"ip\"} 2",
        "tunnels_opened_total{kind=\"tcp\"} 0",
        "relayed_bytes_total{kind=\"tcp\",direction=\"to_targets\"} 3",
        "datagrams_relayed_total{kind=\"udp\",direction=\"to_clients\"} 4",
        "relayed_bytes_total{kind=\"udp\",direction=\"to_clients\"} 5",
        "tunnels_refused_total{reason=\"unauthenticated\"} 6",
        "tunnels_refused_total{reason=\"dns_error\"} 7",
        "tunnels_refused_total{reason=\"connection_limit_reached\"} 0",
        "datagrams_dropped_total{kind=\"udp\",reason=\"bandwidth\"} 8",
        "datagrams_dropped_total{kind=\"ip\",reason=\"policy\"} 9",
        "datagrams_dropped_total{kind=\"ip\",reason=\"bandwidth\"} 0",
    ] {
        assert!(text.contains(&format!("\nclearway_proxy_{sample}\n")), "{sample}: {text}");
    }
    assert!(!text.contains("clearway_proxy_datagrams_relayed_total{kind=\"tcp\""), "{text}");
}
