//! The server's side of load balancers that put a [preface](clearway_wire::preface) before each datagram.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::io;
use std::sync::Arc;

use clearway_transport::Transmit;
use clearway_wire::preface::Preface;

use crate::datagrams::Meta;

/// How many load balancers a server can have.
pub const MAX_BALANCERS: usize = 256;

/// The balancers from which alone a server takes datagrams. If there are none, it takes them from everyone, without prefaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balancers(Arc<[IpAddr]>);

/// The balancer that a datagram with a preface came from, to which the answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Via {
    /// Its address, as the socket has it.
    pub(crate) balancer: SocketAddr,
    /// The server's own address that it sends to: it knows the server by this one.
    pub(crate) local_ip: Option<IpAddr>,
}

impl Balancers {
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if there are more than [`MAX_BALANCERS`].
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

    /// Whether everyone may send to the server, without prefaces.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is for the server of a datagram that has come; `None` if its sender may not send any. If it has a preface, the
    /// addresses are those of the client, and the balancer's address is kept beside them. One without preface is the
    /// balancer's own, such as a health check.
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

impl Via {
    /// Puts a preface before each datagram of a batch, whose bytes are at the beginning of `buffer`. Returns the batch as it goes
    /// to the balancer. The buffer must have room for the longest preface with each datagram.
    pub(crate) fn wrap(&self, transmit: &Transmit, buffer: &mut [u8]) -> Transmit {
        // A balancer leaves an unspecified address to its system.
        let local = transmit.source_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (octets, preface_len) = Preface { client: transmit.destination, local }.encode();
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let count = transmit.size.div_ceil(segment);
        // From the last to the first, so that none is overwritten before it has moved.
        for number in (0..count).rev() {
            let from = number * segment;
            let end = (from + segment).min(transmit.size);
            let to = from + number * preface_len;
            buffer.copy_within(from..end, to + preface_len);
            buffer[to..to + preface_len].copy_from_slice(&octets[..preface_len]);
        }
        Transmit {
            destination: self.balancer,
            source_ip: self.local_ip,
            size: transmit.size + count * preface_len,
            segment_size: transmit.segment_size.map(|segment| segment + preface_len),
            ..*transmit
        }
    }
}

#[cfg(test)]
mod tests {
    use clearway_transport::{EcnCodepoint, SocketIndex};
    use clearway_wire::preface::MAX_LEN;
    use proptest::prelude::*;

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
        // Cut off, it is none.
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

    proptest! {
        #[test]
        fn each_datagram_of_a_batch_gets_the_preface(
            segment in 1_usize..300, count in 1_usize..20, last in 1_usize..300, is_v6 in any::<bool>()
        ) {
            let last = last.min(segment);
            let size = segment * (count - 1) + last;
            let batch: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let client = address(if is_v6 { "[2001:db8::1]:7" } else { "203.0.113.7:5000" });
            let local = address(if is_v6 { "[2001:db8::2]:7" } else { "203.0.113.1:7" }).ip();
            let transmit = Transmit {
                destination: client,
                socket: SocketIndex(3),
                source_ip: Some(local),
                size,
                segment_size: (count > 1).then_some(segment),
                ecn: EcnCodepoint::Ect0,
            };
            let via = Via { balancer: address("192.0.2.9:7000"), local_ip: None };
            let mut buffer = batch.clone();
            buffer.resize(size + count * MAX_LEN, 0);
            let wrapped = via.wrap(&transmit, &mut buffer);
            prop_assert_eq!((wrapped.destination, wrapped.source_ip), (via.balancer, None));
            prop_assert_eq!((wrapped.socket, wrapped.ecn), (transmit.socket, transmit.ecn));
            let datagrams = buffer[..wrapped.size].chunks_mut(wrapped.segment_size.unwrap_or(wrapped.size));
            prop_assert_eq!(datagrams.len(), count);
            for (wrapped, original) in datagrams.zip(batch.chunks(segment)) {
                let (preface, rest) = Preface::split(wrapped).unwrap();
                prop_assert_eq!((preface.client, preface.local), (client, local));
                prop_assert_eq!(&*rest, original);
            }
        }
    }
}
