//! The preface, which contains the client's address and the address that the client sent to. A load
//! balancer prepends it to each datagram that it forwards to a server, and the server prepends it
//! to each response. So the server sees the true addresses, and the balancer can forward responses
//! without a table.
//!
//! ```text
//! Preface {
//!   Form (8)             0x01: IPv4 addresses, 0x02: IPv6 addresses
//!   Client Port (16)
//!   Client (32 or 128)   the client's IP address
//!   Local (32 or 128)    the IP address of the balancer that the client sends to
//! }
//! ```
//!
//! A packet of QUIC version 1 or 2 does not begin with either form of the preface, unless its
//! sender has cleared the QUIC bit (RFC 9287). So a balancer that sends its own packets without a
//! preface, such as health checks, must not clear that bit, and a server must not let a client
//! clear it if the client's first packet arrived without a preface.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const IS_V4: u8 = 0x01;
const IS_V6: u8 = 0x02;

/// The addresses in a preface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preface {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The address that the client sends to, which has the same family as the client's address.
    pub local: IpAddr,
}

/// The length of a preface with IPv4 addresses.
pub const V4_LEN: usize = 11;
/// The length of a preface with IPv6 addresses.
pub const V6_LEN: usize = 35;
/// The maximum length of a preface.
pub const MAX_LEN: usize = V6_LEN;

impl Preface {
    /// Returns the encoded bytes and how many there are. IPv4-mapped IPv6 addresses are encoded as
    /// IPv4.
    pub fn encode(&self) -> ([u8; MAX_LEN], usize) {
        let mut octets = [0; MAX_LEN];
        let [form, port_high, port_low, addresses @ ..] = &mut octets;
        [*port_high, *port_low] = self.client.port().to_be_bytes();
        match (self.client.ip().to_canonical(), self.local.to_canonical()) {
            (IpAddr::V4(client), IpAddr::V4(local)) => {
                *form = IS_V4;
                let both = client.octets().into_iter().chain(local.octets());
                addresses.iter_mut().zip(both).for_each(|(to, octet)| *to = octet);
                (octets, V4_LEN)
            }
            (client, local) => {
                *form = IS_V6;
                let both = sixteen(client).into_iter().chain(sixteen(local));
                addresses.iter_mut().zip(both).for_each(|(to, octet)| *to = octet);
                (octets, V6_LEN)
            }
        }
    }

    /// Splits a datagram into its preface and the rest; returns `None` if it does not begin with a
    /// preface.
    pub fn split(datagram: &mut [u8]) -> Option<(Self, &mut [u8])> {
        match *datagram.first()? {
            IS_V4 => {
                let ([_, port @ .., a, b, c, d, e, f, g, h], rest) =
                    datagram.split_first_chunk_mut::<V4_LEN>()?;
                let client = Ipv4Addr::new(*a, *b, *c, *d);
                let local = Ipv4Addr::new(*e, *f, *g, *h).into();
                Some((Self { client: (client, u16::from_be_bytes(*port)).into(), local }, rest))
            }
            IS_V6 => {
                let (octets, rest) = datagram.split_first_chunk_mut::<V6_LEN>()?;
                let [_, high, low, addresses @ ..] = octets;
                let (client, local) = addresses.split_first_chunk::<16>()?;
                let port = u16::from_be_bytes([*high, *low]);
                let local = Ipv6Addr::from(*local.first_chunk::<16>()?).into();
                Some((Self { client: (Ipv6Addr::from(*client), port).into(), local }, rest))
            }
            _ => None,
        }
    }
}

/// Returns whether [`Preface::split`] would detect a preface in a datagram. A balancer that does
/// not prepend prefaces must not forward such a datagram from a client: a server that expects
/// prefaces would accept the address in it.
pub fn may_be_preface(datagram: &[u8]) -> bool {
    rest(datagram).is_some()
}

/// Returns the bytes after the apparent preface of a datagram.
fn rest(datagram: &[u8]) -> Option<&[u8]> {
    match *datagram.first()? {
        IS_V4 => datagram.get(V4_LEN..),
        IS_V6 => datagram.get(V6_LEN..),
        _ => None,
    }
}

/// Returns whether a datagram begins with two apparent prefaces, as it does after passing through
/// two balancers that prepend one.
pub fn may_be_two_prefaces(datagram: &[u8]) -> bool {
    rest(datagram).is_some_and(may_be_preface)
}

fn sixteen(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(client: SocketAddr, local: IpAddr, length: usize) {
        let (octets, len) = Preface { client, local }.encode();
        assert_eq!(len, length);
        let mut datagram = [&octets[..len], b"rest"].concat();
        let (preface, rest) = Preface::split(&mut datagram).unwrap();
        assert_eq!((preface.client.ip(), preface.client.port()), (client.ip(), client.port()));
        assert_eq!((preface.local, &*rest), (local, &b"rest"[..]));
        for end in 0..len {
            assert_eq!(Preface::split(&mut datagram[..end]), None);
        }
    }

    proptest! {
        #[test]
        fn there_and_back(
            v4 in any::<[[u8; 4]; 2]>(), v6 in any::<[[u8; 16]; 2]>(), port in any::<u16>()
        ) {
            let [client, local] = v4.map(IpAddr::from);
            check((client, port).into(), local, V4_LEN);
            let [client, local] = v6.map(|octets| IpAddr::from(octets).to_canonical());
            prop_assume!(client.is_ipv6() && local.is_ipv6());
            check((client, port).into(), local, V6_LEN);
        }

        #[test]
        fn any_bytes(mut datagram in prop::collection::vec(any::<u8>(), 0..60)) {
            let before = datagram.clone();
            prop_assert_eq!(may_be_preface(&before), Preface::split(&mut datagram.clone()).is_some());
            if let Some((_, rest)) = Preface::split(&mut datagram) {
                prop_assert!(before.ends_with(rest));
                prop_assert!([IS_V4, IS_V6].contains(&before[0]));
            }
        }
    }
}
