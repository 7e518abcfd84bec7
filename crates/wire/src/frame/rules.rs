use super::{CloseKind, Frame};
use crate::PacketType;

impl Frame<'_> {
    /// Returns whether this frame is ack-eliciting (RFC 9002 §2): all frames are, except ACK,
    /// PADDING and CONNECTION_CLOSE.
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::Padding(_) | Self::ConnectionClose(_))
    }

    /// Returns whether a packet with this frame counts as in flight (RFC 9002 §2), which is the
    /// case for ack-eliciting frames and PADDING.
    pub fn counts_in_flight(&self) -> bool {
        self.is_ack_eliciting() || matches!(self, Self::Padding(_))
    }

    /// Returns whether this is a probing frame (RFC 9000 §9.1). A packet with any other frame on a
    /// new path is a migration.
    pub fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::PathChallenge(_)
                | Self::PathResponse(_)
                | Self::NewConnectionId(_)
                | Self::Padding(_)
        )
    }

    /// Returns whether the frame may be in a packet of this type (RFC 9000 §12.4, table 3, and
    /// §12.5). If not, receiving it is a connection error of type PROTOCOL_VIOLATION.
    ///
    /// For 0-RTT this follows §12.5, which also excludes RETIRE_CONNECTION_ID; ACK_FREQUENCY and
    /// IMMEDIATE_ACK are not allowed either (draft-ietf-quic-ack-frequency §3).
    pub fn is_allowed_in(&self, packet_type: PacketType) -> bool {
        match packet_type {
            PacketType::OneRtt => true,
            PacketType::Initial | PacketType::Handshake => match self {
                Self::Padding(_) | Self::Ping | Self::Ack(_) | Self::Crypto(_) => true,
                Self::ConnectionClose(frame) => matches!(frame.kind, CloseKind::Transport { .. }),
                _ => false,
            },
            PacketType::ZeroRtt => !matches!(
                self,
                Self::Ack(_)
                    | Self::Crypto(_)
                    | Self::HandshakeDone
                    | Self::NewToken(_)
                    | Self::PathResponse(_)
                    | Self::RetireConnectionId(_)
                    | Self::AckFrequency(_)
                    | Self::ImmediateAck
            ),
        }
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
