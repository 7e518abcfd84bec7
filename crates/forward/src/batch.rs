//! Batches of datagrams that are sent together, in one system call.

use core::net::{IpAddr, SocketAddr};

use clearway_udp::{Batch as Outgoing, EcnCodepoint, MAX_BATCH_BYTES};

/// Maximum number of datagrams per batch, which is the most that kernels accept in one call.
const MAX_DATAGRAMS: usize = 64;

/// The properties that all datagrams of a batch share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heading {
    /// Index of the source port.
    pub(super) port: u32,
    pub(super) destination: SocketAddr,
    /// The source address; `None` lets the system choose.
    pub(super) source_ip: Option<IpAddr>,
    pub(super) ecn: EcnCodepoint,
}

/// Datagrams of the same size with the same properties; the last datagram may be smaller. The
/// batch's memory is reused.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: usize,
    /// The size of the first datagram.
    size: usize,
    /// The properties of the batch's datagrams; `None` while the batch is empty.
    heading: Option<Heading>,
}

impl Batch {
    /// Returns the batch's total size in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether no additional datagram of the same size fits.
    pub(super) fn is_full(&self) -> bool {
        let ends_smaller = self.bytes.len() < self.count * self.size;
        let has_no_room = self.bytes.len() + self.size > MAX_BATCH_BYTES;
        ends_smaller || has_no_room || self.count == MAX_DATAGRAMS
    }

    /// Appends a datagram that consists of two parts. Returns `false` without adding it if it does
    /// not fit into the batch.
    #[must_use]
    pub(super) fn add(&mut self, heading: &Heading, parts: [&[u8]; 2]) -> bool {
        let size = parts[0].len() + parts[1].len();
        match self.heading {
            None => self.size = size,
            Some(first) => {
                let is_like_first = first == *heading && size <= self.size;
                let follows_smaller = self.bytes.len() < self.count * self.size;
                if !is_like_first || follows_smaller || self.count == MAX_DATAGRAMS {
                    return false;
                }
            }
        }
        if self.bytes.len() + size > MAX_BATCH_BYTES {
            return false;
        }
        self.bytes.extend_from_slice(parts[0]);
        self.bytes.extend_from_slice(parts[1]);
        self.heading = Some(*heading);
        self.count += 1;
        true
    }

    /// Returns the index of the source port, and the batch to send from it; `None` if the batch is
    /// empty.
    pub(super) fn contents(&self) -> Option<(u32, Outgoing<'_>)> {
        let Heading { port, destination, source_ip, ecn } = self.heading?;
        let segment_size = (self.count > 1).then_some(self.size);
        let contents = &self.bytes;
        Some((port, Outgoing { destination, source_ip, ecn, contents, segment_size }))
    }

    pub(super) fn clear(&mut self) {
        self.heading = None;
        self.bytes.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heading(number: u8) -> Heading {
        Heading {
            port: u32::from(number & 1),
            destination: SocketAddr::from(([192, 0, 2, number & 2], 443)),
            source_ip: None,
            ecn: EcnCodepoint::from_bits(number >> 2 & 1),
        }
    }

    /// Returns the datagrams of a batch with their shared properties, as the kernel sees them.
    fn taken(batch: &mut Batch) -> Vec<(Heading, Vec<u8>)> {
        let Some((port, outgoing)) = batch.contents() else { return Vec::new() };
        let Outgoing { destination, source_ip, ecn, contents, segment_size } = outgoing;
        assert!(contents.len() <= MAX_BATCH_BYTES);
        let heading = Heading { port, destination, source_ip, ecn };
        let datagrams = contents.chunks(segment_size.unwrap_or(contents.len()));
        assert_eq!(segment_size.is_some(), datagrams.len() > 1);
        assert!(datagrams.len() <= MAX_DATAGRAMS);
        let datagrams = datagrams.map(|datagram| (heading, datagram.to_vec())).collect();
        batch.clear();
        datagrams
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn datagrams_stay_as_they_are_and_in_order(
            all in prop::collection::vec((0_u8..8, prop_oneof![
                Just(1200_usize), Just(1201), 1_usize..40, Just(30_000)
            ], 1_usize..70), 0..12)
        ) {
            let mut batch = Batch::default();
            let (mut given, mut sent) = (Vec::new(), Vec::new());
            for (number, size, repeat) in all {
                for _ in 0..repeat {
                    let datagram: Vec<u8> = (0..size).map(|at| (at + given.len()) as u8).collect();
                    let (first, second) = datagram.split_at(size / 3);
                    if !batch.add(&heading(number), [first, second]) {
                        sent.append(&mut taken(&mut batch));
                        prop_assert!(batch.add(&heading(number), [first, second]));
                    }
                    given.push((heading(number), datagram));
                }
            }
            sent.append(&mut taken(&mut batch));
            prop_assert!(given == sent);
        }
    }

    #[test]
    fn what_is_alike_goes_together() {
        let mut batch = Batch::default();
        let full = [7; 1200];
        let mut add = |size: usize| batch.add(&heading(0), [&[], &full[..size]]);
        for _ in 0..54 {
            assert!(add(1200));
        }
        // The limit is 65,507 bytes.
        assert!(!add(1200) && add(700) && !add(1));
        batch.clear();
        for _ in 0..MAX_DATAGRAMS {
            assert!(batch.add(&heading(0), [&full[..4], &full[..6]]));
        }
        assert!(!batch.add(&heading(0), [&[], &full[..10]]));
    }

    #[test]
    fn a_datagram_too_large_for_any_batch_stays_out() {
        let mut batch = Batch::default();
        let large = vec![0; MAX_BATCH_BYTES];
        assert!(!batch.add(&heading(0), [&[1], &large]) && batch.contents().is_none());
        assert!(batch.add(&heading(0), [&[], &large]));
        assert!(!batch.add(&heading(0), [&[], &[1]]));
    }
}
