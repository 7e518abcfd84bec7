use super::length_varint;
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// The CONNECTION_CLOSE frame (RFC 9000 §19.19), sent by the transport (0x1c) or by the application
/// (0x1d).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionClose<'a> {
    /// The error code; `kind` determines whether it is a transport or an application code.
    pub error_code: VarInt,
    /// Whether the transport or the application closed the connection.
    pub kind: CloseKind,
    /// The human-readable reason phrase; not necessarily valid UTF-8.
    pub reason: &'a [u8],
}

/// The party that closed the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseKind {
    /// The transport closed the connection because of a frame of this type (0 if unknown).
    Transport {
        /// The type of the frame that caused the error.
        frame_type: VarInt,
    },
    /// The application closed the connection.
    Application,
}

impl<'a> ConnectionClose<'a> {
    pub(super) const TYPE_TRANSPORT: u8 = 0x1c;
    pub(super) const TYPE_APPLICATION: u8 = 0x1d;

    pub(super) fn decode_transport(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let error_code = VarInt::decode(reader, "Error Code")?;
        let frame_type = VarInt::decode(reader, "Frame Type")?;
        let reason = reader.length_prefixed("Reason Phrase")?;
        Ok(Self { error_code, kind: CloseKind::Transport { frame_type }, reason })
    }

    pub(super) fn decode_application(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let error_code = VarInt::decode(reader, "Error Code")?;
        let reason = reader.length_prefixed("Reason Phrase")?;
        Ok(Self { error_code, kind: CloseKind::Application, reason })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(self.wire_type())?;
        self.error_code.encode(writer)?;
        if let CloseKind::Transport { frame_type } = self.kind {
            frame_type.encode(writer)?;
        }
        length_varint(self.reason.len()).encode(writer)?;
        writer.bytes(self.reason)
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        let frame_type_len = match self.kind {
            CloseKind::Transport { frame_type } => frame_type.encoded_len(),
            CloseKind::Application => 0,
        };
        1_usize
            .saturating_add(self.error_code.encoded_len())
            .saturating_add(frame_type_len)
            .saturating_add(length_varint(self.reason.len()).encoded_len())
            .saturating_add(self.reason.len())
    }

    pub(super) fn wire_type(&self) -> u8 {
        match self.kind {
            CloseKind::Transport { .. } => Self::TYPE_TRANSPORT,
            CloseKind::Application => Self::TYPE_APPLICATION,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, number};
    use crate::strategies::{bytes, hex, varint};

    #[test]
    fn on_the_wire() {
        let frame = ConnectionClose {
            error_code: number(0x0a),
            kind: CloseKind::Transport { frame_type: number(0x18) },
            reason: b"no",
        };
        check_bytes(Frame::ConnectionClose(frame), &hex("1c 0a 18 02 6e6f"));
        let frame = ConnectionClose {
            error_code: number(0x100),
            kind: CloseKind::Application,
            reason: b"",
        };
        check_bytes(Frame::ConnectionClose(frame), &hex("1d 4100 00"));
    }

    proptest! {
        #[test]
        fn round_trip(error_code in varint(), frame_type in varint(), reason in bytes(100)) {
            for kind in [CloseKind::Transport { frame_type }, CloseKind::Application] {
                let frame = ConnectionClose { error_code, kind, reason: &reason };
                check_round_trip(Frame::ConnectionClose(frame));
            }
        }
    }
}
