use crate::{ConnectionId, DecodeError, EncodeError, Reader, ResetToken, VarInt, Writer};

/// The NEW_CONNECTION_ID frame (RFC 9000 §19.15). `retire_prior_to` is at most `sequence`, and the
/// connection ID has 1 to 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewConnectionId {
    /// The sequence number of the connection ID.
    pub sequence: VarInt,
    /// Connection IDs with sequence numbers below this one must be retired.
    pub retire_prior_to: VarInt,
    /// The connection ID.
    pub id: ConnectionId,
    /// The stateless reset token for this connection ID.
    pub reset_token: ResetToken,
}

impl NewConnectionId {
    pub(super) const TYPE: u8 = 0x18;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sequence = VarInt::decode(reader, "Sequence Number")?;
        let retire_prior_to = VarInt::decode(reader, "Retire Prior To")?;
        if retire_prior_to > sequence {
            return Err(DecodeError::invalid("Retire Prior To", "exceeds the Sequence Number"));
        }
        let id = ConnectionId::decode(reader, "Connection ID")?;
        if id.is_empty() {
            return Err(DecodeError::invalid("Connection ID Length", "is zero"));
        }
        let reset_token = ResetToken::new(reader.array("Stateless Reset Token")?);
        Ok(Self { sequence, retire_prior_to, id, reset_token })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(Self::TYPE)?;
        self.sequence.encode(writer)?;
        self.retire_prior_to.encode(writer)?;
        self.id.encode(writer)?;
        writer.bytes(self.reset_token.as_bytes())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        // The type and the Length field take a byte each.
        2_usize
            .saturating_add(self.sequence.encoded_len())
            .saturating_add(self.retire_prior_to.encoded_len())
            .saturating_add(self.id.len())
            .saturating_add(ResetToken::LEN)
    }
}

#[cfg(test)]
#[path = "new_connection_id_tests.rs"]
mod tests;
