use core::time::Duration;

use clearway_http3::{CapsuleError, Code};
use proptest::prelude::*;

use super::super::AddressRange;
use super::super::test_packets::{hex, ip, packet};
use super::*;

const NOW: Timestamp = Timestamp::ORIGIN;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn routes(networks: &[&str]) -> Routes {
    Routes::sorted(networks.iter().map(|text| AddressRange::from(net(text))).collect()).unwrap()
}

fn assigned(request_id: u64, prefix: &str) -> AssignedAddress {
    AssignedAddress { request_id, prefix: net(prefix) }
}

/// Passes a capsule to a tunnel.
fn receive(tunnel: &mut IpTunnel, capsule: Bytes) -> IpReceived {
    let mut content = capsule;
    let received = tunnel.receive_content(&mut content, NOW).unwrap();
    assert_eq!(tunnel.receive_content(&mut content, NOW), None);
    received
}

/// Returns the client and the proxy of a remote access VPN (RFC 9484 §8.1), with both IP versions.
fn vpn(protocol: Option<u8>) -> (IpTunnel, IpTunnel) {
    let own = OwnAddresses {
        v4: Some("192.0.2.1".parse().unwrap()),
        v6: Some("2001:db8::1".parse().unwrap()),
    };
    let mut client = IpTunnel::new(Side::Client, protocol, OwnAddresses::default(), NOW);
    let mut proxy = IpTunnel::new(Side::Proxy, protocol, own, NOW);
    let request = client.request(&[net("0.0.0.0/32"), net("::/128")]).unwrap();
    let IpReceived::Requested(requests) = receive(&mut proxy, request) else { panic!() };
    assert_eq!(requests.iter().map(|it| it.request_id).collect::<Vec<_>>(), [1, 2]);
    let addresses = [assigned(1, "192.0.2.11/32"), assigned(2, "2001:db8::11/128")];
    let capsule = proxy.assign(&addresses).unwrap();
    assert_eq!(receive(&mut client, capsule), IpReceived::Assigned(addresses.to_vec()));
    let capsule = proxy.advertise(routes(&["0.0.0.0/0", "::/0"]));
    assert_eq!(receive(&mut client, capsule), IpReceived::RoutesChanged);
    assert_eq!(client.our_addresses(), [net("192.0.2.11/32"), net("2001:db8::11/128")]);
    (client, proxy)
}

fn to_peer(tunnel: &mut IpTunnel, packet: &[u8]) -> IpSent {
    tunnel.send_packet(packet, Origin::Forwarded, Some(1400), NOW)
}

fn from_peer(tunnel: &mut IpTunnel, packet: &[u8]) -> IpReceived {
    tunnel.receive_datagram(Datagram::encode(ContextId::PAYLOAD, packet), NOW)
}

#[test]
fn packets_pass_in_both_directions() {
    let (mut client, mut proxy) = vpn(None);
    for (own, other) in [("192.0.2.11", "198.51.100.7"), ("2001:db8::11", "2001:db8:1::7")] {
        let out = packet(own, other, 17, b"to the target");
        let sent = client.send_packet(&out, Origin::Local, Some(1400), NOW);
        let IpSent::Datagram(datagram) = sent else { panic!("{sent:?}") };
        assert_eq!(datagram[1..], out);
        assert_eq!(proxy.receive_datagram(datagram, NOW), IpReceived::Forward(out.into()));
        let back = packet(other, own, 17, b"from the target");
        let IpSent::Datagram(datagram) = to_peer(&mut proxy, &back) else { panic!() };
        let IpReceived::Forward(arrived) = client.receive_datagram(datagram, NOW) else { panic!() };
        let header = IpHeader::parse(&arrived).unwrap();
        assert_eq!((header.hop_limit, header.source), (63, ip(other)));
    }
    assert_eq!(proxy.statistics().received.datagrams, 2);
    assert_eq!(proxy.statistics().sent.datagrams, 2);
    assert!(proxy.statistics().dropped.is_empty());
}

/// Tests the checks of RFC 9484 §7.2, with the errors of §7.2.1.
#[test]
fn section_7_2_1_errors_are_reported() {
    let (_, mut proxy) = vpn(Some(17));
    proxy.our_routes = routes(&["198.51.100.0/24", "2001:db8:1::/48"]);
    let mut check = |source: &str, destination: &str, protocol, expected: Option<[u8; 2]>| {
        let packet = packet(source, destination, protocol, &[8, 0, 0, 0, 0, 0, 0, 0]);
        let (kind, reason) = match from_peer(&mut proxy, &packet) {
            IpReceived::Reply { datagram, reason } => {
                let header = IpHeader::parse(&datagram[1..]).unwrap();
                assert_eq!(header.destination, ip(source));
                let message = &datagram[1 + header.payload_offset..];
                (Some([message[0], message[1]]), reason)
            }
            IpReceived::Ignored(reason) => (None, reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind, expected, "{source} {destination}");
        reason
    };
    let reason = check("192.0.2.12", "198.51.100.7", 17, Some([3, 13]));
    assert_eq!(reason, IpDropReason::Source);
    let reason = check("2001:db8::12", "2001:db8:1::7", 17, Some([1, 5]));
    assert_eq!(reason, IpDropReason::Source);
    let reason = check("192.0.2.11", "8.8.8.8", 17, Some([3, 0]));
    assert_eq!(reason, IpDropReason::Destination);
    let reason = check("2001:db8::11", "2001:db8:2::7", 17, Some([1, 0]));
    assert_eq!(reason, IpDropReason::Destination);
    let reason = check("192.0.2.11", "198.51.100.7", 6, Some([3, 13]));
    assert_eq!(reason, IpDropReason::Protocol);
    let reason = check("2001:db8::11", "2001:db8:1::7", 6, Some([1, 1]));
    assert_eq!(reason, IpDropReason::Protocol);
    for (source, destination, reason) in [
        ("127.0.0.1", "198.51.100.7", IpDropReason::Source),
        ("224.0.1.1", "198.51.100.7", IpDropReason::Source),
        ("::", "2001:db8:1::7", IpDropReason::Source),
        ("fe80::1", "2001:db8:1::7", IpDropReason::LinkLocal),
        ("2001:db8::11", "ff02::2", IpDropReason::LinkLocal),
        ("169.254.0.1", "198.51.100.7", IpDropReason::LinkLocal),
    ] {
        assert_eq!(check(source, destination, 17, None), reason);
    }
    let counts = proxy.statistics().dropped.values().sum::<u64>();
    assert_eq!(counts, 12);
}

/// Tests the requirements of RFC 9484 §4.6 and §7.2.1.
#[test]
fn section_4_6_icmp_is_in_every_scope() {
    let (mut client, mut proxy) = vpn(Some(17));
    let message = [8, 0, 0, 0, 0, 0, 0, 0];
    let echo = packet("192.0.2.11", "198.51.100.7", 1, &message);
    assert!(matches!(from_peer(&mut proxy, &echo), IpReceived::Forward(_)));
    // A router outside of the advertised routes reports an error.
    let capsule = proxy.advertise(routes(&["198.51.100.0/24"]));
    _ = receive(&mut client, capsule);
    let error = packet("203.0.113.9", "192.0.2.11", 1, &[11, 0, 0, 0, 0, 0, 0, 0]);
    let IpSent::Datagram(datagram) = to_peer(&mut proxy, &error) else { panic!() };
    assert!(matches!(client.receive_datagram(datagram, NOW), IpReceived::Forward(_)));
    let other = packet("203.0.113.9", "192.0.2.11", 17, &message);
    let IpSent::Reply { reason, .. } = to_peer(&mut proxy, &other) else { panic!() };
    assert_eq!(reason, IpDropReason::Source);
    // A client cannot spoof addresses in ICMP.
    let spoofed = packet("203.0.113.9", "198.51.100.7", 1, &message);
    let IpReceived::Reply { reason, .. } = from_peer(&mut proxy, &spoofed) else { panic!() };
    assert_eq!(reason, IpDropReason::Source);
}

#[test]
fn packets_that_are_too_big_or_old_are_reported_to_their_source() {
    let (_, mut proxy) = vpn(None);
    let big4 = packet("198.51.100.7", "192.0.2.11", 17, &[0; 1380]);
    let IpSent::Reply { packet: reply, reason } = to_peer(&mut proxy, &big4) else { panic!() };
    assert_eq!((reason, &reply[20..22]), (IpDropReason::TooBig, &[3, 4][..]));
    assert_eq!(reply[26..28], 1399u16.to_be_bytes());
    let big6 = packet("2001:db8:1::7", "2001:db8::11", 17, &[0; 1360]);
    let IpSent::Reply { packet: reply, .. } = to_peer(&mut proxy, &big6) else { panic!() };
    assert_eq!((&reply[40..42], &reply[44..48]), (&[2, 0][..], &1399u32.to_be_bytes()[..]));
    // Without DATAGRAM frames, any packet fits.
    let sent = proxy.send_packet(&big6, Origin::Forwarded, None, NOW);
    assert!(matches!(sent, IpSent::Datagram(_)));
    let mut old = packet("2001:db8:1::7", "2001:db8::11", 17, &[0; 8]);
    old[7] = 1;
    let IpSent::Reply { packet: reply, reason } = to_peer(&mut proxy, &old) else { panic!() };
    assert_eq!((reason, &reply[40..42]), (IpDropReason::HopLimit, &[3, 0][..]));
    let sent = proxy.send_packet(&old, Origin::Local, Some(1400), NOW);
    assert!(matches!(sent, IpSent::Datagram(_)));
}

#[test]
fn prohibited_destinations_are_reported() {
    let (_, mut proxy) = vpn(None);
    let packet4 = packet("192.0.2.11", "198.51.100.7", 17, &[0; 8]);
    let reply = proxy.prohibit(&packet4, NOW).unwrap();
    assert_eq!(reply[21..23], [3, 13]);
    let packet6 = packet("2001:db8::11", "2001:db8:1::7", 17, &[0; 8]);
    let reply = proxy.prohibit(&packet6, NOW).unwrap();
    assert_eq!(reply[41..43], [1, 1]);
    assert_eq!(proxy.statistics().dropped[&IpDropReason::Policy], 2);
}

/// Packets that the caller drops do not count as passed.
#[test]
fn discarded_packets_are_counted_by_reason() {
    let (_, mut proxy) = vpn(None);
    let out = packet("192.0.2.11", "198.51.100.7", 17, &[0; 8]);
    for _ in 0..3 {
        assert!(matches!(from_peer(&mut proxy, &out), IpReceived::Forward(_)));
    }
    _ = proxy.prohibit(&out, NOW);
    proxy.discard_received(out.len(), IpDropReason::Bandwidth);
    let back = packet("198.51.100.7", "192.0.2.11", 17, &[0; 8]);
    assert!(matches!(to_peer(&mut proxy, &back), IpSent::Datagram(_)));
    proxy.discard_sent(back.len(), IpDropReason::NotSent);
    proxy.discard(5, IpDropReason::QueueFull);
    proxy.discard(0, IpDropReason::Malformed);
    let statistics = proxy.statistics();
    assert_eq!(statistics.received, Traffic { datagrams: 1, bytes: out.len() as u64 });
    assert_eq!(statistics.sent, Traffic::default());
    let dropped: Vec<_> =
        statistics.dropped.iter().map(|(reason, count)| (reason.name(), *count)).collect();
    assert_eq!(dropped, [("policy", 1), ("bandwidth", 1), ("queue_full", 5), ("not_sent", 1)]);
}

#[test]
fn echo_requests_to_the_own_address_are_answered() {
    let (_, mut proxy) = vpn(None);
    let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let request = packet("192.0.2.11", "192.0.2.1", 1, &echo);
    let reply = proxy.own_echo(&request, NOW).unwrap();
    assert_eq!(IpHeader::parse(&reply[1..]).unwrap().destination, ip("192.0.2.11"));
    assert_eq!(reply[21], 0);
    let other = packet("192.0.2.11", "198.51.100.7", 1, &echo);
    assert_eq!(proxy.own_echo(&other, NOW), None);
}

/// A client that advertises routes or assigns addresses gains no permissions if the proxy discards
/// them.
#[test]
fn discarded_routes_and_addresses_permit_nothing() {
    let (mut client, mut proxy) = vpn(None);
    proxy.our_routes = routes(&["198.51.100.0/24"]);
    let capsule = client.advertise(routes(&["0.0.0.0/0"]));
    assert_eq!(receive(&mut proxy, capsule), IpReceived::RoutesChanged);
    proxy.discard_peer_routes();
    let capsule = client.assign(&[assigned(0, "8.0.0.0/8")]).unwrap();
    assert!(matches!(receive(&mut proxy, capsule), IpReceived::Assigned(_)));
    proxy.discard_our_addresses();
    let spoofed = packet("8.8.8.8", "198.51.100.7", 17, &[]);
    let IpReceived::Reply { reason, .. } = from_peer(&mut proxy, &spoofed) else { panic!() };
    assert_eq!(reason, IpDropReason::Source);
    let outside = packet("192.0.2.11", "8.8.8.8", 17, &[]);
    let IpReceived::Reply { reason, .. } = from_peer(&mut proxy, &outside) else { panic!() };
    assert_eq!(reason, IpDropReason::Destination);
}

/// Tests the requirements of RFC 9484 §7.1.
#[test]
fn section_7_1_ipv6_needs_an_mtu_of_1280_bytes() {
    let (_, mut proxy) = vpn(None);
    let packet6 = packet("2001:db8:1::7", "2001:db8::11", 17, &[0; 1240]);
    let mut send = |maximum| proxy.send_packet(&packet6, Origin::Local, Some(maximum), NOW);
    assert!(matches!(send(1281), IpSent::Datagram(_)));
    let error = IpTunnelError::MtuTooLow { mtu: 1279 };
    assert_eq!(send(1280), IpSent::Abort(error));
    assert_eq!(send(1281), IpSent::Dropped(IpDropReason::Aborted));
    assert_eq!(error.code(), Code::CONNECT_ERROR);
    // IPv4 works with less.
    let (_, mut proxy) = vpn(None);
    let packet4 = packet("198.51.100.7", "192.0.2.11", 17, &[0; 1240]);
    let sent = proxy.send_packet(&packet4, Origin::Local, Some(1000), NOW);
    assert!(matches!(sent, IpSent::Reply { .. }));
}

/// Tests the requirements of RFC 9484 §7.1.
#[test]
fn section_7_1_echo_requests_to_all_nodes_are_answered() {
    let (_, mut proxy) = vpn(None);
    let request = hex(
        "60000000000d3a4020010db8000000000000000000000011ff0200000000000000000000000000018000531600\
         01000270696e6721",
    );
    let IpReceived::Reply { datagram, .. } = from_peer(&mut proxy, &request) else { panic!() };
    assert_eq!(datagram[41], 129);
    let (mut client, _) = vpn(None);
    let ignored = IpReceived::Ignored(IpDropReason::LinkLocal);
    assert_eq!(from_peer(&mut client, &request), ignored);
}

#[test]
fn the_rate_of_errors_is_limited() {
    let (_, mut proxy) = vpn(None);
    let packet = packet("192.0.2.12", "198.51.100.7", 17, &[0; 8]);
    let count = |proxy: &mut IpTunnel, now| {
        let datagram = Datagram::encode(ContextId::PAYLOAD, &packet);
        let results = (0..1000).map(|_| proxy.receive_datagram(datagram.clone(), now));
        results.filter(|result| matches!(result, IpReceived::Reply { .. })).count()
    };
    assert_eq!(count(&mut proxy, NOW), 50);
    assert_eq!(count(&mut proxy, NOW + Duration::from_millis(100)), 10);
}

#[test]
fn addresses_and_routes_are_replaced_as_a_whole() {
    let (mut client, mut proxy) = vpn(None);
    let request = RequestedAddress { request_id: 3, prefix: net("192.0.2.99/32") };
    let rejection = AssignedAddress::rejection(&request);
    let capsule = proxy.assign(&[rejection]).unwrap();
    let IpReceived::Assigned(addresses) = receive(&mut client, capsule) else { panic!() };
    assert_eq!((addresses.len(), client.our_addresses().len()), (3, 2));
    assert_eq!(proxy.peer_addresses().len(), 2);
    let capsule = proxy.withdraw(net("192.0.2.11/32"));
    _ = receive(&mut client, capsule);
    assert_eq!(client.our_addresses(), [net("2001:db8::11/128")]);
    let many = vec![assigned(0, "192.0.2.12/32"); MAX_ADDRESSES];
    assert_eq!(proxy.assign(&many), Err(CapsuleFault::TooManyEntries));
    let packet = packet("192.0.2.11", "198.51.100.7", 17, &[]);
    let IpReceived::Reply { reason, .. } = from_peer(&mut proxy, &packet) else { panic!() };
    assert_eq!(reason, IpDropReason::Source);
    let capsule = proxy.advertise(Routes::default());
    _ = receive(&mut client, capsule);
    assert_eq!(client.peer_routes(), &Routes::default());
    assert_eq!(client.request(&[]), None);
}

/// A network behind the client, as in RFC 9484 §8.2.
#[test]
fn a_client_can_route_a_network() {
    let (mut client, mut proxy) = vpn(None);
    let capsule = client.advertise(routes(&["203.0.113.0/24"]));
    _ = receive(&mut proxy, capsule);
    let out = packet("203.0.113.5", "198.51.100.7", 6, &[]);
    let IpSent::Datagram(datagram) = to_peer(&mut client, &out) else { panic!() };
    assert!(matches!(proxy.receive_datagram(datagram, NOW), IpReceived::Forward(_)));
    let back = packet("198.51.100.7", "203.0.113.5", 6, &[]);
    let IpSent::Datagram(datagram) = to_peer(&mut proxy, &back) else { panic!() };
    assert!(matches!(client.receive_datagram(datagram, NOW), IpReceived::Forward(_)));
}

#[test]
fn malformed_capsules_and_datagrams_abort_the_tunnel() {
    let (_, mut proxy) = vpn(None);
    let reused = IpCapsule::AddressRequest(vec![RequestedAddress {
        request_id: 2,
        prefix: net("0.0.0.0/32"),
    }]);
    let error = IpTunnelError::Capsule(CapsuleFault::ReusedRequestId);
    assert_eq!(receive(&mut proxy, reused.encode()), IpReceived::Abort(error));
    assert_eq!(error.code(), Code::MESSAGE_ERROR);
    let ignored = IpReceived::Ignored(IpDropReason::Aborted);
    assert_eq!(from_peer(&mut proxy, &[]), ignored);
    let mut content = reused.encode();
    assert_eq!(proxy.receive_content(&mut content, NOW), None);
    assert_eq!(proxy.finish(), Ok(()));
    let (_, mut proxy) = vpn(None);
    let empty = Capsule::encode(ADDRESS_REQUEST, &[]);
    let error = IpTunnelError::Capsule(CapsuleFault::NoRequestedAddress);
    assert_eq!(receive(&mut proxy, empty), IpReceived::Abort(error));
    let (_, mut proxy) = vpn(None);
    let result = proxy.receive_datagram(Bytes::new(), NOW);
    let error = IpTunnelError::TruncatedDatagram;
    assert_eq!((result, error.code()), (IpReceived::Abort(error), Code::DATAGRAM_ERROR));
    let (_, mut proxy) = vpn(None);
    assert_eq!(proxy.receive_content(&mut Bytes::from_static(&[1]), NOW), None);
    assert_eq!(proxy.finish(), Err(IpTunnelError::CapsuleProtocol(CapsuleError::Truncated)));
    let other = Datagram::encode(ContextId::new(2).unwrap(), b"abc");
    let ignored = IpReceived::Ignored(IpDropReason::UnknownContext);
    assert_eq!(proxy.receive_datagram(other.clone(), NOW), ignored);
    proxy.contexts_mut().register(ContextId::new(2).unwrap()).unwrap();
    assert!(matches!(proxy.receive_datagram(other, NOW), IpReceived::Extension(_)));
    let ignored = IpReceived::Ignored(IpDropReason::Malformed);
    assert_eq!(from_peer(&mut proxy, &[0x45]), ignored);
    assert_eq!(proxy.contexts_mut().allocate(), ContextId::new(1));
    let many = (3..300u64).map(|id| RequestedAddress { request_id: id, prefix: net("::/128") });
    let many: Vec<RequestedAddress> = many.collect();
    let (_, mut proxy) = vpn(None);
    let first = IpCapsule::AddressRequest(many[..200].to_vec()).encode();
    assert!(matches!(receive(&mut proxy, first), IpReceived::Requested(_)));
    let second = IpCapsule::AddressRequest(many[200..].to_vec()).encode();
    let error = IpTunnelError::Capsule(CapsuleFault::TooManyEntries);
    assert_eq!(receive(&mut proxy, second), IpReceived::Abort(error));
}

proptest! {
    #[test]
    fn any_content_is_processed(content in proptest::collection::vec(0u8..20, 0..300), chunk in 1usize..40) {
        let (_, mut proxy) = vpn(None);
        for part in content.chunks(chunk) {
            let mut part = Bytes::copy_from_slice(part);
            while proxy.receive_content(&mut part, NOW).is_some() {}
            prop_assert!(part.is_empty());
        }
        _ = proxy.finish();
    }

    #[test]
    fn only_assigned_sources_pass(source: u32, destination: u32, payload in proptest::collection::vec(0u8.., 0..40)) {
        let (_, mut proxy) = vpn(None);
        let (source, destination) = (Ipv4Addr::from_bits(source), Ipv4Addr::from_bits(destination));
        let packet = super::super::test_packets::v4(source, destination, 17, &payload);
        let passes = matches!(from_peer(&mut proxy, &packet), IpReceived::Forward(_));
        prop_assert!(!passes || source == ip("192.0.2.11"));
    }
}
