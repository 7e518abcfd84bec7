//! Server-side support for load balancers that prepend a [preface](clearway_wire::preface) with the
//! client's address to each datagram.

use core::net::IpAddr;
use std::io;
use std::sync::Arc;

use clearway_wire::preface::Preface;

use crate::datagrams::Meta;
use crate::via::Via;

/// Maximum number of load balancers per server.
pub const MAX_BALANCERS: usize = 256;

/// The balancers from which a server accepts datagrams. If there are none, it accepts datagrams
/// from any address, without prefaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balancers(Arc<[IpAddr]>);

impl Balancers {
    /// Creates the set of balancers with these addresses.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](io::ErrorKind::InvalidInput) if there are more than
    /// [`MAX_BALANCERS`].
    pub(crate) fn new(addresses: &[IpAddr]) -> io::Result<Self> {
        let mut addresses: Vec<_> = addresses.iter().map(IpAddr::to_canonical).collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.len() > MAX_BALANCERS {
            let error = format!("a server cannot have more than {MAX_BALANCERS} balancers");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        Ok(Self(addresses.into()))
    }

    /// Returns whether datagrams are accepted from any address, without prefaces.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a received datagram without its preface; `None` if its sender is not allowed. If
    /// there is a preface, the metadata's addresses are replaced by those in the preface, and the
    /// balancer's address is added. A datagram without a preface, such as a health check, comes
    /// from the balancer itself.
    pub(crate) fn admit<'a>(
        &self,
        meta: &mut Meta,
        datagram: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        if self.0.is_empty() {
            return Some(datagram);
        }
        self.0.binary_search(&meta.remote.ip().to_canonical()).ok()?;
        let length = datagram.len();
        let split = Preface::split(&mut *datagram);
        let Some((preface, rest_length)) = split.map(|(preface, rest)| (preface, rest.len()))
        else {
            return Some(datagram);
        };
        meta.via = Some(Via { balancer: meta.remote, local_ip: meta.local_ip });
        meta.remote = preface.client;
        meta.local_ip = Some(preface.local).filter(|ip| !ip.is_unspecified());
        datagram.get_mut(length - rest_length..)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, SocketAddr};

    use clearway_transport::EcnCodepoint;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn from(remote: &str) -> Meta {
        let local_ip = Some([192, 0, 2, 1].into());
        Meta { remote: address(remote), local_ip, ecn: EcnCodepoint::Ce, via: None }
    }

    #[test]
    fn without_balancers_everything_is_as_it_came() {
        let (mut meta, before) = (from("198.51.100.1:443"), from("198.51.100.1:443"));
        let mut datagram = [1; 100];
        let admitted = Balancers::default().admit(&mut meta, &mut datagram).unwrap();
        assert_eq!((admitted.len(), meta), (100, before));
    }

    #[test]
    fn only_balancers_may_send() {
        let balancers = ["192.0.2.9", "2001:db8::9", "::ffff:192.0.2.10"];
        let balancers = balancers.map(|text| text.parse().unwrap());
        let balancers = Balancers::new(&balancers).unwrap();
        let admits = |remote: &str| balancers.admit(&mut from(remote), &mut [0x40; 30]).is_some();
        assert!(admits("192.0.2.9:1") && admits("[::ffff:192.0.2.9]:1") && admits("192.0.2.10:1"));
        assert!(admits("[2001:db8::9]:1"));
        assert!(!admits("192.0.2.11:1") && !admits("[2001:db8::8]:1") && !admits("0.0.0.0:1"));
    }

    #[test]
    fn a_preface_says_who_has_sent_the_datagram() {
        let balancers = Balancers::new(&[[192, 0, 2, 9].into()]).unwrap();
        let preface =
            Preface { client: address("203.0.113.7:5000"), local: [198, 51, 100, 1].into() };
        let (octets, length) = preface.encode();
        let mut datagram = [&octets[..length], b"datagram"].concat();
        let mut meta = from("192.0.2.9:7000");
        assert_eq!(balancers.admit(&mut meta, &mut datagram).unwrap(), b"datagram");
        assert_eq!((meta.remote, meta.local_ip), (preface.client, Some(preface.local)));
        let via = Via { balancer: address("192.0.2.9:7000"), local_ip: from("0.0.0.0:1").local_ip };
        assert_eq!((meta.via, meta.ecn), (Some(via), EcnCodepoint::Ce));
        // A truncated preface is not a preface.
        let mut meta = from("192.0.2.9:7000");
        assert_eq!(balancers.admit(&mut meta, &mut datagram[..10]).map(|it| it.len()), Some(10));
        assert_eq!(meta, from("192.0.2.9:7000"));
        let nobody = Preface { local: Ipv4Addr::UNSPECIFIED.into(), ..preface };
        let (octets, length) = nobody.encode();
        assert_eq!(balancers.admit(&mut meta, &mut octets[..length].to_vec()).unwrap(), b"");
        assert_eq!(meta.local_ip, None);
    }

    #[test]
    fn there_are_at_most_256_balancers() {
        let many = |count: u32| -> Vec<IpAddr> {
            (0..count).map(|number| Ipv4Addr::from_bits(number).into()).collect()
        };
        assert!(Balancers::new(&many(256)).is_ok());
        let error = Balancers::new(&many(257)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(Balancers::new(&[many(256), many(256)].concat()).is_ok());
    }
}
