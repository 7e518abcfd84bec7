//! Explicit Congestion Notification (ECN): codepoints and path states (RFC 9000 §13.4).

use clearway_units::packed::Pack;

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum EcnCodepoint {
    /// Not-ECT: the packet is not marked, and the sender does not use ECN.
    #[default]
    NotEct,
    /// ECT(1): the sender uses ECN and requests low latency (RFC 9331).
    Ect1,
    /// ECT(0): the sender uses ECN.
    Ect0,
    /// ECN-CE: congestion experienced by a packet that was marked ECT(0) or ECT(1).
    Ce,
}

impl EcnCodepoint {
    /// Creates a codepoint from the two lowest bits of `bits`; the others are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the two bits for the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// Whether packets on a path are marked ECT(0) (RFC 9000 §13.4.2, appendix A.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Pack)]
#[non_exhaustive]
pub enum EcnState {
    /// ECN is turned off in the configuration.
    Disabled,
    /// Packets are marked to find out how the path treats them.
    Testing,
    /// Enough packets have been marked, but the outcome is not known yet, so no more are marked.
    Unknown,
    /// The peer reports marks as they were sent: packets are marked.
    Capable,
    /// Validation failed: packets are no longer marked on this path.
    Failed(EcnFailure),
}

impl EcnState {
    /// Returns the name used in traces; `None` if ECN is disabled.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Disabled => None,
            Self::Testing => Some("testing"),
            Self::Unknown => Some("unknown"),
            Self::Capable => Some("capable"),
            Self::Failed(_) => Some("failed"),
        }
    }
}

/// Why ECN validation failed (RFC 9000 §13.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Pack)]
#[non_exhaustive]
pub enum EcnFailure {
    /// An ACK frame without ECN counts acknowledges marked packets: the path clears marks, or the
    /// peer does not report them.
    CountsMissing,
    /// An ECN count decreased.
    CountsDecreased,
    /// The counts of ECT(0) and ECN-CE grew by less than the number of marked packets that were acknowledged.
    CountsTooLow,
    /// More packets were reported as marked than were marked, or one as ECT(1), which is never
    /// used: the path adds marks.
    CountsTooHigh,
    /// Marked packets were lost, and none was acknowledged.
    AllLost,
    /// All acknowledged marked packets had been changed to ECN-CE.
    AllMarked,
}

#[cfg(test)]
mod tests {
    use super::EcnCodepoint::{self, *};

    #[test]
    fn codepoints_are_those_of_rfc_3168() {
        for (bits, codepoint) in [(0, NotEct), (1, Ect1), (2, Ect0), (3, Ce)] {
            assert_eq!(EcnCodepoint::from_bits(bits), codepoint);
            assert_eq!(
                EcnCodepoint::from_bits(bits | 0b1011_1000),
                codepoint,
                "the DSCP is ignored"
            );
            assert_eq!(codepoint.bits(), bits);
        }
    }
}
