use clearway_wire::{Direction, PacketNumber, StreamId};

/// A path MTU probe; its acknowledgment proves that this size fits the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MtuProbe {
    /// The size of the datagram, in bytes.
    pub(crate) size: u16,
    /// The search that sent the probe. A new search starts on a new path and after a black hole.
    pub(crate) epoch: u32,
}

/// The record of a sent frame in the ledger. The record suffices to decide what to do when the
/// packet that carried the frame is acknowledged or lost (law 10). Packets themselves are never
/// kept or cloned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// An ACK frame that acknowledges packets up to `largest`.
    Ack { largest: PacketNumber },
    /// Bytes of the crypto stream in the packet's own space.
    Crypto { offset: u64, length: u64 },
    /// Bytes of a stream, and its end if `fin`.
    Stream { stream_id: StreamId, offset: u64, length: u64, fin: bool },
    /// A RESET_STREAM frame: the stream was reset.
    ResetStream { stream_id: StreamId },
    /// A RESET_STREAM_AT frame: the stream was reset, except for its first `reliable_size` bytes.
    ResetStreamAt { stream_id: StreamId, reliable_size: u64 },
    /// A STOP_SENDING frame.
    StopSending { stream_id: StreamId },
    /// A MAX_DATA frame: the connection's receive limit was raised.
    MaxData,
    /// A MAX_STREAM_DATA frame: a stream's receive limit was raised.
    MaxStreamData { stream_id: StreamId },
    /// A MAX_STREAMS frame: the stream limit was raised.
    MaxStreams { direction: Direction },
    /// A DATA_BLOCKED frame: blocked by the peer's connection limit.
    DataBlocked,
    /// A STREAM_DATA_BLOCKED frame: blocked by the peer's stream data limit.
    StreamDataBlocked { stream_id: StreamId },
    /// A STREAMS_BLOCKED frame: blocked by the peer's stream limit.
    StreamsBlocked { direction: Direction },
    /// A NEW_CONNECTION_ID frame: a connection ID was issued.
    NewConnectionId { sequence: u64 },
    /// A RETIRE_CONNECTION_ID frame: a connection ID was retired.
    RetireConnectionId { sequence: u64 },
    /// A NEW_TOKEN frame: a token for a later connection was sent.
    #[expect(clippy::enum_variant_names, reason = "the frame's name")]
    NewToken,
    /// An ACK_FREQUENCY frame.
    AckFrequency { sequence: u64 },
    /// A HANDSHAKE_DONE frame.
    HandshakeDone,
    /// A DATAGRAM frame with the unreliable datagram of this ID.
    Datagram { id: u64 },
    /// The PING of a path MTU probe.
    MtuProbe(MtuProbe),
}

impl Token {
    /// Extends this record with `next` if both are data of the same stream and `next` begins where
    /// this record ends. Returns whether the record was extended. Several packets of a bulk
    /// transfer are then acknowledged together.
    pub(crate) fn join(&mut self, next: &Self) -> bool {
        let Self::Stream { stream_id, offset, length, fin } = self else { return false };
        match *next {
            Self::Stream { stream_id: id, offset: from, length: more, fin: ends }
                if id == *stream_id && offset.checked_add(*length) == Some(from) =>
            {
                *length = length.saturating_add(more);
                *fin |= ends;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn data(index: u32, offset: u64, length: u64, fin: bool) -> Token {
        let id = clearway_wire::VarInt::from_u32(index * 4);
        Token::Stream { stream_id: StreamId::from_varint(id), offset, length, fin }
    }

    #[test]
    fn only_data_that_follows_is_joined() {
        let mut token = data(1, 10, 20, false);
        for other in [
            data(2, 30, 5, false),
            data(1, 29, 5, false),
            data(1, 31, 5, false),
            data(1, 10, 20, false),
            Token::MaxData,
        ] {
            assert!(!token.join(&other), "{other:?}");
        }
        assert_eq!(token, data(1, 10, 20, false));
        assert!(token.join(&data(1, 30, 5, false)));
        assert!(token.join(&data(1, 35, 0, true)));
        assert_eq!(token, data(1, 10, 25, true));
        assert!(!Token::MaxData.join(&data(1, 0, 5, false)));
    }
}
