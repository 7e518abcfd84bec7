//! The peer's QPACK streams (RFC 9204 §4.2), limited to what is allowed without a dynamic table.

use super::integer::Continuation;
use crate::{Code, ConnectionError};

/// Checks a part of the encoder stream. With a maximum capacity of zero only Set Dynamic Table
/// Capacity to zero is possible (§4.3.1), and that instruction is one byte: anything else would
/// exceed the capacity or refer to an entry that does not exist.
pub(crate) fn check_encoder_instructions(bytes: &[u8]) -> Result<(), ConnectionError> {
    if bytes.iter().all(|&byte| byte == 0b0010_0000) {
        return Ok(());
    }
    Err(ConnectionError::new(
        Code::QPACK_ENCODER_STREAM_ERROR,
        "an encoder instruction needs a dynamic table, which was not offered",
    ))
}

/// Reads the decoder stream (§4.4), in chunks that may end anywhere.
#[derive(Debug, Default)]
pub(crate) struct DecoderInstructions {
    /// A Stream Cancellation whose stream ID is not complete.
    cancellation: Option<Continuation>,
}

impl DecoderInstructions {
    /// Checks the next part of the stream. Only Stream Cancellation is valid: our encoder inserts
    /// nothing, so there is nothing to acknowledge.
    pub(crate) fn check(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let error = |reason| ConnectionError::new(Code::QPACK_DECODER_STREAM_ERROR, reason);
        for &byte in bytes {
            if let Some(continuation) = &mut self.cancellation {
                let complete = continuation
                    .push(byte)
                    .map_err(|_| error("a stream ID has more than 62 bits"))?;
                if complete.is_some() {
                    self.cancellation = None;
                }
            } else if byte & 0b1100_0000 == 0b0100_0000 {
                self.cancellation = Continuation::begin(byte, 6).err();
            } else if byte & 0b1000_0000 != 0 {
                return Err(error("a section was acknowledged that used no dynamic table"));
            } else {
                return Err(error("an insertion was acknowledged that was never made"));
            }
        }
        Ok(())
    }
}
