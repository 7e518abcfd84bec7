//! Several batches that are filled at the same time, so that datagrams for one destination are sent
//! together even if other datagrams arrive in between.

use core::net::IpAddr;

use clearway_udp::Batch as Outgoing;

use super::batch::{Batch, Heading};

/// Maximum number of open batches.
const MAX_OPEN: usize = 128;
/// Total size in bytes at which all batches are sent.
const MAX_BYTES: usize = 1 << 20;
/// Number of slots, a power of two: a multiple of the number of batches, so that collisions are
/// rare.
const PLACES: usize = 512;
const PLACE_BITS: u32 = PLACES.trailing_zeros();

/// One batch per socket and destination, found by a hash of both. On a collision, the first batch
/// is sent, and the second takes its slot. Datagrams from one client to one server therefore stay
/// in order, even if their other properties differ.
pub(super) struct Batches {
    /// The batches that are being filled, and empty ones that are kept for their memory.
    all: Vec<Batch>,
    /// The indices of the empty batches. The most recently used one is reused first, because its
    /// memory is in the cache.
    empty: Vec<u8>,
    /// The index of the batch in each slot.
    places: Box<[u8; PLACES]>,
    /// Bit mask of the slots in use.
    taken: [u64; PLACES / 64],
    /// Total bytes in all batches.
    bytes: usize,
}

impl Batches {
    pub(super) fn new() -> Self {
        let places = Box::new([0; PLACES]);
        Self { all: Vec::new(), empty: Vec::new(), places, taken: [0; PLACES / 64], bytes: 0 }
    }

    /// Adds a datagram that consists of two parts. Passes batches that must be sent now to `send`.
    /// Returns `false` if the datagram is larger than any batch.
    #[must_use]
    pub(super) fn add(
        &mut self,
        heading: &Heading,
        parts: [&[u8]; 2],
        mut send: impl FnMut((u32, Outgoing<'_>)),
    ) -> bool {
        if self.bytes >= MAX_BYTES {
            self.flush(&mut send);
        }
        let place = place(heading);
        let number = match self.at(place) {
            Some(number) => number,
            None => self.open(place, &mut send),
        };
        let batch = &mut self.all[usize::from(number)];
        let before = batch.len();
        if !batch.add(heading, parts) {
            batch.contents().into_iter().for_each(&mut send);
            batch.clear();
            self.bytes -= before;
            if !batch.add(heading, parts) {
                self.close(place);
                return false;
            }
            self.bytes += batch.len();
        } else {
            self.bytes += batch.len() - before;
        }
        if self.all[usize::from(number)].is_full() {
            self.send(place, &mut send);
        }
        true
    }

    /// Passes all batches to `send`.
    pub(super) fn flush(&mut self, mut send: impl FnMut((u32, Outgoing<'_>))) {
        for word in 0..self.taken.len() {
            while self.taken[word] != 0 {
                let bit = self.taken[word].trailing_zeros() as usize;
                self.send(word * 64 + bit, &mut send);
            }
        }
    }

    fn at(&self, place: usize) -> Option<u8> {
        let is_taken = self.taken[place / 64] >> (place % 64) & 1 == 1;
        is_taken.then(|| self.places[place])
    }

    /// Assigns an empty batch to a free slot.
    fn open(&mut self, place: usize, send: impl FnMut((u32, Outgoing<'_>))) -> u8 {
        if self.empty.is_empty() {
            if self.all.len() < MAX_OPEN {
                self.empty.push(self.all.len() as u8);
                self.all.push(Batch::default());
            } else {
                self.flush(send);
            }
        }
        // The code above ensures that there is an empty batch.
        let number = self.empty.pop().unwrap_or_default();
        self.places[place] = number;
        self.taken[place / 64] |= 1 << (place % 64);
        number
    }

    fn send(&mut self, place: usize, send: impl FnMut((u32, Outgoing<'_>))) {
        if let Some(number) = self.at(place) {
            let batch = &mut self.all[usize::from(number)];
            batch.contents().into_iter().for_each(send);
            self.bytes -= batch.len();
            batch.clear();
            self.close(place);
        }
    }

    /// Removes an empty batch from its slot.
    fn close(&mut self, place: usize) {
        self.taken[place / 64] &= !(1 << (place % 64));
        self.empty.push(self.places[place]);
    }
}

/// Returns the slot for a batch with this socket and destination.
fn place(heading: &Heading) -> usize {
    let (ip, port) = (heading.destination.ip(), heading.destination.port());
    let ip = match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ ip.to_bits() as u64,
    };
    let ways = u64::from(heading.port) << 16 | u64::from(port);
    // Fibonacci hashing, in which all bits affect the highest ones.
    let hash = (ip ^ ways.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - PLACE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;
    use std::collections::BTreeMap;

    use clearway_udp::EcnCodepoint;
    use proptest::prelude::*;

    use super::*;

    fn heading(key: u16, ecn: bool) -> Heading {
        Heading {
            port: u32::from(key % 7),
            destination: SocketAddr::from(([192, 0, 2, 1], 1000 + key)),
            source_ip: None,
            ecn: EcnCodepoint::from_bits(u8::from(ecn)),
        }
    }

    /// The sent datagrams per destination, and the number of batches.
    #[derive(Default)]
    struct Sent(BTreeMap<SocketAddr, Vec<Vec<u8>>>, usize);

    impl Sent {
        fn take(&mut self, (_, batch): (u32, Outgoing<'_>)) {
            let size = batch.segment_size.unwrap_or(batch.contents.len());
            let datagrams = batch.contents.chunks(size);
            let of_destination = self.0.entry(batch.destination).or_default();
            of_destination.extend(datagrams.map(<[u8]>::to_vec));
            self.1 += 1;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Tests the order of datagrams with more destinations than slots.
        #[test]
        fn datagrams_for_one_destination_stay_in_order(
            all in prop::collection::vec((prop_oneof![0_u16..9, 0_u16..700], any::<bool>(), prop_oneof![
                Just(120_usize), Just(121), 5_usize..40, Just(30_000)
            ]), 0..400)
        ) {
            let (mut batches, mut sent) = (Batches::new(), Sent::default());
            let mut given = BTreeMap::<_, Vec<_>>::new();
            for (number, (key, ecn, size)) in (0_u32..).zip(all) {
                let (heading, mut datagram) = (heading(key, ecn), vec![key as u8; size]);
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                prop_assert!(batches.add(&heading, [&datagram[..3], &datagram[3..]], |it| sent.take(it)));
                given.entry(heading.destination).or_default().push(datagram);
                prop_assert!(batches.bytes <= MAX_BYTES + 65_507 && batches.all.len() <= MAX_OPEN);
            }
            batches.flush(|it| sent.take(it));
            prop_assert!(given == sent.0);
            prop_assert_eq!((batches.bytes, batches.empty.len()), (0, batches.all.len()));
        }
    }

    #[test]
    fn what_others_have_sent_in_between_does_not_divide_a_batch() {
        let (mut batches, mut sent) = (Batches::new(), Sent::default());
        for round in 0..4 {
            for key in 0..8 {
                assert!(
                    batches.add(&heading(key, false), [&[], &[round; 1200]], |it| sent.take(it))
                );
            }
        }
        assert_eq!(sent.1, 0);
        batches.flush(|it| sent.take(it));
        assert_eq!((sent.0.len(), sent.1), (8, 8));
    }

    #[test]
    fn a_full_batch_leaves_at_once() {
        let (mut batches, mut sent) = (Batches::new(), Sent::default());
        for _ in 0..54 {
            assert_eq!(sent.1, 0);
            assert!(batches.add(&heading(1, false), [&[], &[1; 1200]], |it| sent.take(it)));
        }
        assert_eq!((sent.1, batches.bytes), (1, 0));
        // A datagram that is too large for any batch is not sent, and does not block other
        // datagrams.
        assert!(!batches.add(&heading(1, false), [&[], &[1; 65_508]], |it| sent.take(it)));
        assert!(batches.add(&heading(1, false), [&[], &[1; 65_507]], |it| sent.take(it)));
        assert_eq!((sent.1, batches.empty.len()), (2, 1));
    }
}
