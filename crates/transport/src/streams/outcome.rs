//! What the application hears about its streams.

use core::fmt;

use bytes::Bytes;
use clearway_wire::{Direction, StreamId, VarInt};

/// What a read gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The next bytes; never empty.
    Data(Bytes),
    /// Nothing yet; [`StreamEvent::Readable`] says when.
    Blocked,
    /// Everything was read.
    Finished,
}

/// What the peer has done on a stream until now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamProgress {
    /// How many of the bytes written it has acknowledged, from the first on without a gap.
    pub acknowledged: u64,
    /// How many of the bytes written it has not acknowledged.
    pub outstanding: u64,
    /// There is more to be sent for the first time than its limit for this stream permits (RFC 9000 §4.1).
    pub is_blocked: bool,
    /// How many bytes of the stream it has sent, gaps included.
    pub received: u64,
}

/// Why nothing more can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream, with this application error code (RFC 9000 §19.4).
    Reset(VarInt),
    /// There is no such stream, or it is over, or it cannot be read, or the application stopped it.
    UnknownStream,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => {
                write!(f, "the peer reset the stream with error code {:#x}", code.get())
            }
            Self::UnknownStream => f.write_str("no such stream to read"),
        }
    }
}

impl core::error::Error for ReadError {}

/// Why nothing more can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer asked to stop, with this application error code (RFC 9000 §19.5), and the stream was
    /// reset with the same code.
    Stopped(VarInt),
    /// The application has finished or reset the stream.
    Closed,
    /// There is no such stream, or it is over, or it cannot be written.
    UnknownStream,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => {
                write!(f, "the peer stopped the stream with error code {:#x}", code.get())
            }
            Self::Closed => f.write_str("the stream was finished or reset"),
            Self::UnknownStream => f.write_str("no such stream to write"),
        }
    }
}

impl core::error::Error for WriteError {}

/// There is no such stream, or it is over, or it does not carry data that way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownStream;

impl fmt::Display for UnknownStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such stream")
    }
}

impl core::error::Error for UnknownStream {}

/// Something happened to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened at least one stream; accept until there is none.
    Opened(Direction),
    /// There is data, the end or a reset to read. Told once after a read that was blocked, and a reset
    /// also while data is left unread, for streams that this end opened or accepted.
    Readable(StreamId),
    /// There is room after a write that was cut short.
    Writable(StreamId),
    /// The peer asked to stop; the stream was reset with the same code.
    Stopped {
        /// The stream.
        id: StreamId,
        /// Why, in the application's words.
        code: VarInt,
    },
    /// The peer has all data and the end.
    Finished(StreamId),
    /// The peer knows of the reset.
    ResetAcknowledged(StreamId),
    /// A stream can be opened after it could not.
    StreamsAvailable(Direction),
}

/// Why data that waits cannot be sent (law 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowControlBlock {
    /// The peer's limit on all streams together.
    Connection,
    /// The peer's limit on each stream that has data.
    Stream,
}

/// Counts over a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamsStatistics {
    /// Streams that this end opened.
    pub opened: u64,
    /// Streams that the peer opened.
    pub opened_by_peer: u64,
    /// Streams that are open now.
    pub open: u64,
    /// Stream bytes sent, each counted once.
    pub bytes_sent: u64,
    /// Stream bytes sent again.
    pub bytes_retransmitted: u64,
    /// Stream bytes acknowledged in order, each counted once.
    pub bytes_acknowledged: u64,
    /// Stream bytes received, each counted once, with those that a reset left out.
    pub bytes_received: u64,
    /// Stream bytes that the application read.
    pub bytes_read: u64,
    /// Bytes written and kept until they are acknowledged.
    pub bytes_buffered: u64,
}
