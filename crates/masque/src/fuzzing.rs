//! Checks of this crate's decoders, only for fuzz targets.

use bytes::Bytes;
use clearway_http3::{Capsule, DATAGRAM_CAPSULE};
use clearway_units::Timestamp;

use crate::QueueLimits;
use crate::context::{ContextId, Datagram, Side};
use crate::ip::{
    AddressRange, AssignedAddress, IcmpError, IpCapsule, IpHeader, IpReceived, IpSent, IpTunnel,
    Origin, OwnAddresses, Routes, decrement_hop_limit, echo_reply,
};
use crate::tcp::{TcpReceived, TcpReceiver};
use crate::udp::{Received, UdpFlow};

/// The time at which all events happen.
const NOW: Timestamp = Timestamp::ORIGIN;

/// Returns the results of passing `content` to a UDP flow in chunks, up to the first error.
fn udp(content: &[u8], chunk: usize) -> (Vec<Received>, bool) {
    let mut flow = UdpFlow::new(Side::Proxy, QueueLimits::default());
    flow.open();
    let mut results = Vec::new();
    for part in content.chunks(chunk.max(1)) {
        let mut part = Bytes::copy_from_slice(part);
        results.extend(core::iter::from_fn(|| flow.receive_content(&mut part)));
        assert!(part.is_empty(), "the flow consumed nothing");
    }
    (results, flow.finish().is_ok())
}

/// Returns the bytes of a TCP stream that capsules carry, whether the stream was closed, and
/// whether there was an error.
fn tcp(content: &[u8], chunk: usize) -> (Vec<u8>, bool, bool) {
    let mut receiver = TcpReceiver::default();
    let (mut data, mut is_closed) = (Vec::new(), false);
    for part in content.chunks(chunk.max(1)) {
        let mut part = Bytes::copy_from_slice(part);
        loop {
            match receiver.receive(&mut part) {
                Ok(Some(TcpReceived::Data(bytes))) => {
                    assert!(!is_closed && !bytes.is_empty());
                    data.extend_from_slice(&bytes);
                }
                Ok(Some(TcpReceived::Fin)) => is_closed = true,
                Ok(None) => break,
                Err(_) => return (data, is_closed, true),
            }
        }
    }
    (data, is_closed, receiver.finish().is_err())
}

fn tunnel() -> IpTunnel {
    let own = OwnAddresses {
        v4: Some([192, 0, 2, 1].into()),
        v6: Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
    };
    IpTunnel::new(Side::Proxy, None, own, NOW)
}

/// Returns the results of passing `content` to an IP tunnel in chunks.
fn ip(content: &[u8], chunk: usize) -> Vec<IpReceived> {
    let mut tunnel = tunnel();
    let mut results = Vec::new();
    for part in content.chunks(chunk.max(1)) {
        let mut part = Bytes::copy_from_slice(part);
        results.extend(core::iter::from_fn(|| tunnel.receive_content(&mut part, NOW)));
        assert!(part.is_empty(), "the tunnel consumed nothing");
    }
    results
}

/// Checks the content of tunnels: the results do not depend on how a stream is split into chunks,
/// and a decoded capsule can be encoded and decoded again.
///
/// # Panics
/// If a check fails.
pub fn check_capsules(content: &[u8]) {
    let whole = (udp(content, usize::MAX), tcp(content, usize::MAX), ip(content, usize::MAX));
    for chunk in [1, 3, 64] {
        assert_eq!((udp(content, chunk), tcp(content, chunk), ip(content, chunk)), whole);
    }
    let Some((capsule_type, value)) = content.split_first() else { return };
    if let Some(Ok(capsule)) = IpCapsule::decode((capsule_type % 4).into(), value) {
        let mut tunnel = tunnel();
        let mut encoded = capsule.encode();
        let received = tunnel.receive_content(&mut encoded, NOW);
        match (capsule, received) {
            (IpCapsule::AddressAssign(sent), Some(IpReceived::Assigned(received))) => {
                assert_eq!(sent, received);
            }
            (IpCapsule::AddressRequest(sent), Some(IpReceived::Requested(received))) => {
                assert_eq!(sent, received);
            }
            // IDs are unique among all capsules, which one capsule alone does not show.
            (IpCapsule::AddressRequest(_), Some(IpReceived::Abort(_))) => {}
            (IpCapsule::RouteAdvertisement(sent), Some(IpReceived::RoutesChanged)) => {
                assert_eq!(&sent, tunnel.peer_routes());
            }
            other => panic!("another capsule arrived: {other:?}"),
        }
    }
    let capsule = Capsule::encode(DATAGRAM_CAPSULE, value);
    let (results, is_complete) = udp(&capsule, usize::MAX);
    assert!(results.len() == 1 && is_complete);
}

/// Checks an IP packet: forwarding changes only its hop limit, and all ICMP messages about it are
/// valid packets to its source.
///
/// # Panics
/// If a check fails.
pub fn check_packets(packet: &[u8]) {
    let Ok(header) = IpHeader::parse(packet) else { return };
    assert!(header.payload_offset <= packet.len());
    let mut hop = packet.to_vec();
    if decrement_hop_limit(&mut hop).is_ok() {
        let decremented = IpHeader { hop_limit: header.hop_limit - 1, ..header };
        assert_eq!(IpHeader::parse(&hop), Ok(decremented), "the checksum is wrong");
    }
    let own = match header.source.is_ipv4() {
        true => [192, 0, 2, 1].into(),
        false => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
    };
    for error in [IcmpError::PacketTooBig { mtu: 1280 }, IcmpError::SourcePolicy] {
        if let Some(error) = error.about(packet, &header, own) {
            let reply = IpHeader::parse(&error).expect("a valid packet");
            assert!(reply.is_icmp() && error.len() <= 1280);
            assert_eq!((reply.source, reply.destination), (own, header.source));
            // No error is sent about an error.
            assert_eq!(IcmpError::NoRoute.about(&error, &reply, own), None);
        }
    }
    if let Some(reply) = echo_reply(packet, &header, own) {
        assert_eq!(
            reply.len(),
            packet.len() - header.payload_offset + if own.is_ipv4() { 20 } else { 40 }
        );
    }
    check_forwarding(packet, &header);
}

/// Checks that only packets from the peer's address pass.
fn check_forwarding(packet: &[u8], header: &IpHeader) {
    let mut tunnel = tunnel();
    let address = AssignedAddress { request_id: 0, prefix: header.source.into() };
    let all = |text: &str| AddressRange::from(text.parse::<ipnet::IpNet>().expect("a network"));
    let routes = Routes::new(vec![all("0.0.0.0/0"), all("::/0")]).expect("two versions");
    _ = tunnel.advertise(routes);
    let datagram = Datagram::encode(ContextId::PAYLOAD, packet);
    let before = tunnel.receive_datagram(datagram.clone(), NOW);
    assert!(!matches!(before, IpReceived::Forward(_)), "a spoofed packet passes");
    if !header.source.is_unspecified() {
        _ = tunnel.assign(&[address]);
        if let IpReceived::Forward(forwarded) = tunnel.receive_datagram(datagram, NOW) {
            assert_eq!(forwarded, packet);
        }
    }
    if let IpSent::Datagram(sent) = tunnel.send_packet(packet, Origin::Local, Some(1400), NOW) {
        assert!(sent.len() == packet.len() + 1 && sent.ends_with(packet));
    }
}
