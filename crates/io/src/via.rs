//! The path of a datagram through a load balancer.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use clearway_transport::Transmit;
use clearway_wire::preface::Preface;

/// The balancer that forwarded a datagram with a preface, and that gets the responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Via {
    /// The balancer's address, in the form used by the socket.
    pub(crate) balancer: SocketAddr,
    /// The server's own address to which the balancer sends, and by which the balancer identifies
    /// the server.
    pub(crate) local_ip: Option<IpAddr>,
}

impl Via {
    /// Prepends a preface to each datagram of a batch, whose bytes are at the beginning of
    /// `buffer`. Returns the batch in the form that is sent to the balancer. The buffer must have
    /// room for one preface of maximum length per datagram.
    pub(crate) fn wrap(&self, transmit: &Transmit, buffer: &mut [u8]) -> Transmit {
        // If this is unspecified, the balancer leaves the address to its operating system.
        let local = transmit.source_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (octets, preface_len) = Preface { client: transmit.destination, local }.encode();
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let count = transmit.size.div_ceil(segment);
        // Moves datagrams from last to first, so that none is overwritten before it has moved.
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
