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
    /// The longest connection ID of QUIC versions 1 and 2.
    pub const MAX_LEN: usize = 20;

    /// A connection ID of the given bytes, or an error if there are more than 20.
    pub fn new(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut id = Self::default();
        let space = id
            .bytes
            .get_mut(..bytes.len())
            .ok_or(DecodeError::invalid("Connection ID Length", "is above 20"))?;
        space.copy_from_slice(bytes);
        id.length = bytes.len() as u8;
        Ok(id)
    }

    /// Reads a length byte and a connection ID; `field` names it in errors.
    pub fn decode(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let length = usize::from(reader.u8(field)?);
        if length > Self::MAX_LEN {
            return Err(DecodeError::invalid(field, "is longer than 20 bytes"));
        }
        Self::new(reader.bytes(length, field)?)
    }

    /// Writes the length byte and the connection ID, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.len().saturating_add(1))?;
        writer.u8(self.length)?;
        writer.bytes(self.as_bytes())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether this is the zero-length connection ID.
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

/// The token that ends a stateless reset (RFC 9000 §10.3). Compared in constant time.
#[derive(Clone, Copy)]
pub struct ResetToken([u8; Self::LEN]);

impl ResetToken {
    /// Bytes in a stateless reset token.
    pub const LEN: usize = 16;

    /// A token of the given bytes.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
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
mod tests;
