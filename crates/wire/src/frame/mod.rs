//! The frames of RFC 9000 §19 and RFC 9221 §4, one file each.
//!
//! Each frame type has `decode(reader) -> Result<Self, DecodeError>` (called with the reader just
//! after the frame type), `encode(&self, writer) -> Result<(), EncodeError>` (writes type and all) and
//! `encoded_len(&self) -> usize`. A frame borrows its data from the packet.

use crate::{ConnectionId, Direction, PacketNumber, ResetToken, StreamId, VarInt};

/// Any frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// §19.1
    Padding(Padding),
    /// §19.2
    Ping,
    /// §19.3
    Ack(Ack<'a>),
    /// §19.4
    ResetStream(ResetStream),
    /// §19.5
    StopSending(StopSending),
    /// §19.6
    Crypto(Crypto<'a>),
    /// §19.7
    NewToken(NewToken<'a>),
    /// §19.8
    Stream(Stream<'a>),
    /// §19.9
    MaxData(MaxData),
    /// §19.10
    MaxStreamData(MaxStreamData),
    /// §19.11
    MaxStreams(MaxStreams),
    /// §19.12
    DataBlocked(DataBlocked),
    /// §19.13
    StreamDataBlocked(StreamDataBlocked),
    /// §19.14
    StreamsBlocked(StreamsBlocked),
    /// §19.15
    NewConnectionId(NewConnectionId),
    /// §19.16
    RetireConnectionId(RetireConnectionId),
    /// §19.17
    PathChallenge(PathChallenge),
    /// §19.18
    PathResponse(PathResponse),
    /// §19.19
    ConnectionClose(ConnectionClose<'a>),
    /// §19.20
    HandshakeDone,
    /// RFC 9221 §4
    Datagram(Datagram<'a>),
}

/// A run of PADDING frames: `length` zero bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Padding {
    /// How many.
    pub length: usize,
}

/// ECN counts of an ACK frame (§19.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Packets received with ECT(0).
    pub ect0: VarInt,
    /// Packets received with ECT(1).
    pub ect1: VarInt,
    /// Packets received with CE.
    pub ce: VarInt,
}

/// ACK: validated when decoded, so that iterating its ranges cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// The largest acknowledged packet number.
    pub largest: PacketNumber,
    /// ACK Delay as sent: not yet scaled by the exponent.
    pub delay: VarInt,
    /// Packets below `largest` in the first range.
    pub(crate) first_range: VarInt,
    /// How many (gap, length) pairs follow.
    pub(crate) range_count: VarInt,
    /// Those pairs, encoded; validated.
    pub(crate) ranges: &'a [u8],
    /// The counts, if the frame is of type 0x03.
    pub ecn: Option<EcnCounts>,
}

/// RESET_STREAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetStream {
    /// The stream.
    pub stream_id: StreamId,
    /// Why, in the application's words.
    pub error_code: VarInt,
    /// The stream's size in bytes.
    pub final_size: VarInt,
}

/// STOP_SENDING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopSending {
    /// The stream.
    pub stream_id: StreamId,
    /// Why, in the application's words.
    pub error_code: VarInt,
}

/// CRYPTO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crypto<'a> {
    /// Where in the crypto stream the data belongs. `offset + data.len()` fits in 62 bits.
    pub offset: VarInt,
    /// TLS messages.
    pub data: &'a [u8],
}

/// NEW_TOKEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewToken<'a> {
    /// The token; never empty.
    pub token: &'a [u8],
}

/// STREAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream<'a> {
    /// The stream.
    pub stream_id: StreamId,
    /// Where in the stream the data belongs. `offset + data.len()` fits in 62 bits.
    pub offset: VarInt,
    /// The stream ends after this data.
    pub fin: bool,
    /// The data.
    pub data: &'a [u8],
}

/// MAX_DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxData {
    /// Bytes that may be sent on the connection.
    pub maximum: VarInt,
}

/// MAX_STREAM_DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreamData {
    /// The stream.
    pub stream_id: StreamId,
    /// Bytes that may be sent on it.
    pub maximum: VarInt,
}

/// MAX_STREAMS; the count is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreams {
    /// Of which kind.
    pub direction: Direction,
    /// How many may be opened over the connection's life.
    pub maximum: VarInt,
}

/// DATA_BLOCKED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataBlocked {
    /// The limit that blocks.
    pub limit: VarInt,
}

/// STREAM_DATA_BLOCKED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamDataBlocked {
    /// The stream.
    pub stream_id: StreamId,
    /// The limit that blocks.
    pub limit: VarInt,
}

/// STREAMS_BLOCKED; the limit is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamsBlocked {
    /// Of which kind.
    pub direction: Direction,
    /// The limit that blocks.
    pub limit: VarInt,
}

/// NEW_CONNECTION_ID; `retire_prior_to` is at most `sequence`, the ID has 1 to 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewConnectionId {
    /// The ID's number.
    pub sequence: VarInt,
    /// IDs below this number are to be retired.
    pub retire_prior_to: VarInt,
    /// The ID.
    pub id: ConnectionId,
    /// The token of a stateless reset that uses this ID.
    pub reset_token: ResetToken,
}

/// RETIRE_CONNECTION_ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetireConnectionId {
    /// The number of the ID that is no longer used.
    pub sequence: VarInt,
}

/// PATH_CHALLENGE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChallenge {
    /// Unpredictable bytes to be echoed.
    pub data: [u8; 8],
}

/// PATH_RESPONSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathResponse {
    /// The challenge's bytes.
    pub data: [u8; 8],
}

/// CONNECTION_CLOSE: by the transport (0x1c) or by the application (0x1d).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionClose<'a> {
    /// The error code, in the space that `kind` says.
    pub error_code: VarInt,
    /// Who closed.
    pub kind: CloseKind,
    /// Text for people; not necessarily UTF-8.
    pub reason: &'a [u8],
}

/// Who closed the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseKind {
    /// The transport, because of a frame of this type (0 if unknown).
    Transport {
        /// The type of the frame that caused it.
        frame_type: VarInt,
    },
    /// The application.
    Application,
}

/// DATAGRAM (RFC 9221).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// The application's data.
    pub data: &'a [u8],
}
