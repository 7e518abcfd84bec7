//! Stream results, errors and events.

use core::fmt;

use bytes::Bytes;
use clearway_units::packed::Pack;
use clearway_wire::{Direction, StreamId, VarInt};

/// The result of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The next bytes; never empty.
    Data(Bytes),
    /// There is no data yet; [`StreamEvent::Readable`] follows.
    Blocked,
    /// The stream was read to its end.
    Finished,
}

/// A stream's progress in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamProgress {
    /// The number of written bytes acknowledged by the peer, contiguous from the start of the
    /// stream.
    pub acknowledged: u64,
    /// The number of written bytes that the peer has not acknowledged.
    pub outstanding: u64,
    /// Whether waiting data is blocked by the peer's flow control limit for this stream (RFC 9000
    /// §4.1).
    pub is_blocked: bool,
    /// The largest offset sent by the peer, including gaps.
    pub received: u64,
}

/// The number of streams of one direction (bidirectional or unidirectional), and the limits on them
/// (RFC 9000 §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamCounts {
    /// The number of streams that this endpoint has opened, including those that have ended.
    pub opened: u64,
    /// How many more streams the peer permits this endpoint to open.
    pub available: u64,
    /// The number of streams that the peer has opened, including those that have ended.
    pub opened_by_peer: u64,
    /// How many more streams this endpoint permits the peer to open.
    pub available_to_peer: u64,
}

/// The number of bytes that may still be written to a stream under the peer's flow control limits
/// (RFC 9000 §4.1). Both limits apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendCredits {
    /// The credit of the stream.
    pub stream: u64,
    /// The credit shared by all streams of the connection.
    pub connection: u64,
}

/// The reason why nothing can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream, with this application error code (RFC 9000 §19.4).
    Reset(VarInt),
    /// The stream does not exist, has ended, cannot be read, or was stopped by the application.
    UnknownStream,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => {
                write!(f, "the peer reset the stream with error code {:#x}", code.get())
            }
            Self::UnknownStream => f.write_str("the stream does not exist or cannot be read"),
        }
    }
}

impl core::error::Error for ReadError {}

/// The reason why nothing can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer sent STOP_SENDING with this application error code (RFC 9000 §19.5), and the stream was reset with the
    /// same code.
    Stopped(VarInt),
    /// The application has finished or reset the stream.
    Closed,
    /// The stream does not exist, has ended, or cannot be written.
    UnknownStream,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => {
                write!(f, "the peer stopped the stream with error code {:#x}", code.get())
            }
            Self::Closed => f.write_str("the stream was finished or reset"),
            Self::UnknownStream => f.write_str("the stream does not exist or cannot be written"),
        }
    }
}

impl core::error::Error for WriteError {}

/// The reason why a stream cannot be partially reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResetAtError {
    /// The peer does not accept RESET_STREAM_AT frames.
    Unsupported,
    /// The stream does not exist, has ended, or cannot be written.
    UnknownStream,
}

impl fmt::Display for ResetAtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "the peer does not support RESET_STREAM_AT",
            Self::UnknownStream => "the stream does not exist or cannot be written",
        })
    }
}

impl core::error::Error for ResetAtError {}

impl From<UnknownStream> for ResetAtError {
    fn from(UnknownStream: UnknownStream) -> Self {
        Self::UnknownStream
    }
}

/// The stream does not exist, has ended, or carries no data in that direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownStream;

impl fmt::Display for UnknownStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream does not exist")
    }
}

impl core::error::Error for UnknownStream {}

/// An event of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened at least one stream; accept streams until there are none.
    Opened(Direction),
    /// A stream is readable: it has data, its end (FIN) or a reset. Reported once after a read was
    /// blocked, and for a reset even while data is unread. Applies to streams that this endpoint
    /// opened or accepted.
    Readable(StreamId),
    /// Data can be written again, after a write that was not accepted completely.
    Writable(StreamId),
    /// The peer sent STOP_SENDING; the stream was reset with the same code.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The application's error code.
        code: VarInt,
    },
    /// The peer has acknowledged all data and the FIN.
    Finished(StreamId),
    /// The peer has acknowledged the reset.
    ResetAcknowledged(StreamId),
    /// A stream can be opened again, after an attempt failed because of the stream limit.
    StreamsAvailable(Direction),
}

/// The limit that blocks waiting data (law 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowControlBlock {
    /// The peer's connection-level flow control limit (MAX_DATA).
    Connection,
    /// The peer's flow control limits on all streams that have data (MAX_STREAM_DATA).
    Stream,
}

/// Stream counts over a connection's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub struct StreamsStatistics {
    /// Streams that this endpoint opened.
    pub opened: u64,
    /// Streams that the peer opened.
    pub opened_by_peer: u64,
    /// Streams currently open.
    pub open: u64,
    /// Stream bytes sent, each counted once.
    pub bytes_sent: u64,
    /// Stream bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Stream bytes acknowledged in order, each counted once.
    pub bytes_acknowledged: u64,
    /// Stream bytes received, each counted once, including the bytes between the received data and
    /// the final size of a reset.
    pub bytes_received: u64,
    /// Stream bytes read by the application.
    pub bytes_read: u64,
    /// Bytes written and kept until they are acknowledged.
    pub bytes_buffered: u64,
}
