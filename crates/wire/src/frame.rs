//! The frames of RFC 9000 §19, RFC 9221 §4, draft-ietf-quic-ack-frequency and
//! draft-ietf-quic-reliable-stream-reset, with one file for each frame.
//!
//! [`Frame::decode`] reads one frame of a packet's payload; the frame borrows its data from the
//! packet. Each frame has the methods `encode`, which writes the entire frame including its type,
//! or nothing on error, and `encoded_len`.

mod ack;
mod ack_frequency;
mod connection_close;
mod crypto;
mod data_blocked;
mod datagram;
mod max_data;
mod max_stream_data;
mod max_streams;
mod new_connection_id;
mod new_token;
mod padding;
mod path_challenge;
mod path_response;
mod reset_stream;
mod reset_stream_at;
mod retire_connection_id;
mod rules;
mod stop_sending;
mod stream;
mod stream_data_blocked;
mod streams_blocked;

pub use ack::{Ack, AckRanges, EcnCounts};
pub use ack_frequency::AckFrequency;
pub use connection_close::{CloseKind, ConnectionClose};
pub use crypto::Crypto;
pub use data_blocked::DataBlocked;
pub use datagram::Datagram;
pub use max_data::MaxData;
pub use max_stream_data::MaxStreamData;
pub use max_streams::MaxStreams;
pub use new_connection_id::NewConnectionId;
pub use new_token::NewToken;
pub use padding::Padding;
pub use path_challenge::PathChallenge;
pub use path_response::PathResponse;
pub use reset_stream::ResetStream;
pub use reset_stream_at::ResetStreamAt;
pub use retire_connection_id::RetireConnectionId;
pub use stop_sending::StopSending;
pub use stream::Stream;
pub use stream_data_blocked::StreamDataBlocked;
pub use streams_blocked::StreamsBlocked;

use crate::{DecodeError, Direction, EncodeError, Reader, VarInt, Writer};

/// A frame of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// The PADDING frame (RFC 9000 §19.1).
    Padding(Padding),
    /// The PING frame (RFC 9000 §19.2).
    Ping,
    /// The ACK frame (RFC 9000 §19.3).
    Ack(Ack<'a>),
    /// The RESET_STREAM frame (RFC 9000 §19.4).
    ResetStream(ResetStream),
    /// The STOP_SENDING frame (RFC 9000 §19.5).
    StopSending(StopSending),
    /// The CRYPTO frame (RFC 9000 §19.6).
    Crypto(Crypto<'a>),
    /// The NEW_TOKEN frame (RFC 9000 §19.7).
    NewToken(NewToken<'a>),
    /// The STREAM frame (RFC 9000 §19.8).
    Stream(Stream<'a>),
    /// The MAX_DATA frame (RFC 9000 §19.9).
    MaxData(MaxData),
    /// The MAX_STREAM_DATA frame (RFC 9000 §19.10).
    MaxStreamData(MaxStreamData),
    /// The MAX_STREAMS frame (RFC 9000 §19.11).
    MaxStreams(MaxStreams),
    /// The DATA_BLOCKED frame (RFC 9000 §19.12).
    DataBlocked(DataBlocked),
    /// The STREAM_DATA_BLOCKED frame (RFC 9000 §19.13).
    StreamDataBlocked(StreamDataBlocked),
    /// The STREAMS_BLOCKED frame (RFC 9000 §19.14).
    StreamsBlocked(StreamsBlocked),
    /// The NEW_CONNECTION_ID frame (RFC 9000 §19.15).
    NewConnectionId(NewConnectionId),
    /// The RETIRE_CONNECTION_ID frame (RFC 9000 §19.16).
    RetireConnectionId(RetireConnectionId),
    /// The PATH_CHALLENGE frame (RFC 9000 §19.17).
    PathChallenge(PathChallenge),
    /// The PATH_RESPONSE frame (RFC 9000 §19.18).
    PathResponse(PathResponse),
    /// The CONNECTION_CLOSE frame (RFC 9000 §19.19).
    ConnectionClose(ConnectionClose<'a>),
    /// The HANDSHAKE_DONE frame (RFC 9000 §19.20).
    HandshakeDone,
    /// The DATAGRAM frame (RFC 9221 §4).
    Datagram(Datagram<'a>),
    /// The ACK_FREQUENCY frame (draft-ietf-quic-ack-frequency §4).
    AckFrequency(AckFrequency),
    /// The IMMEDIATE_ACK frame (draft-ietf-quic-ack-frequency §5).
    ImmediateAck,
    /// The RESET_STREAM_AT frame (draft-ietf-quic-reliable-stream-reset §4).
    ResetStreamAt(ResetStreamAt),
}

const PING: u8 = 0x01;
const HANDSHAKE_DONE: u8 = 0x1e;
const IMMEDIATE_ACK: u8 = 0x1f;

impl<'a> Frame<'a> {
    /// Reads one frame; consecutive PADDING frames are returned as one.
    ///
    /// # Errors
    /// Each error is a connection error of type FRAME_ENCODING_ERROR (RFC 9000 §12.4): an unknown
    /// type, a type that is not in its shortest encoding, or a field that is truncated or invalid.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        use Direction::{Bidirectional, Unidirectional};
        let frame_type = decode_type(reader)?;
        // Every known type is below 256.
        let wire_type =
            u8::try_from(frame_type).map_err(|_| DecodeError::UnknownFrame { frame_type })?;
        Ok(match wire_type {
            Padding::TYPE => Self::Padding(Padding::decode(reader)),
            PING => Self::Ping,
            Ack::TYPE => Self::Ack(Ack::decode(reader, false)?),
            Ack::TYPE_WITH_ECN => Self::Ack(Ack::decode(reader, true)?),
            ResetStream::TYPE => Self::ResetStream(ResetStream::decode(reader)?),
            StopSending::TYPE => Self::StopSending(StopSending::decode(reader)?),
            Crypto::TYPE => Self::Crypto(Crypto::decode(reader)?),
            NewToken::TYPE => Self::NewToken(NewToken::decode(reader)?),
            Stream::TYPE_FIRST..=Stream::TYPE_LAST => {
                Self::Stream(Stream::decode(reader, wire_type)?)
            }
            MaxData::TYPE => Self::MaxData(MaxData::decode(reader)?),
            MaxStreamData::TYPE => Self::MaxStreamData(MaxStreamData::decode(reader)?),
            MaxStreams::TYPE_BIDIRECTIONAL => {
                Self::MaxStreams(MaxStreams::decode(reader, Bidirectional)?)
            }
            MaxStreams::TYPE_UNIDIRECTIONAL => {
                Self::MaxStreams(MaxStreams::decode(reader, Unidirectional)?)
            }
            DataBlocked::TYPE => Self::DataBlocked(DataBlocked::decode(reader)?),
            StreamDataBlocked::TYPE => Self::StreamDataBlocked(StreamDataBlocked::decode(reader)?),
            StreamsBlocked::TYPE_BIDIRECTIONAL => {
                Self::StreamsBlocked(StreamsBlocked::decode(reader, Bidirectional)?)
            }
            StreamsBlocked::TYPE_UNIDIRECTIONAL => {
                Self::StreamsBlocked(StreamsBlocked::decode(reader, Unidirectional)?)
            }
            NewConnectionId::TYPE => Self::NewConnectionId(NewConnectionId::decode(reader)?),
            RetireConnectionId::TYPE => {
                Self::RetireConnectionId(RetireConnectionId::decode(reader)?)
            }
            PathChallenge::TYPE => Self::PathChallenge(PathChallenge::decode(reader)?),
            PathResponse::TYPE => Self::PathResponse(PathResponse::decode(reader)?),
            ConnectionClose::TYPE_TRANSPORT => {
                Self::ConnectionClose(ConnectionClose::decode_transport(reader)?)
            }
            ConnectionClose::TYPE_APPLICATION => {
                Self::ConnectionClose(ConnectionClose::decode_application(reader)?)
            }
            HANDSHAKE_DONE => Self::HandshakeDone,
            IMMEDIATE_ACK => Self::ImmediateAck,
            AckFrequency::TYPE => Self::AckFrequency(AckFrequency::decode(reader)?),
            ResetStreamAt::TYPE => Self::ResetStreamAt(ResetStreamAt::decode(reader)?),
            Datagram::TYPE => Self::Datagram(Datagram::decode(reader)),
            Datagram::TYPE_WITH_LENGTH => Self::Datagram(Datagram::decode_with_length(reader)?),
            _ => return Err(DecodeError::UnknownFrame { frame_type }),
        })
    }

    /// Writes the entire frame, including its type, or nothing on error. STREAM and DATAGRAM frames
    /// get a Length field.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Padding(frame) => frame.encode(writer),
            Self::Ping => writer.u8(PING),
            Self::Ack(frame) => frame.encode(writer),
            Self::ResetStream(frame) => frame.encode(writer),
            Self::StopSending(frame) => frame.encode(writer),
            Self::Crypto(frame) => frame.encode(writer),
            Self::NewToken(frame) => frame.encode(writer),
            Self::Stream(frame) => frame.encode(writer),
            Self::MaxData(frame) => frame.encode(writer),
            Self::MaxStreamData(frame) => frame.encode(writer),
            Self::MaxStreams(frame) => frame.encode(writer),
            Self::DataBlocked(frame) => frame.encode(writer),
            Self::StreamDataBlocked(frame) => frame.encode(writer),
            Self::StreamsBlocked(frame) => frame.encode(writer),
            Self::NewConnectionId(frame) => frame.encode(writer),
            Self::RetireConnectionId(frame) => frame.encode(writer),
            Self::PathChallenge(frame) => frame.encode(writer),
            Self::PathResponse(frame) => frame.encode(writer),
            Self::ConnectionClose(frame) => frame.encode(writer),
            Self::HandshakeDone => writer.u8(HANDSHAKE_DONE),
            Self::Datagram(frame) => frame.encode(writer),
            Self::AckFrequency(frame) => frame.encode(writer),
            Self::ImmediateAck => writer.u8(IMMEDIATE_ACK),
            Self::ResetStreamAt(frame) => frame.encode(writer),
        }
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Ping | Self::HandshakeDone | Self::ImmediateAck => 1,
            Self::Padding(frame) => frame.encoded_len(),
            Self::Ack(frame) => frame.encoded_len(),
            Self::ResetStream(frame) => frame.encoded_len(),
            Self::StopSending(frame) => frame.encoded_len(),
            Self::Crypto(frame) => frame.encoded_len(),
            Self::NewToken(frame) => frame.encoded_len(),
            Self::Stream(frame) => frame.encoded_len(),
            Self::MaxData(frame) => frame.encoded_len(),
            Self::MaxStreamData(frame) => frame.encoded_len(),
            Self::MaxStreams(frame) => frame.encoded_len(),
            Self::DataBlocked(frame) => frame.encoded_len(),
            Self::StreamDataBlocked(frame) => frame.encoded_len(),
            Self::StreamsBlocked(frame) => frame.encoded_len(),
            Self::NewConnectionId(frame) => frame.encoded_len(),
            Self::RetireConnectionId(frame) => frame.encoded_len(),
            Self::PathChallenge(frame) => frame.encoded_len(),
            Self::PathResponse(frame) => frame.encoded_len(),
            Self::ConnectionClose(frame) => frame.encoded_len(),
            Self::Datagram(frame) => frame.encoded_len(),
            Self::AckFrequency(frame) => frame.encoded_len(),
            Self::ResetStreamAt(frame) => frame.encoded_len(),
        }
    }

    /// Returns the frame type (RFC 9000 §12.4) as [`Self::encode`] writes it.
    pub fn frame_type(&self) -> u64 {
        u64::from(match self {
            Self::Padding(_) => Padding::TYPE,
            Self::Ping => PING,
            Self::Ack(frame) => frame.wire_type(),
            Self::ResetStream(_) => ResetStream::TYPE,
            Self::StopSending(_) => StopSending::TYPE,
            Self::Crypto(_) => Crypto::TYPE,
            Self::NewToken(_) => NewToken::TYPE,
            Self::Stream(frame) => Stream::wire_type(frame.offset, frame.fin, true),
            Self::MaxData(_) => MaxData::TYPE,
            Self::MaxStreamData(_) => MaxStreamData::TYPE,
            Self::MaxStreams(frame) => frame.wire_type(),
            Self::DataBlocked(_) => DataBlocked::TYPE,
            Self::StreamDataBlocked(_) => StreamDataBlocked::TYPE,
            Self::StreamsBlocked(frame) => frame.wire_type(),
            Self::NewConnectionId(_) => NewConnectionId::TYPE,
            Self::RetireConnectionId(_) => RetireConnectionId::TYPE,
            Self::PathChallenge(_) => PathChallenge::TYPE,
            Self::PathResponse(_) => PathResponse::TYPE,
            Self::ConnectionClose(frame) => frame.wire_type(),
            Self::HandshakeDone => HANDSHAKE_DONE,
            Self::Datagram(_) => Datagram::TYPE_WITH_LENGTH,
            Self::AckFrequency(_) => AckFrequency::TYPE,
            Self::ImmediateAck => IMMEDIATE_ACK,
            Self::ResetStreamAt(_) => ResetStreamAt::TYPE,
        })
    }
}

/// Reads a frame type. It must be in its shortest encoding, so that a packet can be decoded in only
/// one way.
fn decode_type(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let before = reader.remaining();
    let frame_type = VarInt::decode(reader, "Frame Type")?;
    if before.saturating_sub(reader.remaining()) != frame_type.encoded_len() {
        return Err(DecodeError::invalid("Frame Type", "is not in its shortest encoding"));
    }
    Ok(frame_type.get())
}

/// Writes a frame that consists of a type and integers, or writes nothing.
fn encode_varints(
    writer: &mut Writer<'_>,
    wire_type: u8,
    fields: &[VarInt],
) -> Result<(), EncodeError> {
    writer.require(varints_len(fields))?;
    writer.u8(wire_type)?;
    fields.iter().try_for_each(|field| field.encode(writer))
}

/// Returns the length in bytes of a frame that consists of a type and integers.
fn varints_len(fields: &[VarInt]) -> usize {
    fields.iter().fold(1, |sum: usize, field| sum.saturating_add(field.encoded_len()))
}

/// Reads a stream count, which cannot exceed 2^60: higher stream IDs cannot be encoded.
fn decode_stream_count(reader: &mut Reader<'_>) -> Result<VarInt, DecodeError> {
    let count = VarInt::decode(reader, "Maximum Streams")?;
    if count.get() > 1 << 60 {
        return Err(DecodeError::invalid("Maximum Streams", "exceeds 2^60"));
    }
    Ok(count)
}

/// Returns whether data of `length` bytes at `offset` ends at or before 2^62 - 1.
fn check_end(offset: VarInt, length: usize) -> bool {
    offset.get().checked_add(length as u64).and_then(VarInt::new).is_some()
}

/// Returns a Length field. Any length that fits in memory fits in 62 bits.
fn length_varint(length: usize) -> VarInt {
    VarInt::saturating(length as u64)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
