//! One packet, as the ledger and its spaces keep it.

use clearway_congestion::{DeliverySnapshot, SendIndex, SentPacket};
use clearway_units::Timestamp;
use clearway_units::packed::Pack;
use clearway_wire::PacketNumber;

/// A packet that was built and encrypted, and is not sent yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StagedPacket {
    /// Its number, as [`Recovery::next_packet_number`](super::Recovery::next_packet_number) gave it.
    pub(crate) number: PacketNumber,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Whether it contains an ack-eliciting frame.
    pub(crate) ack_eliciting: bool,
    /// Whether it counts as in flight: it is ack-eliciting or has PADDING (RFC 9002 §2).
    pub(crate) in_flight: bool,
    /// Whether it probes a path or its MTU: its loss is not a congestion signal (RFC 9000 §14.4).
    pub(crate) is_probe_of_path: bool,
    /// Whether it is not sent on the current path, so that its round-trip time is that of another.
    pub(crate) is_off_path: bool,
    /// Whether its datagram is marked ECT(0) (RFC 9000 §13.4).
    pub(crate) is_marked: bool,
}

/// The state of a packet. It leaves `Outstanding` exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(super) enum PacketState {
    /// Built, not yet sent.
    Staged,
    /// Sent, neither acknowledged nor lost.
    Outstanding,
    /// Acknowledged.
    Acknowledged {
        /// All numbers from its own up to this one are settled. Zero if that is not known.
        settled_to: u64,
    },
    /// Declared lost. It may still be acknowledged.
    Lost {
        /// When that was.
        at: Timestamp,
        /// The event in which it was.
        event: u64,
    },
    /// Abandoned: the peer cannot have processed it.
    Abandoned,
    /// The number was skipped on purpose (RFC 9000 §21.4).
    Skipped,
}

/// One packet in the ledger.
#[derive(Clone, Copy, Debug, Pack)]
pub(super) struct LedgerPacket {
    pub(super) number: u64,
    pub(super) state: PacketState,
    pub(super) ack_eliciting: bool,
    pub(super) in_flight: bool,
    /// Whether its loss is not a congestion signal: it probes a path or its MTU (RFC 9000 §14.4), or the peer no longer had
    /// the address to which it was sent (§9.4).
    pub(super) is_exempt: bool,
    /// Whether it was sent on another path than the current one, and counts there.
    pub(super) is_off_path: bool,
    /// Whether it was sent with ECT(0).
    pub(super) is_marked: bool,
    /// The generation of the path on which it was sent.
    pub(super) path: u32,
    /// How many tokens it has in the space's ring.
    pub(super) token_count: u32,
    /// The position of its first token, counted from the first token of the space.
    pub(super) first_token: u64,
    pub(super) bytes: u64,
    pub(super) index: SendIndex,
    pub(super) sent_at: Timestamp,
    pub(super) delivery: DeliverySnapshot,
}

impl LedgerPacket {
    /// Whether it is declared lost, and not acknowledged since.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, PacketState::Lost { .. })
    }

    /// Whether it was sent on the path of this generation, which was current then.
    pub(super) fn is_on(&self, path: u32) -> bool {
        !self.is_off_path && self.path == path
    }

    /// Whether the peer's silence about it is a matter of the current path's probe timer. Path
    /// validation has a timer of its own (RFC 9000 §9.4).
    pub(super) fn arms_timer(&self) -> bool {
        self.ack_eliciting && !self.is_off_path
    }

    /// The packet in the form that controllers are given.
    pub(super) fn as_sent(&self) -> SentPacket {
        SentPacket {
            index: self.index,
            bytes: self.bytes,
            sent_at: self.sent_at,
            delivery: self.delivery,
        }
    }
}
