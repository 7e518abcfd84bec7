//! IP tunnels (RFC 9484) between a client and a proxy with an in-memory device.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{self, Client, PROTOCOL, Server};
use clearway::masque::ip::{AssignedAddress, IpDropReason, IpHeader, Routes};
use clearway::masque::pool::AddressPool;
use clearway::masque::request::ResponseError;
use clearway::masque::target::{IpScope, ScopeTarget};
use clearway::masque::{
    self, IpDevice, IpEvent, IpOptions, IpRouter, IpTunnel, Origin, Proxy, ProxyOptions, Served,
    TunnelError, TunnelKind, UriTemplate,
};
use clearway::{Endpoint, TransportConfig};
use http::{HeaderMap, StatusCode};
use ipnet::IpNet;
use tokio::sync::mpsc;

use crate::support::{configs, loopback, run};

/// A device that records packets from tunnels, and returns packets that the test has queued.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    incoming: VecDeque<Bytes>,
    /// Packets from tunnels since the last flush.
    collected: Vec<Bytes>,
    sent: Vec<Bytes>,
    waker: Option<Waker>,
}

impl IpDevice for Wire {
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut ends = self.0.lock().unwrap();
        match ends.incoming.pop_front() {
            Some(packet) => Poll::Ready(Ok(packet)),
            None => {
                ends.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().collected.push(Bytes::copy_from_slice(packet));
        Ok(())
    }

    fn flush(&self) {
        let Ends { collected, sent, .. } = &mut *self.0.lock().unwrap();
        sent.append(collected);
    }
}

impl Wire {
    fn push(&self, packet: Vec<u8>) {
        let mut ends = self.0.lock().unwrap();
        ends.incoming.push_back(packet.into());
        if let Some(waker) = ends.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next packet of a tunnel.
    async fn sent(&self) -> Bytes {
        loop {
            if let Some(packet) = self.0.lock().unwrap().sent.pop() {
                return packet;
            }
            tokio::task::yield_now().await;
        }
    }
}

struct Service {
    client: Client,
    template: UriTemplate,
    wire: Wire,
    router: IpRouter,
    proxy: Proxy,
    served: mpsc::UnboundedReceiver<Served>,
    _endpoint: Endpoint,
}

struct Setup {
    transport: TransportConfig,
    datagrams: bool,
    pool: &'static [&'static str],
    addresses_per_tunnel: usize,
}

impl Default for Setup {
    fn default() -> Self {
        let transport = masque::transport_config(TransportConfig::builder()).build().unwrap();
        let pool = &["10.99.0.0/24", "fd00:99::/64"];
        Self { transport, datagrams: true, pool, addresses_per_tunnel: 2 }
    }
}

impl Service {
    /// Starts a proxy that permits 10.1.0.0/16, fd00:1::/32 and public addresses.
    async fn with(setup: Setup) -> Self {
        let (server, config) = configs(setup.transport, std::str::from_utf8(PROTOCOL).unwrap());
        let http3 = http3::Config {
            extended_connect: true,
            datagrams: setup.datagrams,
            ..http3::Config::default()
        };
        let server = Server::bind_with(loopback(), server, http3.clone()).unwrap();
        let address = server.local_address();
        let wire = Wire::default();
        let router = IpRouter::new(wire.clone());
        let mut options = ProxyOptions::default();
        let rules =
            ["allow 10.1.0.0/16", "allow fd00:1::/32", "allow localhost", "allow 127.0.0.1"];
        for rule in rules {
            options.policy = options.policy.with_rule(rule.parse().unwrap());
        }
        if !setup.pool.is_empty() {
            let pool: Vec<IpNet> = setup.pool.iter().map(|it| it.parse().unwrap()).collect();
            let mut ip = IpOptions::new(AddressPool::new(&pool).unwrap(), router.clone());
            ip.addresses_per_tunnel = setup.addresses_per_tunnel;
            options.ip = Some(ip);
        }
        let proxy = Proxy::new(options);
        let (sender, served) = mpsc::unbounded_channel();
        let (serving, running) = (proxy.clone(), router.clone());
        tokio::spawn(async move { running.run().await });
        tokio::spawn(async move {
            while let Some((request, responder)) = server.accept().await {
                let (proxy, sender) = (serving.clone(), sender.clone());
                tokio::spawn(async move { sender.send(proxy.serve(request, responder).await) });
            }
        });
        let template =
            UriTemplate::well_known(TunnelKind::Ip, address.to_string().parse().unwrap());
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client =
            Client::connect_with(&endpoint, &config, address, "localhost", http3).await.unwrap();
        Self { client, template, wire, router, proxy, served, _endpoint: endpoint }
    }

    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn open(&self, scope: &IpScope) -> IpTunnel {
        self.client.connect_ip(&self.template, scope, HeaderMap::new()).await.unwrap()
    }

    /// Opens a tunnel, requests addresses, and waits for them.
    async fn tunnel(&self) -> IpTunnel {
        let mut tunnel = self.open(&IpScope::ANY).await;
        tunnel.request_addresses(&any()).unwrap();
        assigned(&mut tunnel).await;
        tunnel
    }
}

fn any() -> [IpNet; 2] {
    ["0.0.0.0/32", "::/128"].map(|it| it.parse().unwrap())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Waits for addresses and routes.
async fn assigned(tunnel: &mut IpTunnel) -> Vec<AssignedAddress> {
    let mut assigned = None;
    while assigned.is_none() || tunnel.routes().ranges().is_empty() {
        if let IpEvent::Assigned(addresses) = tunnel.receive().await.unwrap().unwrap() {
            assigned = Some(addresses);
        }
    }
    assigned.unwrap()
}

async fn packet(tunnel: &mut IpTunnel) -> Bytes {
    loop {
        if let IpEvent::Packet(packet) = tunnel.receive().await.unwrap().unwrap() {
            return packet;
        }
    }
}

/// Returns a UDP packet of `length` bytes; its checksums are valid only in the IP header.
fn udp(source: &str, destination: &str, length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    let total = (length as u16).to_be_bytes();
    match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet[..10].copy_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17]);
            packet[12..16].copy_from_slice(&source.octets());
            packet[16..20].copy_from_slice(&destination.octets());
            let words = packet[..20].chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1]));
            let sum: u32 = words.sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let payload = (length as u16 - 40).to_be_bytes();
            packet[..8].copy_from_slice(&[0x60, 0, 0, 0, payload[0], payload[1], 17, 64]);
            packet[8..24].copy_from_slice(&source.octets());
            packet[24..40].copy_from_slice(&destination.octets());
        }
        _ => panic!("two IP versions"),
    }
    packet
}

/// Returns the type and the code of an ICMP message.
fn icmp(packet: &[u8]) -> (u8, u8) {
    let header = IpHeader::parse(packet).unwrap();
    assert!(header.is_icmp());
    (packet[header.payload_offset], packet[header.payload_offset + 1])
}

#[test]
fn addresses_and_routes_are_announced_by_capsules() {
    run(async {
        let mut service = Service::new().await;
        let mut tunnel = service.open(&IpScope::ANY).await;
        assert!(tunnel.addresses().is_empty());
        tunnel.request_addresses(&any()).unwrap();
        let addresses = assigned(&mut tunnel).await;
        let ids: Vec<u64> = addresses.iter().map(|it| it.request_id).collect();
        assert_eq!(ids, [1, 2]);
        let expected = ["10.99.0.2/32", "fd00:99::2/128"].map(|it| it.parse::<IpNet>().unwrap());
        assert_eq!(tunnel.addresses(), expected);
        let all = [IpNet::default(), "::/0".parse().unwrap()].map(Into::into);
        assert_eq!(tunnel.routes().ranges(), all);
        // One address of each version is the limit of a tunnel.
        tunnel.request_addresses(&["10.99.0.77/32".parse().unwrap()]).unwrap();
        let addresses = assigned(&mut tunnel).await;
        assert!(addresses.iter().any(AssignedAddress::is_rejection), "{addresses:?}");
        assert_eq!(service.router.addresses(), 2);
        tunnel.close();
        let served = service.served.recv().await.unwrap();
        assert_eq!(served.addresses, ["10.99.0.2", "fd00:99::2"].map(ip));
        assert_eq!((served.scope, served.outcome.as_str()), (Some(IpScope::ANY), "closed"));
        assert_eq!((service.router.addresses(), service.proxy.tunnels()), (0, 0));
    });
}

#[test]
fn packets_pass_to_and_from_the_device() {
    run(async {
        let service = Service::new().await;
        let [mut one, mut two] = [service.tunnel().await, service.tunnel().await];
        let pairs =
            [("10.99.0.2", "10.1.0.1"), ("fd00:99::2", "fd00:1::1"), ("10.99.0.2", "8.8.8.8")];
        for (own, other) in pairs {
            for length in [60, 1280] {
                let out = udp(own, other, length);
                assert_eq!(one.send(&out, Origin::Local).unwrap(), None);
                assert_eq!(service.wire.sent().await, out);
                let back = udp(other, own, length);
                service.wire.push(back.clone());
                assert_eq!(packet(&mut one).await, back);
            }
        }
        // Each tunnel receives only what is for its own addresses.
        service.wire.push(udp("10.1.0.1", "10.99.0.3", 100));
        let other = packet(&mut two).await;
        assert_eq!(IpHeader::parse(&other).unwrap().destination, ip("10.99.0.3"));
        assert_eq!(one.statistics().received.datagrams, 6);
        assert_eq!(two.statistics().received.datagrams, 1);
    });
}

/// Without DATAGRAM frames, packets travel in capsules (RFC 9297 §3.5), of any length.
#[test]
fn capsules_carry_packets_without_datagrams() {
    run(async {
        let setup =
            Setup { transport: TransportConfig::default(), datagrams: false, ..Setup::default() };
        let service = Service::with(setup).await;
        let mut tunnel = service.tunnel().await;
        assert_eq!(tunnel.max_packet(), None);
        for length in [60, 1500, 9000] {
            let out = udp("fd00:99::2", "fd00:1::1", length);
            assert_eq!(tunnel.send(&out, Origin::Local).unwrap(), None);
            assert_eq!(service.wire.sent().await, out);
            let back = udp("fd00:1::1", "fd00:99::2", length);
            service.wire.push(back.clone());
            assert_eq!(packet(&mut tunnel).await, back);
        }
    });
}

/// RFC 9484 §7.1: IPv6 packets of 1280 bytes fit. §7.2.1: larger ones are reported by ICMP, on both
/// sides.
#[test]
fn packets_that_are_too_big_are_reported() {
    run(async {
        let service = Service::new().await;
        let mut tunnel = service.tunnel().await;
        let maximum = tunnel.max_packet().unwrap();
        assert!((1280..1500).contains(&maximum), "{maximum}");
        for (own, other, kind) in
            [("10.99.0.2", "10.1.0.1", (3, 4)), ("fd00:99::2", "fd00:1::1", (2, 0))]
        {
            let reply = tunnel.send(&udp(own, other, 3000), Origin::Local).unwrap().unwrap();
            assert_eq!(icmp(&reply), kind);
            assert_eq!(IpHeader::parse(&reply).unwrap().destination, ip(own));
            service.wire.push(udp(other, own, 3000));
            let reply = service.wire.sent().await;
            assert_eq!(icmp(&reply), kind);
            assert_eq!(IpHeader::parse(&reply).unwrap().destination, ip(other));
        }
    });
}

/// The policy applies to each destination, and clients cannot use other source addresses, whatever
/// they advertise.
#[test]
fn the_proxy_checks_sources_and_destinations() {
    run(async {
        let service = Service::new().await;
        let mut tunnel = service.tunnel().await;
        for (own, other, kind) in [
            ("10.99.0.2", "10.2.0.1", (3, 13)),
            ("10.99.0.2", "10.99.0.3", (3, 13)),
            ("fd00:99::2", "fd00:2::1", (1, 1)),
        ] {
            assert_eq!(tunnel.send(&udp(own, other, 100), Origin::Local).unwrap(), None);
            assert_eq!(icmp(&packet(&mut tunnel).await), kind, "{other}");
        }
        let everything = Routes::sorted(vec![IpNet::default().into()]).unwrap();
        tunnel.advertise_routes(everything).unwrap();
        let address = AssignedAddress { request_id: 0, prefix: "10.1.0.0/16".parse().unwrap() };
        tunnel.assign_addresses(&[address]).unwrap();
        assert_eq!(tunnel.send(&udp("8.8.8.8", "10.1.0.1", 100), Origin::Local).unwrap(), None);
        assert_eq!(icmp(&packet(&mut tunnel).await), (3, 13));
        assert!(service.wire.0.lock().unwrap().sent.is_empty());
        // The reply to a packet may arrive before the packet is counted.
        while service.proxy.statistics().ip_dropped[&IpDropReason::Source] == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let statistics = service.proxy.statistics();
        assert_eq!((statistics.ip.open, statistics.ip.opened), (1, 1));
        assert_eq!(statistics.ip_dropped[&IpDropReason::Policy], 3);
        assert_eq!(statistics.ip_dropped[&IpDropReason::Source], 1);
        assert_eq!(statistics.ip.to_targets.datagrams, 0);
    });
}

/// The gateway of the pool is the proxy itself.
#[test]
fn the_proxy_answers_echo_requests() {
    run(async {
        let service = Service::new().await;
        let mut tunnel = service.tunnel().await;
        let mut request = udp("10.99.0.2", "10.99.0.1", 28);
        // ICMP instead of UDP, and the checksum with it.
        request[9] = 1;
        let sum = u16::from_be_bytes([request[10], request[11]]) + 16;
        request[10..12].copy_from_slice(&sum.to_be_bytes());
        request[20..24].copy_from_slice(&[8, 0, 0xf7, 0xff]);
        assert_eq!(tunnel.send(&request, Origin::Local).unwrap(), None);
        assert_eq!(icmp(&packet(&mut tunnel).await), (0, 0));
    });
}

/// RFC 9484 §4.6: the scope limits routes and protocols.
#[test]
fn routes_follow_the_scope() {
    run(async {
        let service = Service::new().await;
        let target = ScopeTarget::parse("10.1.2.0/24").unwrap();
        let mut tunnel = service.open(&IpScope { target, protocol: Some(17) }).await;
        tunnel.request_addresses(&any()).unwrap();
        assigned(&mut tunnel).await;
        let ranges = tunnel.routes().ranges();
        assert_eq!(ranges.len(), 1);
        assert_eq!((ranges[0].start, ranges[0].protocol), (ip("10.1.2.0"), 17));
        assert_eq!(tunnel.send(&udp("10.99.0.2", "10.1.2.3", 100), Origin::Local).unwrap(), None);
        service.wire.sent().await;
        // The client knows the routes, too.
        let reply = tunnel.send(&udp("10.99.0.2", "10.1.3.3", 100), Origin::Local).unwrap();
        assert_eq!(icmp(&reply.unwrap()), (3, 0));
        let target = ScopeTarget::parse("localhost").unwrap();
        let mut named = service.open(&IpScope { target, protocol: None }).await;
        while named.routes().ranges().is_empty() {
            named.receive().await.unwrap().unwrap();
        }
        assert!(named.routes().contains(ip("127.0.0.1"), 6));
    });
}

/// A client that requests no addresses gets some, after a while.
#[test]
fn addresses_are_assigned_without_a_request() {
    run(async {
        let service = Service::new().await;
        let mut tunnel = service.open(&IpScope::ANY).await;
        let addresses = assigned(&mut tunnel).await;
        assert_eq!(addresses.len(), 2);
        assert!(addresses.iter().all(|it| it.request_id == 0));
    });
}

#[test]
fn a_tunnel_may_have_any_number_of_addresses() {
    run(async {
        for (addresses_per_tunnel, expected) in [(0, 0), (usize::MAX, 4)] {
            let service = Service::with(Setup { addresses_per_tunnel, ..Setup::default() }).await;
            let mut tunnel = service.tunnel().await;
            tunnel.request_addresses(&any()).unwrap();
            assigned(&mut tunnel).await;
            assert_eq!(tunnel.addresses().len(), expected);
        }
    });
}

#[test]
fn an_exhausted_pool_rejects_requests() {
    run(async {
        let service = Service::with(Setup { pool: &["10.99.0.0/30"], ..Setup::default() }).await;
        let first = service.tunnel().await;
        assert_eq!(first.addresses().len(), 1);
        let mut second = service.open(&IpScope::ANY).await;
        second.request_addresses(&any()).unwrap();
        let addresses = assigned(&mut second).await;
        assert!(addresses.iter().all(AssignedAddress::is_rejection), "{addresses:?}");
        first.close();
        // The address is free as soon as the proxy has noticed.
        while second.addresses().is_empty() {
            second.request_addresses(&any()[..1]).unwrap();
            assigned(&mut second).await;
        }
    });
}

#[test]
fn a_proxy_without_a_pool_refuses_ip_tunnels() {
    run(async {
        let service = Service::with(Setup { pool: &[], ..Setup::default() }).await;
        let opening = service.client.connect_ip(&service.template, &IpScope::ANY, HeaderMap::new());
        let error = opening.await.unwrap_err();
        let TunnelError::Refused(ResponseError::Refused { status, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!(*status, StatusCode::NOT_IMPLEMENTED);
        assert!(error.to_string().contains("address pool"), "{error}");
    });
}
