//! The IP and UDP headers of captured packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// A captured UDP datagram.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    /// The capture time, since the Unix epoch.
    pub(crate) at: Duration,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// The two ECN bits of the IP header.
    pub(crate) ecn: u8,
    pub(crate) payload: Vec<u8>,
}

/// Returns the UDP datagram in an IP packet; `None` if the packet contains anything else.
pub(crate) fn datagram(at: Duration, packet: &[u8]) -> Option<Datagram> {
    let (source, destination, traffic_class, udp) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            if *packet.get(9)? != UDP {
                return None;
            }
            let address = |at: usize| {
                let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(bytes)))
            };
            (address(12)?, address(16)?, *packet.get(1)?, packet.get(header..)?)
        }
        6 => {
            if *packet.get(6)? != UDP {
                return None;
            }
            let address = |at: usize| {
                let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(bytes)))
            };
            let traffic_class = packet.first()? << 4 | packet.get(1)? >> 4;
            (address(8)?, address(24)?, traffic_class, packet.get(40..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(udp.get(at..at + 2)?.try_into().ok()?));
    let length = usize::from(port(4)?);
    Some(Datagram {
        at,
        source: SocketAddr::new(source, port(0)?),
        destination: SocketAddr::new(destination, port(2)?),
        ecn: traffic_class & 0b11,
        payload: udp.get(UDP_HEADER..length)?.to_vec(),
    })
}
