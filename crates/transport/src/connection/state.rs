//! The states of a connection, and what it keeps in each.

use clearway_units::Timestamp;
use clearway_wire::VarInt;
use clearway_wire::frame::CloseKind;

use super::Transmit;

/// The state of a connection.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// The handshake is not complete.
    Handshaking {
        /// When the handshake times out.
        deadline: Timestamp,
    },
    /// The handshake is complete (RFC 9001 §4.1.1).
    Complete,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
    /// This endpoint has closed the connection (RFC 9000 §10.2.1).
    Closing {
        /// When the state is discarded.
        until: Timestamp,
        /// The content of CONNECTION_CLOSE.
        close: Box<Close>,
        /// Whether a CONNECTION_CLOSE is to be sent.
        pending: bool,
        /// How often it has been sent, in as many datagrams as it takes each time.
        rounds: u8,
        /// The last one that was sent, if it can be sent again as it is.
        last: Option<Box<Answer>>,
        /// Packets received since, which limit how often the CONNECTION_CLOSE is repeated.
        received: u64,
    },
    /// The peer has closed the connection (RFC 9000 §10.2.2).
    Draining {
        /// When the state is discarded.
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

    /// A datagram of CONNECTION_CLOSE was built. Another belongs to it if `continues`.
    pub(super) fn on_close_built(&mut self, continues: bool) {
        if let Self::Closing { pending, rounds, .. } = self {
            *pending = continues;
            *rounds = rounds.saturating_add(u8::from(!continues));
        }
    }

    /// Another CONNECTION_CLOSE is to be sent.
    pub(super) fn repeat_close(&mut self) {
        if let Self::Closing { pending, .. } = self {
            *pending = true;
        }
    }

    /// This datagram has all of the CONNECTION_CLOSE, and can be sent again.
    pub(super) fn keep_close(&mut self, datagram: Answer) {
        if let Self::Closing { last, .. } = self {
            *last = Some(Box::new(datagram));
        }
    }

    /// Decides whether a packet is answered: the more were received, the rarer the answers (RFC 9000 §10.2.1).
    pub(super) fn on_packet_while_closing(&mut self) {
        if let Self::Closing { pending, received, .. } = self {
            *pending |= answers_next(received);
        }
    }
}

/// The content of a CONNECTION_CLOSE.
#[derive(Clone, Debug)]
pub(super) struct Close {
    pub(super) kind: CloseKind,
    pub(super) error_code: VarInt,
    pub(super) reason: Vec<u8>,
}

/// A datagram with a CONNECTION_CLOSE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(super) transmit: Transmit,
    pub(super) datagram: Box<[u8]>,
}

/// Counts another packet of a peer whose connection is closed, and decides whether it is answered: the more there were, the
/// rarer the answers (RFC 9000 §10.2.1).
pub(super) fn answers_next(received: &mut u64) -> bool {
    *received = received.saturating_add(1);
    received.is_power_of_two()
}
