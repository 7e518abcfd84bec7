//! Reads the message of a DoQ stream.

use bytes::Bytes;
use clearway::{ReadError, RecvStream};

use crate::code::ErrorCode;
use crate::framing::{FramingError, MessageReader};

/// The reason why no message could be read from a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadFailure {
    Framing(FramingError),
    /// The peer reset the stream.
    Reset(ErrorCode),
    /// The connection ended.
    Lost,
}

/// Reads the only message of a stream, of at most `limit` octets, and the end of the stream.
pub(crate) async fn read_message(
    recv: &mut RecvStream,
    limit: usize,
) -> Result<Bytes, ReadFailure> {
    let mut reader = MessageReader::new(limit);
    loop {
        match recv.read_chunk(usize::MAX).await {
            Ok(Some(chunk)) => reader.push(chunk).map_err(ReadFailure::Framing)?,
            Ok(None) => return reader.finish().map_err(ReadFailure::Framing),
            Err(ReadError::Reset(code)) => return Err(ReadFailure::Reset(code.into())),
            Err(_) => return Err(ReadFailure::Lost),
        }
    }
}
