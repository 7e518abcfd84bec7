//! Implements [`Transport`] for connections of `clearway-transport`.

use bytes::Bytes;
use clearway_transport::{self as transport, Connection, EarlyDataContext, ReadError, ReadOutcome};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use crate::{Code, Config, DatagramError, ReadEnd, Role, Settings, Transport, WriteError};

/// The settings of an HTTP/3 server, bound to its TLS sessions.
///
/// Early data is accepted only if a client that complies with the settings that it remembers also
/// complies with the current ones (RFC 9114 §7.2.4.2). Pass this to
/// [`TlsServerConfig::early_data_context`](transport::TlsServerConfig::early_data_context).
#[derive(Clone, Debug)]
pub struct EarlySettings(Settings);

impl EarlySettings {
    /// Creates the settings that servers with this configuration advertise.
    pub fn new(config: &Config) -> Self {
        Self(Settings::of(Role::Server, config))
    }
}

impl EarlyDataContext for EarlySettings {
    fn current(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn permits(&self, remembered: &[u8]) -> bool {
        let remembered = Settings::decode(remembered);
        remembered.is_ok_and(|remembered| self.0.check_early_data(&remembered).is_ok())
    }
}

/// The result of reading a stream that no longer exists. Such a stream is not reported as finished,
/// since a truncated message must not look complete.
const GONE: ReadEnd = ReadEnd::Reset(Code::REQUEST_CANCELLED.get());

/// A QUIC connection, borrowed for one HTTP/3 call, and the time of that call.
pub struct QuicStreams<'a> {
    now: Timestamp,
    connection: &'a mut Connection,
}

impl<'a> QuicStreams<'a> {
    /// Borrows `connection` for a call at the time `now`.
    pub fn new(now: Timestamp, connection: &'a mut Connection) -> Self {
        Self { now, connection }
    }

    /// Borrows the streams for a shorter lifetime.
    pub fn reborrow(&mut self) -> QuicStreams<'_> {
        QuicStreams { now: self.now, connection: self.connection }
    }

    /// Returns the underlying connection.
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// Returns the underlying connection.
    pub fn connection_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

/// Returns the stream ID with the number `stream`. A number beyond the range of RFC 9000 §2.1 is
/// converted to the ID of a stream that does not exist.
fn stream_id(stream: u64) -> StreamId {
    StreamId::from_varint(VarInt::saturating(stream))
}

impl Transport for QuicStreams<'_> {
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
        if self.connection.is_closed() {
            return Err(WriteError::Closed);
        }
        self.connection.write(stream_id(stream), data).map_err(write_error)
    }

    fn write_parts(
        &mut self,
        stream: u64,
        data: [Bytes; 2],
        end: bool,
    ) -> Result<usize, WriteError> {
        if self.connection.is_closed() {
            return Err(WriteError::Closed);
        }
        self.connection.write_parts(stream_id(stream), data, end).map_err(write_error)
    }

    fn finish(&mut self, stream: u64) -> Result<(), WriteError> {
        if self.connection.is_closed() {
            return Err(WriteError::Closed);
        }
        self.connection.finish(stream_id(stream)).map_err(write_error)
    }

    fn reset(&mut self, stream: u64, code: u64) {
        // Fails if the stream has ended; it then needs no reset.
        let _ = self.connection.reset(stream_id(stream), VarInt::saturating(code));
    }

    fn stop_sending(&mut self, stream: u64, code: u64) {
        // Fails if the stream has ended; it then need not be stopped.
        let code = VarInt::saturating(code);
        let _ = self.connection.stop_sending(self.now, stream_id(stream), code);
    }

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        let id = stream_id(stream);
        if max == 0 {
            return match self.connection.received_reset(id) {
                Ok(None) => Ok(None),
                Ok(Some(code)) => Err(ReadEnd::Reset(code.get())),
                Err(_) => Err(GONE),
            };
        }
        match self.connection.read(self.now, id, max) {
            Ok(ReadOutcome::Data(data)) => Ok(Some(data)),
            Ok(ReadOutcome::Blocked) if self.connection.is_closed() => Err(GONE),
            Ok(ReadOutcome::Blocked) => Ok(None),
            Ok(ReadOutcome::Finished) => Err(ReadEnd::Finished),
            Err(ReadError::Reset(code)) => Err(ReadEnd::Reset(code.get())),
            // The stream does not exist or has ended.
            Err(_) => Err(GONE),
        }
    }

    fn set_priority(&mut self, stream: u64, priority: i32, is_incremental: bool) {
        // Fails if the stream has ended; it then needs no priority.
        let _ = self.connection.set_priority(stream_id(stream), priority, is_incremental);
    }

    fn unacknowledged(&mut self, stream: u64) -> Option<u64> {
        Some(self.connection.stream_progress(stream_id(stream))?.outstanding)
    }

    fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        let sent = self.connection.send_datagram(data);
        sent.map(|_| ()).map_err(|error| match error {
            transport::DatagramError::TooLarge { maximum } => DatagramError::TooLarge { maximum },
            transport::DatagramError::QueueFull => DatagramError::QueueFull,
            transport::DatagramError::ConnectionClosed => DatagramError::ConnectionClosed,
            _ => DatagramError::Unsupported,
        })
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        self.connection.receive_datagram()
    }

    fn max_datagram(&self) -> Option<usize> {
        self.connection.max_datagram_payload()
    }

    fn remembered_settings(&self) -> Option<&[u8]> {
        self.connection.early_data_context()
    }

    fn keep_settings(&mut self, encoded: &[u8]) {
        self.connection.set_early_data_context(encoded);
    }

    fn close(&mut self, code: u64, reason: &str) {
        self.connection.close(self.now, VarInt::saturating(code), reason.as_bytes());
    }
}

fn write_error(error: transport::WriteError) -> WriteError {
    match error {
        transport::WriteError::Stopped(code) => WriteError::Stopped(code.get()),
        // The stream has ended or does not exist.
        _ => WriteError::Closed,
    }
}
