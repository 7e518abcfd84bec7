use core::fmt;

/// The reason why bytes cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended in the middle of `field`.
    Truncated {
        /// The field that was being read, as named in the RFC.
        field: &'static str,
    },
    /// `field` holds a value that the RFC forbids.
    Invalid {
        /// The field that was being read, as named in the RFC.
        field: &'static str,
        /// Description of the problem with the field, such as "is empty".
        problem: &'static str,
    },
    /// A frame type that no supported specification defines (RFC 9000 §12.4).
    UnknownFrame {
        /// The frame type.
        frame_type: u64,
    },
    /// The same transport parameter appears twice (RFC 9000 §7.4).
    DuplicateParameter {
        /// The parameter's identifier.
        id: u64,
    },
}

impl DecodeError {
    /// Returns the error for a `field` that is invalid because of `problem`.
    pub(crate) const fn invalid(field: &'static str, problem: &'static str) -> Self {
        Self::Invalid { field, problem }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { field } => write!(f, "unexpected end of input in {field}"),
            Self::Invalid { field, problem } => write!(f, "{field} {problem}"),
            Self::UnknownFrame { frame_type } => write!(f, "unknown frame type {frame_type:#x}"),
            Self::DuplicateParameter { id } => {
                write!(f, "transport parameter {id:#x} appears twice")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// The output buffer is too small for the value, or the value has no encoding. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EncodeError;

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value cannot be encoded in the available space")
    }
}

impl core::error::Error for EncodeError {}
