use core::time::Duration;

use clearway_units::Timestamp;

/// When the NAT in front of the client forgets its mapping and makes a new one.
///
/// The NAT is at the client's end of the link: a datagram to the server gets the mapping of the moment
/// in which it enters the link; one to the client is dropped if its mapping is no longer the current
/// one when it comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rebind {
    /// How long after the first datagram, in either direction, the first change happens.
    pub first: Duration,
    /// The time between later changes; `None` or zero has no later change.
    pub every: Option<Duration>,
    /// Whether the client's IP address changes with its port. The link only counts mappings; whoever
    /// owns the addresses follows this.
    pub address: bool,
}

impl Rebind {
    /// How many changes have happened at `now`, if the first datagram entered at `first_datagram`.
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
mod tests;
