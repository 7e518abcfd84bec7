//! Adapts quinn's streams to the interface that HTTP/3 uses.

use std::time::Instant;

use bytes::Bytes;
use clearway_http3::{Code, ReadEnd, Transport, WriteError};
use quinn_proto::{
    Connection, Dir, FinishError, ReadError, RecvStream, SendStream, StreamId,
    WriteError as QuinnWriteError,
};

use super::config::varint;

/// The error for a stream that does not exist: it was closed, or never opened.
const GONE: ReadEnd = ReadEnd::Reset(Code::REQUEST_CANCELLED.get());

pub(super) struct Streams<'a> {
    pub(super) now: Instant,
    pub(super) connection: &'a mut Connection,
}

impl Streams<'_> {
    /// Returns the sending part of the stream, if it has one; quinn would panic otherwise.
    fn sending(&mut self, stream: u64) -> Option<SendStream<'_>> {
        let (id, side) = (StreamId::from(varint(stream)), self.connection.side());
        let sends = id.dir() == Dir::Bi || id.initiator() == side;
        sends.then(|| self.connection.send_stream(id))
    }

    /// Returns the receiving part, if the stream has one.
    fn receiving(&mut self, stream: u64) -> Option<RecvStream<'_>> {
        let (id, side) = (StreamId::from(varint(stream)), self.connection.side());
        let receives = id.dir() == Dir::Bi || id.initiator() != side;
        receives.then(|| self.connection.recv_stream(id))
    }

    fn open(&mut self, direction: Dir) -> Option<u64> {
        self.connection.streams().open(direction).map(u64::from)
    }

    fn accept(&mut self, direction: Dir) -> Option<u64> {
        self.connection.streams().accept(direction).map(u64::from)
    }
}

impl Transport for Streams<'_> {
    fn open_bidirectional(&mut self) -> Option<u64> {
        self.open(Dir::Bi)
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.open(Dir::Uni)
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.accept(Dir::Bi)
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.accept(Dir::Uni)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError> {
        if self.connection.is_closed() {
            return Err(WriteError::Closed);
        }
        let mut stream = self.sending(stream).ok_or(WriteError::Closed)?;
        let (total, mut taken) = (data.len(), 0);
        let mut chunks = [data];
        // Write until quinn has accepted everything or reports that the stream is blocked, because
        // only then does it announce when the stream is writable again.
        while taken < total {
            match stream.write_chunks(&mut chunks) {
                Ok(written) => taken += written.bytes,
                Err(QuinnWriteError::Blocked) => break,
                Err(QuinnWriteError::Stopped(code)) => {
                    return Err(WriteError::Stopped(code.into_inner()));
                }
                Err(QuinnWriteError::ClosedStream) => return Err(WriteError::Closed),
            }
        }
        Ok(taken)
    }

    fn finish(&mut self, stream: u64) -> Result<(), WriteError> {
        if self.connection.is_closed() {
            return Err(WriteError::Closed);
        }
        let mut stream = self.sending(stream).ok_or(WriteError::Closed)?;
        stream.finish().map_err(|error| match error {
            FinishError::Stopped(code) => WriteError::Stopped(code.into_inner()),
            FinishError::ClosedStream => WriteError::Closed,
        })
    }

    fn reset(&mut self, stream: u64, code: u64) {
        if let Some(mut stream) = self.sending(stream) {
            // A stream that has already ended needs no reset.
            let _ = stream.reset(varint(code));
        }
    }

    fn stop_sending(&mut self, stream: u64, code: u64) {
        if let Some(mut stream) = self.receiving(stream) {
            // A stream that has already ended needs no STOP_SENDING.
            let _ = stream.stop(varint(code));
        }
    }

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        let is_closed = self.connection.is_closed();
        let mut stream = self.receiving(stream).ok_or(GONE)?;
        if let Some(code) = stream.received_reset().map_err(|_| GONE)? {
            return Err(ReadEnd::Reset(code.into_inner()));
        }
        if max == 0 {
            return Ok(None);
        }
        let mut chunks = stream.read(true).map_err(|_| GONE)?;
        let read = loop {
            match chunks.next(max) {
                Ok(Some(chunk)) if chunk.bytes.is_empty() => {}
                Ok(Some(chunk)) => break Ok(Some(chunk.bytes)),
                Ok(None) => break Err(ReadEnd::Finished),
                Err(ReadError::Blocked) if is_closed => break Err(GONE),
                Err(ReadError::Blocked) => break Ok(None),
                Err(ReadError::Reset(code)) => break Err(ReadEnd::Reset(code.into_inner())),
            }
        };
        // Nothing to do here, because the world calls `transmit` after the application has acted.
        let _ = chunks.finalize();
        read
    }

    fn close(&mut self, code: u64, reason: &str) {
        self.connection.close(self.now, varint(code), Bytes::copy_from_slice(reason.as_bytes()));
    }
}
