use core::fmt;

use bytes::Bytes;

use crate::DatagramError;

/// The interface between HTTP/3 and a QUIC connection. Streams are identified by their QUIC stream
/// IDs (RFC 9000 §2.1).
///
/// The `conformance` module (with the cargo feature of that name) tests every requirement stated
/// here.
///
/// The end of the connection closes every stream as if it had been reset (RFC 9000 §10.2): no more
/// streams are opened, nothing more is written, and data that arrived earlier can still be read.
pub trait Transport {
    /// Opens a bidirectional stream; `None` while the peer's limit does not allow one, and always
    /// when the connection is gone.
    fn open_bidirectional(&mut self) -> Option<u64>;

    /// Opens a unidirectional stream; returns `None` in the same cases as
    /// [`open_bidirectional`](Self::open_bidirectional).
    fn open_unidirectional(&mut self) -> Option<u64>;

    /// Accepts the next bidirectional stream that the peer opened, in the order of stream IDs;
    /// `None` if there is none.
    fn accept_bidirectional(&mut self) -> Option<u64>;

    /// Accepts the next unidirectional stream that the peer opened, in the order of stream IDs;
    /// `None` if there is none.
    fn accept_unidirectional(&mut self) -> Option<u64>;

    /// Writes as much from the start of `data` as the stream accepts. Returns the number of bytes,
    /// which is zero if the stream is blocked. If not all of `data` was accepted, the owner of the
    /// connection calls [`on_writable`](crate::Connection::on_writable) when the stream accepts
    /// data again.
    fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError>;

    /// Writes two parts, one after the other, like [`write`](Self::write); if the stream accepts
    /// all of the data and `end` is set, also ends the stream like [`finish`](Self::finish). A
    /// transport may override this method to do so in one step.
    fn write_parts(
        &mut self,
        stream: u64,
        data: [Bytes; 2],
        end: bool,
    ) -> Result<usize, WriteError> {
        let mut total = 0usize;
        for part in data.into_iter().filter(|part| !part.is_empty()) {
            let length = part.len();
            let taken = self.write(stream, part)?;
            total = total.saturating_add(taken);
            if taken < length {
                return Ok(total);
            }
        }
        if end {
            self.finish(stream)?;
        }
        Ok(total)
    }

    /// Ends the sending part of `stream` after the data written so far.
    fn finish(&mut self, stream: u64) -> Result<(), WriteError>;

    /// Resets the sending part of `stream` (RFC 9000 §19.4). Has no effect if that part has already
    /// ended, because the peer has acknowledged everything or because it was reset earlier.
    fn reset(&mut self, stream: u64, code: u64);

    /// Asks the peer to stop sending on `stream` and discards received data (RFC 9000 §19.5). Has
    /// no effect if the receiving part has ended.
    fn stop_sending(&mut self, stream: u64, code: u64);

    /// Returns the next bytes of `stream`, in order, at most `max` of them; `None` if none are
    /// available now.
    ///
    /// A reset is reported as soon as it is received, even if `max` is zero: earlier unread data is
    /// dropped, and the owner of the connection calls
    /// [`on_readable`](crate::Connection::on_readable) even if the last read left data. The end is
    /// reported when all data before it has been read; HTTP/3 does not read again after that. Empty
    /// chunks are never returned.
    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd>;

    /// Sets the priority of `stream`. Its data is sent before the data of streams with a lower
    /// `priority`. Streams with the same priority are sent round-robin if `is_incremental` is set,
    /// otherwise one after another, by stream ID. By default, streams have priority 0 and are
    /// incremental. A transport without priorities ignores this.
    fn set_priority(&mut self, stream: u64, priority: i32, is_incremental: bool) {
        let _ = (stream, priority, is_incremental);
    }

    /// Returns the number of bytes written to `stream` that the peer has not acknowledged; `None`
    /// if unknown.
    fn unacknowledged(&mut self, stream: u64) -> Option<u64> {
        let _ = stream;
        None
    }

    /// Sends a QUIC DATAGRAM frame (RFC 9221). A transport returns only the errors `TooLarge`,
    /// `QueueFull`, `Unsupported` and `ConnectionClosed`; a transport without datagrams always
    /// returns `Unsupported`.
    fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        let _ = data;
        Err(DatagramError::Unsupported)
    }

    /// Removes and returns the payload of the oldest received DATAGRAM frame. A transport keeps a
    /// limited number of frames; beyond that, it drops the oldest.
    fn receive_datagram(&mut self) -> Option<Bytes> {
        None
    }

    /// Returns the largest payload of a DATAGRAM frame that can be sent now, in bytes; `None` if
    /// none can be sent.
    fn max_datagram(&self) -> Option<usize> {
        None
    }

    /// Returns the server's settings that a client [kept](Self::keep_settings) on the connection
    /// that this one resumes, while early data is offered or accepted; otherwise `None`. A
    /// transport without early data always returns `None`.
    fn remembered_settings(&self) -> Option<&[u8]> {
        None
    }

    /// Keeps the server's encoded settings with the sessions that a client receives on this
    /// connection.
    fn keep_settings(&mut self, encoded: &[u8]) {
        let _ = encoded;
    }

    /// Closes the connection with an application error code and a human-readable reason.
    fn close(&mut self, code: u64, reason: &str);
}

/// The reason why nothing more can be written to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer sent STOP_SENDING with this application error code.
    Stopped(u64),
    /// The sending part has ended, or the stream or the connection no longer exists.
    Closed,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => {
                write!(f, "the peer stopped the stream with error code {code:#x}")
            }
            Self::Closed => f.write_str("nothing more can be written to the stream"),
        }
    }
}

impl core::error::Error for WriteError {}

/// The reason why nothing more can be read from a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// The stream has ended, and everything that the peer sent has been read.
    Finished,
    /// The peer reset the stream, with this application error code.
    ///
    /// Also returned, with H3_REQUEST_CANCELLED, for a stream that does not exist or cannot be
    /// read, and for every stream of a connection that is gone, once data that arrived earlier has
    /// been read. Such a stream is never reported as finished: a truncated message must not look
    /// complete.
    Reset(u64),
}
