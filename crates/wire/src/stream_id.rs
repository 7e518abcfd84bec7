use core::fmt;

use crate::VarInt;

/// The endpoint that opened a stream (RFC 9000 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Initiator {
    /// The client opened the stream.
    Client,
    /// The server opened the stream.
    Server,
}

/// The directions in which a stream carries data (RFC 9000 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Data flows in both directions.
    Bidirectional,
    /// Data flows only from the initiator to its peer.
    Unidirectional,
}

/// A stream ID (RFC 9000 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(VarInt);

impl StreamId {
    /// Returns the ID of the stream with this zero-based `index` among streams of its type; `None`
    /// if `index` exceeds 2^60 - 1.
    pub fn new(initiator: Initiator, direction: Direction, index: u64) -> Option<Self> {
        let kind = u64::from(initiator == Initiator::Server)
            | (u64::from(direction == Direction::Unidirectional) << 1);
        VarInt::new(index.checked_mul(4)?.checked_add(kind)?).map(Self)
    }

    /// Creates the stream ID that `value` encodes.
    pub const fn from_varint(value: VarInt) -> Self {
        Self(value)
    }

    /// Returns the encoded value.
    pub const fn varint(self) -> VarInt {
        self.0
    }

    /// Returns the encoded value.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the endpoint that opened the stream.
    pub const fn initiator(self) -> Initiator {
        if self.0.get() & 1 == 0 { Initiator::Client } else { Initiator::Server }
    }

    /// Returns the directions in which the stream carries data.
    pub const fn direction(self) -> Direction {
        if self.0.get() & 2 == 0 { Direction::Bidirectional } else { Direction::Unidirectional }
    }

    /// Returns the stream's zero-based index among the streams of its type.
    pub const fn index(self) -> u64 {
        self.0.get() >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests table 1 in RFC 9000 §2.1.
    #[test]
    fn the_two_low_bits_are_the_stream_type() {
        use Direction::{Bidirectional, Unidirectional};
        use Initiator::{Client, Server};
        let kinds = [
            (Client, Bidirectional),
            (Server, Bidirectional),
            (Client, Unidirectional),
            (Server, Unidirectional),
        ];
        for (value, (initiator, direction)) in (0..).zip(kinds) {
            for index in [0, 1, 1000, (1 << 60) - 1] {
                let id = StreamId::new(initiator, direction, index).unwrap();
                assert_eq!(id.get(), index * 4 + value);
                let number = id.get();
                assert_eq!(
                    (format!("{id}"), format!("{id:?}")),
                    (format!("{number}"), format!("StreamId({number})"))
                );
                assert_eq!(
                    (id.initiator(), id.direction(), id.index()),
                    (initiator, direction, index)
                );
                assert_eq!(StreamId::from_varint(id.varint()), id);
            }
            assert_eq!(StreamId::new(initiator, direction, 1 << 60), None);
            assert_eq!(StreamId::new(initiator, direction, u64::MAX), None);
        }
    }
}
