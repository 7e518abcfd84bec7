use core::time::Duration;

use clearway_units::Timestamp;

/// The times at which the NAT in front of the client discards its mapping and creates a new one.
///
/// The NAT is at the client's end of the link: a datagram to the server gets the mapping that is
/// current when it enters the link; a datagram to the client is dropped if its mapping is no longer
/// current when it leaves the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rebind {
    /// The time from the first datagram in either direction until the first change.
    pub first: Duration,
    /// The interval between later changes; `None` or zero if there are none.
    pub every: Option<Duration>,
    /// Whether the client's IP address changes with its port. The link only counts mappings; the
    /// owner of the addresses must apply the change.
    pub address: bool,
}

impl Rebind {
    /// Returns how many changes have happened at `now`, given that the first datagram entered at
    /// `first_datagram`.
    pub(crate) fn generation(&self, first_datagram: Timestamp, now: Timestamp) -> u64 {
        let Some(since) = now.checked_since(first_datagram + self.first) else { return 0 };
        let later = match self.every {
            Some(every) => since.as_nanos().checked_div(every.as_nanos()).unwrap_or(0),
            None => 0,
        };
        u64::try_from(later).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, ms};

    #[test]
    fn counts_changes_from_the_first_datagram() {
        let rebind = Rebind { first: ms(1000), every: Some(ms(5000)), address: false };
        let generations = [(10, 0), (1009, 0), (1010, 1), (6009, 1), (6010, 2), (16_010, 4)];
        for (now, generation) in generations {
            assert_eq!(rebind.generation(at_ms(10), at_ms(now)), generation, "at {now} ms");
        }
    }

    #[test]
    fn happens_once_without_an_interval() {
        for every in [None, Some(Duration::ZERO)] {
            let rebind = Rebind { first: ms(1000), every, address: true };
            assert_eq!(rebind.generation(at_ms(0), at_ms(999)), 0);
            assert_eq!(rebind.generation(at_ms(0), at_ms(1_000_000)), 1);
        }
    }
}
