//! Decoder instructions (RFC 9204 §4.4).

use super::QpackError;
use super::integer::{self, Continuation};

/// A decoder instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecoderInstruction {
    /// Section Acknowledgment (§4.4.1), with the stream ID.
    Acknowledge(u64),
    /// Stream Cancellation (§4.4.2), with the stream ID.
    Cancel(u64),
    /// Insert Count Increment (§4.4.3).
    Increment(u64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Acknowledge,
    Cancel,
    Increment,
}

impl Kind {
    fn with(self, number: u64) -> DecoderInstruction {
        match self {
            Self::Acknowledge => DecoderInstruction::Acknowledge(number),
            Self::Cancel => DecoderInstruction::Cancel(number),
            Self::Increment => DecoderInstruction::Increment(number),
        }
    }
}

impl DecoderInstruction {
    /// Appends the instruction.
    pub(crate) fn write(self, output: &mut Vec<u8>) {
        match self {
            Self::Acknowledge(stream) => integer::encode(output, 0x80, 7, stream),
            Self::Cancel(stream) => integer::encode(output, 0x40, 6, stream),
            Self::Increment(increment) => integer::encode(output, 0, 6, increment),
        }
    }
}

/// Reads the decoder stream in chunks that may end anywhere.
#[derive(Debug, Default)]
pub(crate) struct DecoderInstructions {
    /// An instruction whose integer is incomplete.
    partial: Option<(Kind, Continuation)>,
}

impl DecoderInstructions {
    /// Processes the next byte. Returns the instruction that it completes, if any.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<DecoderInstruction>, QpackError> {
        if let Some((kind, continuation)) = &mut self.partial {
            let complete = continuation.push(byte).map_err(|_| QpackError::DecoderInteger)?;
            let instruction = complete.map(|number| kind.with(number));
            if instruction.is_some() {
                self.partial = None;
            }
            return Ok(instruction);
        }
        let (kind, prefix) = match byte {
            0x80.. => (Kind::Acknowledge, 7),
            0x40.. => (Kind::Cancel, 6),
            _ => (Kind::Increment, 6),
        };
        match Continuation::begin(byte, prefix) {
            Ok(number) => Ok(Some(kind.with(number))),
            Err(continuation) => {
                self.partial = Some((kind, continuation));
                Ok(None)
            }
        }
    }
}
