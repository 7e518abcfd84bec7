//! One packet, as stored in the ledger and its spaces.

use clearway_congestion::{DeliverySnapshot, SendIndex, SentPacket};
use clearway_units::Timestamp;
use clearway_units::packed::Pack;
use clearway_wire::PacketNumber;

/// A packet that was built and encrypted but not yet sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StagedPacket {
    /// The packet number, as returned by
    /// [`Recovery::next_packet_number`](super::Recovery::next_packet_number).
    pub(crate) number: PacketNumber,
    /// The packet's size in bytes.
    pub(crate) bytes: u64,
    /// Whether the packet contains an ack-eliciting frame.
    pub(crate) ack_eliciting: bool,
    /// Whether the packet counts as in flight: it is ack-eliciting or has PADDING (RFC 9002 §2).
    pub(crate) in_flight: bool,
    /// Whether the packet probes a path or its MTU, in which case its loss is not a congestion
    /// signal (RFC 9000 §14.4).
    pub(crate) is_probe_of_path: bool,
    /// Whether the packet is sent on a path other than the current one, in which case its RTT is
    /// that of the other path.
    pub(crate) is_off_path: bool,
    /// Whether the packet's datagram is marked ECT(0) (RFC 9000 §13.4).
    pub(crate) is_marked: bool,
}

/// The state of a packet. A packet leaves `Outstanding` exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(super) enum PacketState {
    /// Built but not yet sent.
    Staged,
    /// Sent, but neither acknowledged nor lost.
    Outstanding,
    /// Acknowledged.
    Acknowledged {
        /// The end (exclusive) of the settled packets that start with this one; zero if unknown.
        settled_to: u64,
    },
    /// Declared lost. It may still be acknowledged.
    Lost {
        /// The time at which the packet was declared lost.
        at: Timestamp,
        /// The event in which the packet was declared lost.
        event: u64,
    },
    /// Abandoned: the peer cannot have processed it.
    Abandoned,
    /// The packet number was skipped deliberately (RFC 9000 §21.4).
    Skipped,
}

/// One packet in the ledger.
#[derive(Clone, Copy, Debug, Pack)]
pub(super) struct LedgerPacket {
    pub(super) number: u64,
    pub(super) state: PacketState,
    pub(super) ack_eliciting: bool,
    pub(super) in_flight: bool,
    /// Whether the packet's loss is not a congestion signal, because it probes a path or its MTU
    /// (RFC 9000 §14.4) or was sent to an address that the peer had left (§9.4).
    pub(super) is_exempt: bool,
    /// Whether the packet was sent on a path other than the current one, and counts toward that
    /// path.
    pub(super) is_off_path: bool,
    /// Whether the packet was sent with ECT(0).
    pub(super) is_marked: bool,
    /// The generation of the path that was current when the packet was sent.
    pub(super) path: u32,
    /// The number of the packet's tokens in the space's ring buffer.
    pub(super) token_count: u32,
    /// The position of the packet's first token, counted from the first token of the space.
    pub(super) first_token: u64,
    pub(super) bytes: u64,
    pub(super) index: SendIndex,
    pub(super) sent_at: Timestamp,
    pub(super) delivery: DeliverySnapshot,
}

impl LedgerPacket {
    /// Returns whether the packet was declared lost and has not been acknowledged since.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, PacketState::Lost { .. })
    }

    /// Returns whether the packet was sent on the path of this generation while that was the
    /// current path.
    pub(super) fn is_on(&self, path: u32) -> bool {
        !self.is_off_path && self.path == path
    }

    /// Returns whether the packet arms the current path's probe timer. Path validation has its own
    /// timer (RFC 9000 §9.4).
    pub(super) fn arms_timer(&self) -> bool {
        self.ack_eliciting && !self.is_off_path
    }

    /// Converts the packet to the form that controllers receive.
    pub(super) fn as_sent(&self) -> SentPacket {
        SentPacket {
            index: self.index,
            bytes: self.bytes,
            sent_at: self.sent_at,
            delivery: self.delivery,
        }
    }
}
