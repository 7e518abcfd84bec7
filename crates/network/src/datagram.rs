use core::time::Duration;

use clearway_units::Timestamp;

/// One of the two directions of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Way {
    /// The direction from the client to the server: requests, and acknowledgments of a download.
    ToServer,
    /// The direction from the server to the client: the data of a download.
    ToClient,
}

impl Way {
    /// Returns the opposite direction.
    pub const fn other(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// The ECN field of the IP header (RFC 3168, Section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Ecn {
    /// The sender does not use ECN.
    #[default]
    NotEct,
    /// ECN-capable, ECT(0).
    Ect0,
    /// ECN-capable, ECT(1): the sender requests low latency (RFC 9331).
    Ect1,
    /// CE: the datagram experienced congestion on the path.
    Ce,
}

impl Ecn {
    /// Returns the codepoint in the two low bits of `bits`; the other bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the two bits of the codepoint.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Returns whether a router may mark this datagram.
    pub(crate) const fn is_markable(self) -> bool {
        matches!(self, Self::Ect0 | Self::Ect1)
    }
}

/// The treatment of each entering datagram's ECN field, before any queue can mark the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum EcnTreatment {
    /// The field is forwarded unchanged.
    #[default]
    Kept,
    /// The field is cleared ("bleached").
    Cleared,
    /// ECT(0) becomes ECT(1).
    ToEct1,
    /// ECT(0) and ECT(1) become CE, whether or not there is congestion.
    ToCe,
    /// Datagrams with ECT(0), ECT(1) or CE are dropped ([`DropReason::Ecn`]).
    Dropped,
}

impl EcnTreatment {
    /// Returns the ECN field of a datagram that entered with `ecn`; `None` if it is dropped.
    pub(crate) const fn apply(self, ecn: Ecn) -> Option<Ecn> {
        match (self, ecn) {
            (_, Ecn::NotEct) => Some(Ecn::NotEct),
            (Self::Kept, ecn) => Some(ecn),
            (Self::Cleared, _) => Some(Ecn::NotEct),
            (Self::ToEct1, Ecn::Ect0) => Some(Ecn::Ect1),
            (Self::ToEct1, ecn) => Some(ecn),
            (Self::ToCe, _) => Some(Ecn::Ce),
            (Self::Dropped, _) => None,
        }
    }
}

/// A UDP datagram on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The UDP payload. The buffer is moved through the link, never copied, except for a duplicate.
    pub payload: Vec<u8>,
    /// The ECN codepoint.
    pub ecn: Ecn,
    /// A number chosen by the caller and returned on delivery, such as the index of the client that
    /// sent the datagram. Counters are kept per flow ([`Link::flow`](crate::Link::flow)), and each
    /// flow can have its own delay ([`FlowDelay`](crate::FlowDelay)).
    pub flow: u32,
}

/// A datagram that the link delivers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The direction in which the datagram traveled.
    pub way: Way,
    /// The datagram.
    pub datagram: Datagram,
    /// The delivery time. It is not later than the time passed to
    /// [`Link::poll`](crate::Link::poll), and never earlier than the previous delivery.
    pub at: Timestamp,
    /// The generation of the datagram's NAT mapping, counted from zero: for [`Way::ToServer`], the
    /// mapping it was sent through (a relay sends it from the socket of that generation), and for
    /// [`Way::ToClient`], the mapping it was addressed to.
    pub binding: u64,
    /// The datagram's number, assigned on entry.
    pub number: u64,
    /// The time at which the datagram entered.
    pub entered: Timestamp,
    /// The datagram's queueing delay at the bottleneck.
    pub queued: Duration,
    /// Whether the link marked the datagram CE.
    pub is_marked: bool,
    /// Whether this is a copy that the link made; the original has the same number.
    pub is_copy: bool,
}

/// A datagram that was dropped after it had entered. Its [`Outcome`] was [`Outcome::Entered`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The direction in which the datagram traveled.
    pub way: Way,
    /// The datagram's number, assigned on entry.
    pub number: u64,
    /// The datagram's flow.
    pub flow: u32,
    /// The length of the datagram's payload in bytes.
    pub length: usize,
    /// The time at which the datagram was dropped.
    pub at: Timestamp,
    /// The reason why the datagram was dropped.
    pub reason: DropReason,
    /// Whether this is a copy that the link made; the original has the same number.
    pub is_copy: bool,
}

/// The reason why a link dropped a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The loss model [`LossModel::Random`](crate::LossModel::Random) or
    /// [`LossModel::RandomCapped`](crate::LossModel::RandomCapped).
    Random,
    /// The loss model [`LossModel::Burst`](crate::LossModel::Burst) or
    /// [`LossModel::GilbertElliott`](crate::LossModel::GilbertElliott).
    Burst,
    /// The loss model [`LossModel::List`](crate::LossModel::List).
    Listed,
    /// A [`Disturbance`](crate::Disturbance).
    Disturbance,
    /// The queue in front of the bottleneck was full.
    Queue,
    /// The direction already contained [`PIPE_LIMIT`](crate::PIPE_LIMIT) bytes.
    Pipe,
    /// The payload is larger than [`Conditions::mtu`](crate::Conditions::mtu) allows at that time.
    TooLarge,
    /// The datagram was ECN-capable or marked, and the direction drops such datagrams
    /// ([`EcnTreatment::Dropped`]).
    Ecn,
    /// The policer had too few tokens for the datagram.
    Policer,
    /// The queue's discipline dropped the datagram while it waited
    /// ([`Discipline::CoDel`](crate::Discipline::CoDel),
    /// [`Discipline::DualPi2`](crate::Discipline::DualPi2)).
    QueueManagement,
    /// The datagram was small, and a newer small datagram of its flow arrived while it waited.
    AckFilter,
    /// The receiver's socket buffer was full when the datagram arrived.
    SocketBuffer,
    /// The datagram was addressed to a NAT mapping that no longer existed when it arrived at the
    /// NAT. Such a datagram is dropped at the end of its path.
    OldBinding,
}

/// The result of submitting a datagram to a link. Every datagram gets a unique number; numbers
/// ascend from zero across both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The datagram is in the link. A discipline, an ACK filter or a socket buffer may still drop
    /// it, and so may the NAT if the datagram's mapping is old; see
    /// [`Link::next_drop`](crate::Link::next_drop).
    Entered {
        /// The datagram's number.
        number: u64,
    },
    /// The datagram was dropped on entry.
    Dropped {
        /// The datagram's number.
        number: u64,
        /// The reason for the drop.
        reason: DropReason,
    },
}

impl Outcome {
    /// Returns the datagram's number.
    pub const fn number(self) -> u64 {
        match self {
            Self::Entered { number } | Self::Dropped { number, .. } => number,
        }
    }

    /// Returns whether the datagram is in the link.
    pub const fn has_entered(self) -> bool {
        matches!(self, Self::Entered { .. })
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
