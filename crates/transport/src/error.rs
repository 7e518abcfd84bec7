use core::fmt;

use clearway_wire::{DecodeError, TransportErrorCode};

/// A reason to close the connection with a CONNECTION_CLOSE of type 0x1c (RFC 9000 §20.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportError {
    /// The code that the peer is told.
    pub code: TransportErrorCode,
    /// The type of the frame that caused it, if one did.
    pub frame_type: Option<u64>,
    /// What happened, for people.
    pub reason: &'static str,
}

impl TransportError {
    /// An error that no single frame caused.
    pub const fn new(code: TransportErrorCode, reason: &'static str) -> Self {
        Self { code, frame_type: None, reason }
    }

    /// The same error, caused by a frame of `frame_type`. Keeps a type that is already known.
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = self.frame_type.or(Some(frame_type));
        self
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)?;
        match self.frame_type {
            Some(frame_type) => write!(f, " (frame type {frame_type:#x})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for TransportError {}

impl From<DecodeError> for TransportError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::DuplicateParameter { .. } => TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            _ => TransportErrorCode::FRAME_ENCODING_ERROR,
        };
        let reason = match error {
            DecodeError::Truncated { field } | DecodeError::Invalid { field } => field,
            DecodeError::UnknownFrame { .. } => "unknown frame type",
            DecodeError::DuplicateParameter { .. } => "a transport parameter came twice",
        };
        Self::new(code, reason)
    }
}
