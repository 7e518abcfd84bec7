use core::fmt;
use core::hash::{Hash, Hasher};

use crate::{DecodeError, EncodeError, Reader, Writer};

/// A connection ID of 0 to 20 bytes (RFC 9000 §17.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionId {
    length: u8,
    bytes: [u8; Self::MAX_LEN],
}

impl ConnectionId {
    /// The maximum length of a connection ID in QUIC versions 1 and 2.
    pub const MAX_LEN: usize = 20;

    /// Creates a connection ID from `bytes`; returns an error if there are more than 20 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut id = Self::default();
        let space = id
            .bytes
            .get_mut(..bytes.len())
            .ok_or(DecodeError::invalid("Connection ID Length", "exceeds 20"))?;
        space.copy_from_slice(bytes);
        id.length = bytes.len() as u8;
        Ok(id)
    }

    /// Reads a length byte and a connection ID; errors refer to the ID as `field`.
    pub fn decode(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let length = usize::from(reader.u8(field)?);
        if length > Self::MAX_LEN {
            return Err(DecodeError::invalid(field, "is longer than 20 bytes"));
        }
        Self::new(reader.bytes(length, field)?)
    }

    /// Writes the length byte and the connection ID, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.len().saturating_add(1))?;
        writer.u8(self.length)?;
        writer.bytes(self.as_bytes())
    }

    /// Returns the bytes of the connection ID.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Returns whether this is the zero-length connection ID.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

/// A stateless reset token, which forms the last bytes of a stateless reset (RFC 9000 §10.3).
/// Tokens are compared in constant time.
#[derive(Clone, Copy)]
pub struct ResetToken([u8; Self::LEN]);

impl ResetToken {
    /// The length of a stateless reset token in bytes.
    pub const LEN: usize = 16;

    /// Creates a token from `bytes`.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the token.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let difference =
            self.0.iter().zip(&other.0).fold(0, |difference, (a, b)| difference | (a ^ b));
        core::hint::black_box(difference) == 0
    }
}

impl Eq for ResetToken {}

impl Hash for ResetToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{bytes, connection_id};

    #[test]
    fn connection_ids_have_at_most_twenty_bytes() {
        let id = ConnectionId::new(&[7; 20]).unwrap();
        assert_eq!((id.as_bytes(), id.len(), id.is_empty()), (&[7; 20][..], 20, false));
        let invalid = DecodeError::invalid("Connection ID Length", "exceeds 20");
        assert_eq!(ConnectionId::new(&[7; 21]), Err(invalid));
        let mut encoded = [7; 30];
        encoded[0] = 21;
        let invalid = DecodeError::invalid("Field", "is longer than 20 bytes");
        assert_eq!(ConnectionId::decode(&mut Reader::new(&encoded), "Field"), Err(invalid));
    }

    #[test]
    fn shown_in_hexadecimal() {
        let id = ConnectionId::new(&[0x0a, 0xff]).unwrap();
        assert_eq!(
            (id.to_string(), format!("{id:?}")),
            ("0aff".into(), "ConnectionId(0aff)".into())
        );
    }

    #[test]
    fn tokens_are_equal_only_if_every_byte_is() {
        let token = ResetToken::new([3; 16]);
        assert_eq!(token, ResetToken::new([3; 16]));
        for position in 0..16 {
            let mut bytes = [3; 16];
            bytes[position] = 2;
            assert_ne!(token, ResetToken::new(bytes));
        }
        // Anyone who reads a token in a log could end the connection.
        assert_eq!(format!("{token:?}"), "ResetToken(..)");
    }

    proptest! {
        #[test]
        fn round_trip(id in connection_id()) {
            let mut buffer = [0; 21];
            let (space, _) = buffer.split_at_mut(id.len() + 1);
            id.encode(&mut Writer::new(space)).unwrap();
            prop_assert_eq!(ConnectionId::decode(&mut Reader::new(space), "Field"), Ok(id));
            for end in 0..space.len() {
                let cut = Err(DecodeError::Truncated { field: "Field" });
                prop_assert_eq!(ConnectionId::decode(&mut Reader::new(&space[..end]), "Field"), cut);
                let mut small = vec![0; end];
                let mut writer = Writer::new(&mut small);
                prop_assert_eq!(id.encode(&mut writer), Err(EncodeError));
                prop_assert_eq!(writer.written(), 0);
            }
        }

        #[test]
        fn any_bytes(encoded in bytes(40)) {
            if let Ok(id) = ConnectionId::decode(&mut Reader::new(&encoded), "Field") {
                prop_assert_eq!(id.as_bytes(), &encoded[1..=id.len()]);
            }
        }
    }
}
