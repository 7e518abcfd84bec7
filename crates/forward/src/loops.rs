//! Detects datagrams that this balancer has already forwarded, because one of its servers forwards
//! them back, directly or through another balancer.
//!
//! A datagram to a server with prefaces grows by one preface per pass, which is detected. A
//! datagram to a server without prefaces comes back unmodified, from another address. Encryption
//! makes every QUIC packet unique, so a datagram that was just seen from another address is
//! dropped. Each thread remembers the datagrams that it has seen, so a datagram passes each thread
//! only once, or a few times if it shares its slot with others.

use core::net::SocketAddr;
use core::time::Duration;
use std::hash::{BuildHasher, RandomState};

use clearway_units::Timestamp;

/// Number of remembered datagrams, each in the slot of its hash.
const PLACES: usize = 4096;
/// Time for which a datagram is remembered: far longer than it takes to pass through several
/// balancers.
const LIFETIME: Duration = Duration::from_secs(1);
/// Minimum interval between two warnings.
const QUIET: Duration = Duration::from_secs(60);
/// On average, one in this many collisions lets the new datagram take over the slot.
const CONFLICTS_PER_CHANGE: u64 = 4;
/// Number of octets at the beginning of a datagram to hash, in addition to the last octets and the
/// length. QUIC packets differ in these octets: the datagram ends with an authentication tag,
/// unless padding follows, in which case the long headers contain connection IDs.
const FIRST: usize = 64;
const LAST: usize = 32;

/// The most recently seen datagrams.
pub(super) struct Loops {
    /// The datagram in each slot; the list is empty until the first datagram.
    seen: Vec<Option<Seen>>,
    hash: RandomState,
    /// Number of datagrams whose slot was occupied.
    conflicts: u64,
    warned: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct Seen {
    datagram: u64,
    from: u64,
    at: Timestamp,
}

impl Loops {
    pub(super) fn new() -> Self {
        Self { seen: Vec::new(), hash: RandomState::new(), conflicts: 0, warned: None }
    }

    /// Returns whether a copy of this datagram has recently arrived from an address other than
    /// `from`.
    pub(super) fn is_back(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> bool {
        self.seen.resize(PLACES, None);
        let first = datagram.get(..FIRST.min(datagram.len()));
        let last = datagram.get(datagram.len().saturating_sub(LAST)..);
        let seen = Seen {
            datagram: self.hash.hash_one((first, last, datagram.len())),
            from: self.hash.hash_one((from.ip(), from.port())),
            at: now,
        };
        let Some(place) = self.seen.get_mut((seen.datagram % PLACES as u64) as usize) else {
            return false;
        };
        match place.filter(|it| it.at + LIFETIME > now) {
            Some(before) if before.datagram == seen.datagram => {
                if before.from != seen.from {
                    return true;
                }
                *place = Some(seen);
            }
            // Datagrams that always replace each other in a slot would never be detected.
            // Therefore, one of them usually keeps the slot until it comes back.
            Some(_) => {
                self.conflicts = self.conflicts.wrapping_add(1);
                if self.hash.hash_one(self.conflicts).is_multiple_of(CONFLICTS_PER_CHANGE) {
                    *place = Some(seen);
                }
            }
            None => *place = Some(seen),
        }
        false
    }

    /// Logs a warning about a datagram that came back, at most once per [`QUIET`].
    pub(super) fn warn(&mut self, now: Timestamp, from: SocketAddr, server: SocketAddr) {
        if self.warned.is_none_or(|at| at + QUIET <= now) {
            self.warned = Some(now);
            tracing::warn!(
                %from,
                %server,
                "dropped a datagram that this balancer has already forwarded: this server is the balancer itself, or another \
                 balancer that has this one as a server; remove it"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata};

    use super::*;

    fn from(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn a_datagram_from_another_address_is_back() {
        let mut loops = Loops::new();
        let now = Timestamp::ORIGIN;
        let datagram = |number: u8| [&[number; 40][..], &[0; 1160], &[number; 1]].concat();
        assert!(!loops.is_back(now, from(1), &datagram(7)));
        // The network may duplicate a datagram.
        assert!(!loops.is_back(now, from(1), &datagram(7)));
        assert!(loops.is_back(now, from(2), &datagram(7)));
        assert!(loops.is_back(now, from(3), &datagram(7)));
        assert!(!loops.is_back(now + LIFETIME, from(2), &datagram(7)));
        let mut loops = Loops::new();
        assert!(!loops.is_back(now, from(1), &datagram(7)));
        assert!(!loops.is_back(now, from(2), &datagram(7)[1..]));
        for datagram in [&[][..], &[1], &[1; 33]] {
            let mut loops = Loops::new();
            assert!(!loops.is_back(now, from(1), datagram));
            assert!(loops.is_back(now, from(2), datagram));
        }
        assert_eq!(loops.seen.len(), PLACES);
    }

    /// A `tracing` subscriber that counts log events.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicU32>);

    impl tracing::Subscriber for Counting {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            assert_eq!(*event.metadata().level(), tracing::Level::WARN);
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_loop_is_reported_at_most_once_a_minute() {
        let counting = Counting::default();
        let mut loops = Loops::new();
        tracing::subscriber::with_default(counting.clone(), || {
            for (second, expected) in
                [(0, 1), (1, 1), (59, 1), (60, 2), (61, 2), (119, 2), (500, 3)]
            {
                let now = Timestamp::ORIGIN + Duration::from_secs(second);
                loops.warn(now, from(1), from(2));
                assert_eq!(counting.0.load(Ordering::Relaxed), expected, "{second}");
            }
        });
    }

    /// There are more datagrams than slots, so that many share a slot. They circulate until each of
    /// them is detected.
    #[test]
    fn datagrams_that_share_a_place_do_not_go_round_forever() {
        let mut loops = Loops::new();
        let mut going: Vec<u32> = (0..4 * PLACES as u32).collect();
        for round in 0..1000 {
            let port = 1 + round % 2;
            let now = Timestamp::ORIGIN;
            going.retain(|number| !loops.is_back(now, from(port), &number.to_be_bytes()));
        }
        assert_eq!(going, []);
    }
}
