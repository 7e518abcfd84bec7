//! Generated data on the streams of a connection to which the caller has access.

use clearway::transport::{Connection, ReadError, ReadOutcome, WriteError};
use clearway::{StreamId, Timestamp};

use crate::pattern::{Sink, Source};

/// Writes as much data as the connection accepts, and ends the stream after the last byte. Returns
/// whether all data has been written.
pub(crate) fn push(
    connection: &mut Connection,
    stream: StreamId,
    source: &mut Source,
) -> Result<bool, WriteError> {
    loop {
        let next = source.peek();
        if next.is_empty() {
            connection.finish(stream)?;
            return Ok(true);
        }
        match connection.write(stream, next)? {
            0 => return Ok(false),
            taken => source.advance(taken),
        }
    }
}

/// Reads and checks the received data. Returns whether the stream has ended.
pub(crate) fn pull(
    now: Timestamp,
    connection: &mut Connection,
    stream: StreamId,
    sink: &mut Sink,
) -> Result<bool, String> {
    loop {
        match connection.read(now, stream, usize::MAX) {
            Ok(ReadOutcome::Data(data)) if sink.accept(&data) => {}
            Ok(ReadOutcome::Data(_)) => return Err(format!("wrong bytes after {}", sink.received)),
            Ok(ReadOutcome::Blocked) => return Ok(false),
            Ok(ReadOutcome::Finished) => return Ok(true),
            Err(ReadError::UnknownStream) => return Err("the stream no longer exists".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}
