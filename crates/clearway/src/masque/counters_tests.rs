use super::*;

fn traffic(datagrams: u64, bytes: u64) -> Traffic {
    Traffic { datagrams, bytes }
}

#[test]
fn each_change_of_a_tunnel_is_counted_once() {
    let counters = Arc::new(Counters::default());
    let mut one = OpenTunnel::new(&counters, TunnelKind::Udp);
    let mut two = OpenTunnel::new(&counters, TunnelKind::Udp);
    let mut now = UdpStatistics { to_socket: traffic(2, 300), ..UdpStatistics::default() };
    one.update_udp(&now);
    one.update_udp(&now);
    two.update_udp(&now);
    now.to_socket = traffic(3, 400);
    now.to_peer = traffic(1, 7);
    now.dropped.insert(DropReason::Bandwidth, 5);
    one.update_udp(&now);
    now.dropped.insert(DropReason::Bandwidth, 6);
    now.dropped.insert(DropReason::Unanswered, 1);
    one.update_udp(&now);
    let statistics = counters.statistics();
    assert_eq!(statistics.udp.to_targets, traffic(5, 700));
    assert_eq!(statistics.udp.to_clients, traffic(1, 7));
    assert_eq!(statistics.udp_dropped[&DropReason::Bandwidth], 6);
    assert_eq!(statistics.udp_dropped[&DropReason::Unanswered], 1);
    assert_eq!(statistics.udp_dropped[&DropReason::QueueFull], 0);
    assert_eq!((statistics.udp.open, statistics.udp.opened), (2, 2));
    drop(one);
    let statistics = counters.statistics();
    assert_eq!((statistics.udp.open, statistics.udp.opened), (1, 2));
    assert_eq!((statistics.ip, statistics.tcp), Default::default());
}

#[test]
fn kinds_are_counted_separately() {
    let counters = Arc::new(Counters::default());
    let mut ip = OpenTunnel::new(&counters, TunnelKind::Ip);
    let tcp = OpenTunnel::new(&counters, TunnelKind::Tcp);
    let mut now = IpStatistics { received: traffic(1, 60), sent: traffic(2, 90), ..<_>::default() };
    now.dropped.insert(IpDropReason::NotSent, 4);
    ip.update_ip(&now);
    tcp.on_bytes(Direction::ToTarget, 10);
    tcp.on_bytes(Direction::ToClient, 20);
    let statistics = counters.statistics();
    assert_eq!((statistics.ip.to_targets, statistics.ip.to_clients), (now.received, now.sent));
    assert_eq!(statistics.ip_dropped[&IpDropReason::NotSent], 4);
    assert_eq!(statistics.tcp.to_targets, traffic(0, 10));
    assert_eq!(statistics.tcp.to_clients, traffic(0, 20));
    assert_eq!(statistics.of(TunnelKind::Tcp), &statistics.tcp);
    assert_eq!(statistics.udp, TunnelStatistics::default());
}

#[test]
fn refused_requests_are_counted_by_reason() {
    let counters = Counters::default();
    counters.on_unauthenticated();
    for error in [ProxyError::DnsError, ProxyError::ProxyLoopDetected, ProxyError::DnsError] {
        counters.on_refused(error);
    }
    let statistics = counters.statistics();
    assert_eq!(statistics.unauthenticated, 1);
    assert_eq!(statistics.refused[&ProxyError::DnsError], 2);
    assert_eq!(statistics.refused[&ProxyError::ProxyLoopDetected], 1);
    assert_eq!(statistics.refused.values().sum::<u64>(), 3);
}
