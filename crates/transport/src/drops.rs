//! Packets that arrived during a handshake, and the reasons for dropping packets.

use core::cmp::Reverse;
use core::fmt;

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// The packet is not a valid QUIC packet.
    Invalid,
    /// The packet's version is not supported.
    UnsupportedVersion,
    /// The packet's Destination Connection ID does not belong to this connection.
    ConnectionUnknown,
    /// The packet's keys are not available yet or have been discarded.
    KeyUnavailable,
    /// The packet could not be authenticated.
    DecryptionFailure,
    /// A packet with the same number was already received.
    Duplicate,
    /// The packet is not allowed in the connection's current state.
    Unexpected,
    /// A Retry packet that a client must discard: it is not the first response, or its integrity
    /// tag, version or connection IDs are wrong (RFC 9000 §17.2.5.2).
    Retry,
    /// A Version Negotiation packet that a client must discard: it is not the first response, lists
    /// the client's version, or has other connection IDs (RFC 9000 §6.2).
    VersionNegotiation,
}

impl DropReason {
    /// All reasons, in the order of the counters.
    const ALL: [Self; 9] = [
        Self::Invalid,
        Self::UnsupportedVersion,
        Self::ConnectionUnknown,
        Self::KeyUnavailable,
        Self::DecryptionFailure,
        Self::Duplicate,
        Self::Unexpected,
        Self::Retry,
        Self::VersionNegotiation,
    ];

    /// Returns the predicate of a sentence about dropped packets; it fits both singular and plural.
    const fn predicate(self) -> &'static str {
        match self {
            Self::Invalid => "did not parse as QUIC",
            Self::UnsupportedVersion => "had an unknown version",
            Self::ConnectionUnknown => "had an unknown connection ID",
            Self::KeyUnavailable => "arrived when their keys were not available",
            Self::DecryptionFailure => "could not be decrypted",
            Self::Duplicate => "arrived twice",
            Self::Unexpected => "arrived unexpectedly, such as from another address",
            Self::Retry => "contained an unacceptable Retry",
            Self::VersionNegotiation => "contained an unacceptable Version Negotiation",
        }
    }
}

/// Counts of dropped packets by reason. `Display` lists the nonzero counts, largest first: "9 could
/// not be decrypted, 3 had an unknown version".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounts([u32; DropReason::ALL.len()]);

impl DropCounts {
    /// Returns the number of packets dropped for `reason`; at most 2^32 - 1 are counted.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or_default().into()
    }

    /// Returns the number of packets dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(u64::from(*count)))
    }

    /// Counts `packets` dropped packets.
    pub(crate) fn add(&mut self, reason: DropReason, packets: usize) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count = count.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        }
    }
}

impl fmt::Display for DropCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = DropReason::ALL;
        reasons.sort_by_key(|reason| Reverse(self.get(*reason)));
        let mut separator = "";
        for reason in reasons.into_iter().filter(|reason| self.get(*reason) > 0) {
            write!(f, "{separator}{} {}", self.get(reason), reason.predicate())?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Summary of the packets received from the peer during a handshake. `Display` prints "nothing
/// arrived", or "12 packets arrived and all were dropped: 9 could not be decrypted, 3 had an
/// unknown version".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HandshakePackets {
    /// Packets that were decrypted and processed.
    pub processed: u64,
    /// Whether this client accepted a Retry packet (RFC 9000 §17.2.5.2).
    pub followed_retry: bool,
    /// Whether this client restarted in another version after a Version Negotiation packet (RFC
    /// 9368 §2.1).
    pub followed_version_negotiation: bool,
    /// Packets that were dropped. [`KeyUnavailable`](DropReason::KeyUnavailable) includes packets
    /// that are still waiting for their keys.
    ///
    /// A client also counts packets from the server's address that belong to no connection of its
    /// endpoint. If several handshakes with one address run at the same time, at most 16 count
    /// each.
    pub dropped: DropCounts,
}

impl HandshakePackets {
    /// Returns the number of packets that arrived.
    pub fn arrived(&self) -> u64 {
        let followed = [self.followed_retry, self.followed_version_negotiation];
        let followed = followed.into_iter().fold(0_u64, |sum, it| sum.saturating_add(it.into()));
        self.processed.saturating_add(followed).saturating_add(self.dropped.total())
    }
}

impl fmt::Display for HandshakePackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (arrived, dropped) = (self.arrived(), self.dropped.total());
        match arrived {
            0 => return f.write_str("nothing arrived"),
            1 => f.write_str("1 packet arrived")?,
            _ => write!(f, "{arrived} packets arrived")?,
        }
        match (self.followed_version_negotiation, self.followed_retry) {
            (true, true) => f.write_str(", a Version Negotiation and a Retry were accepted")?,
            (true, false) => f.write_str(", a Version Negotiation was accepted")?,
            (false, true) => f.write_str(", a Retry was accepted")?,
            (false, false) => {}
        }
        match dropped {
            0 => return Ok(()),
            1 if arrived == 1 => f.write_str(" and was dropped: ")?,
            _ if dropped == arrived => f.write_str(" and all were dropped: ")?,
            1 => f.write_str(" and 1 was dropped: ")?,
            _ => write!(f, " and {dropped} were dropped: ")?,
        }
        self.dropped.fmt(f)
    }
}

#[cfg(test)]
#[path = "drops_tests.rs"]
mod tests;
