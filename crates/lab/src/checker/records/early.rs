//! Tracks the 0-RTT packets that a client sends (S28).

use clearway_wire::{Frame, PacketType, Reader};

/// Whether a client may still send 0-RTT packets.
#[derive(Debug, Default)]
pub(in crate::checker) struct EarlyPackets {
    /// Whether a 1-RTT packet was sent.
    is_over: bool,
}

impl EarlyPackets {
    /// Processes a packet that is sent.
    ///
    /// # Errors
    /// Returns an error if it is a 0-RTT packet and a 1-RTT packet was sent before (RFC 9001 §5.6),
    /// or if it contains a frame that is not permitted (RFC 9000 §12.5).
    pub(in crate::checker) fn on_sent(
        &mut self,
        packet_type: PacketType,
        payload: &[u8],
    ) -> Result<(), String> {
        self.is_over |= packet_type == PacketType::OneRtt;
        if packet_type != PacketType::ZeroRtt {
            return Ok(());
        }
        if self.is_over {
            return Err("a 0-RTT packet was sent after a 1-RTT packet".to_owned());
        }
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let Ok(frame) = Frame::decode(&mut reader) else { break };
            if is_forbidden(&frame) {
                return Err(format!("a 0-RTT packet contains {frame:?}"));
            }
        }
        Ok(())
    }
}

/// Returns whether a frame is forbidden in 0-RTT packets (RFC 9000 §12.5;
/// draft-ietf-quic-ack-frequency §3).
fn is_forbidden(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::Ack(_)
            | Frame::Crypto(_)
            | Frame::HandshakeDone
            | Frame::NewToken(_)
            | Frame::PathResponse(_)
            | Frame::RetireConnectionId(_)
            | Frame::AckFrequency(_)
            | Frame::ImmediateAck
    )
}
