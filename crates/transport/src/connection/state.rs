//! The states of a connection and their data.

use clearway_units::Timestamp;
use clearway_wire::VarInt;
use clearway_wire::frame::CloseKind;

use super::Transmit;

/// The state of a connection.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// The handshake is not complete.
    Handshaking {
        /// The time at which the handshake times out.
        deadline: Timestamp,
    },
    /// The handshake is complete (RFC 9001 §4.1.1).
    Complete,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
    /// This endpoint has closed the connection (RFC 9000 §10.2.1).
    Closing {
        /// The time at which the state is discarded.
        until: Timestamp,
        /// The contents of CONNECTION_CLOSE.
        close: Box<Close>,
        /// Whether a CONNECTION_CLOSE has to be sent.
        pending: bool,
        /// The number of times that CONNECTION_CLOSE has been sent; each time may take several
        /// datagrams.
        rounds: u8,
        /// The last datagram sent, if it can be repeated unchanged.
        last: Option<Box<CloseDatagram>>,
        /// Packets received since the connection was closed, which rate-limit the repetition of
        /// CONNECTION_CLOSE.
        received: u64,
    },
    /// The peer has closed the connection (RFC 9000 §10.2.2).
    Draining {
        /// The time at which the state is discarded.
        until: Timestamp,
    },
    /// The closing or draining state has ended, and the connection can be dropped.
    Drained,
}

impl Lifecycle {
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking { .. })
    }

    pub(super) fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closing { .. } | Self::Draining { .. } | Self::Drained)
    }

    pub(super) fn is_drained(&self) -> bool {
        matches!(self, Self::Drained)
    }

    /// Handles the building of a CONNECTION_CLOSE datagram. If `continues`, another datagram
    /// follows.
    pub(super) fn on_close_built(&mut self, continues: bool) {
        if let Self::Closing { pending, rounds, .. } = self {
            *pending = continues;
            *rounds = rounds.saturating_add(u8::from(!continues));
        }
    }

    /// Requests another CONNECTION_CLOSE.
    pub(super) fn repeat_close(&mut self) {
        if let Self::Closing { pending, .. } = self {
            *pending = true;
        }
    }

    /// Keeps a datagram with the complete CONNECTION_CLOSE, which can be repeated.
    pub(super) fn keep_close(&mut self, datagram: CloseDatagram) {
        if let Self::Closing { last, .. } = self {
            *last = Some(Box::new(datagram));
        }
    }

    /// Decides whether to respond to a packet; responses become rarer as more packets arrive (RFC
    /// 9000 §10.2.1).
    pub(super) fn on_packet_while_closing(&mut self) {
        if let Self::Closing { pending, received, .. } = self {
            *pending |= answers_next(received);
        }
    }
}

/// The contents of a CONNECTION_CLOSE.
#[derive(Clone, Debug)]
pub(super) struct Close {
    pub(super) kind: CloseKind,
    pub(super) error_code: VarInt,
    pub(super) reason: Vec<u8>,
}

/// A datagram with a CONNECTION_CLOSE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CloseDatagram {
    pub(super) transmit: Transmit,
    pub(super) datagram: Box<[u8]>,
}

/// Counts another packet received after the connection was closed, and decides whether to respond;
/// responses become rarer as more packets arrive (RFC 9000 §10.2.1).
pub(super) fn answers_next(received: &mut u64) -> bool {
    *received = received.saturating_add(1);
    received.is_power_of_two()
}
