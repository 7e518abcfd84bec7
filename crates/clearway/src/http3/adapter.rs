//! The transport's streams as HTTP/3 sees them.

use std::collections::BTreeSet;

use bytes::Bytes;
use clearway_http3::{Code, Connection as Http3, ReadEnd, Transport, WriteError};
use clearway_transport::{
    Connection, ConnectionError, Event, ReadError, ReadOutcome, StreamProgress,
};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

/// One connection for the time of one batch.
pub(super) struct Streams<'a> {
    now: Timestamp,
    connection: &'a mut Connection,
}

impl<'a> Streams<'a> {
    pub(super) fn new(now: Timestamp, connection: &'a mut Connection) -> Self {
        Self { now, connection }
    }

    /// The same, for a shorter time.
    pub(super) fn reborrow(&mut self) -> Streams<'_> {
        Streams { now: self.now, connection: self.connection }
    }

    /// What the peer has done on a stream until now.
    pub(super) fn progress(&mut self, stream: u64) -> Option<StreamProgress> {
        self.connection.stream_progress(stream_id(stream))
    }

    /// The connection itself.
    pub(super) fn connection(&self) -> &Connection {
        self.connection
    }
}

fn stream_id(stream: u64) -> StreamId {
    StreamId::from_varint(VarInt::saturating(stream))
}

impl Transport for Streams<'_> {
    fn open_bidirectional(&mut self) -> Option<u64> {
        self.connection.open(Direction::Bidirectional).map(StreamId::get)
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.connection.open(Direction::Unidirectional).map(StreamId::get)
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.connection.accept(Direction::Bidirectional).map(StreamId::get)
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.connection.accept(Direction::Unidirectional).map(StreamId::get)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError> {
        self.connection.write(stream_id(stream), data).map_err(write_error)
    }

    fn finish(&mut self, stream: u64) -> Result<(), WriteError> {
        self.connection.finish(stream_id(stream)).map_err(write_error)
    }

    fn reset(&mut self, stream: u64, code: u64) {
        // A stream that has ended needs no reset.
        let _ = self.connection.reset(stream_id(stream), VarInt::saturating(code));
    }

    fn stop_sending(&mut self, stream: u64, code: u64) {
        // A stream that has ended needs no stopping.
        let code = VarInt::saturating(code);
        let _ = self.connection.stop_sending(self.now, stream_id(stream), code);
    }

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        if max == 0 {
            // The transport tells of a reset when data is read; it has dropped that data by then.
            return Ok(None);
        }
        match self.connection.read(self.now, stream_id(stream), max) {
            Ok(ReadOutcome::Data(data)) => Ok(Some(data)),
            Ok(ReadOutcome::Blocked) => Ok(None),
            Ok(ReadOutcome::Finished) => Err(ReadEnd::Finished),
            Err(ReadError::Reset(code)) => Err(ReadEnd::Reset(code.get())),
            // Never an end: a message that is cut off must not look complete.
            Err(_) => Err(ReadEnd::Reset(Code::REQUEST_CANCELLED.get())),
        }
    }

    fn close(&mut self, code: u64, reason: &str) {
        self.connection.close(self.now, VarInt::saturating(code), reason.as_bytes());
    }
}

fn write_error(error: clearway_transport::WriteError) -> WriteError {
    match error {
        clearway_transport::WriteError::Stopped(code) => WriteError::Stopped(code.get()),
        _ => WriteError::Closed,
    }
}

/// What the transport's events say about the connection as a whole.
#[derive(Default)]
pub(super) struct Feed {
    /// The handshake is complete.
    pub(super) connected: bool,
    /// The connection is over.
    pub(super) closed: Option<ConnectionError>,
}

/// Streams whose end was handed to the transport and that the peer does not have completely yet.
/// While there are some, closing the connection would lose what was sent.
#[derive(Debug, Default)]
pub(super) struct Undelivered(BTreeSet<u64>);

impl Undelivered {
    pub(super) fn add(&mut self, stream: u64) {
        self.0.insert(stream);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn remove(&mut self, stream: u64) {
        self.0.remove(&stream);
    }
}

/// Passes on what the transport noticed. `delivered` hears of the streams whose sending part is over.
pub(super) fn feed(
    http3: &mut Http3,
    streams: &mut Streams<'_>,
    mut delivered: impl FnMut(u64),
) -> Feed {
    let mut fed = Feed::default();
    while let Some(event) = streams.connection.next_event() {
        match event {
            Event::Connected => {
                fed.connected = true;
                http3.on_streams_available(streams);
            }
            Event::StreamsAvailable(_) => http3.on_streams_available(streams),
            Event::Opened(_) => http3.on_streams_arrived(streams),
            Event::Readable(id) => http3.on_readable(streams, id.get()),
            Event::Writable(id) => http3.on_writable(streams, id.get()),
            Event::Stopped { stream_id, error_code } => {
                delivered(stream_id.get());
                http3.on_stopped(streams, stream_id.get(), error_code.get());
            }
            Event::Finished(id) | Event::ResetAcknowledged(id) => delivered(id.get()),
            Event::Closed(error) => fed.closed = Some(error),
            _ => {}
        }
    }
    fed
}
