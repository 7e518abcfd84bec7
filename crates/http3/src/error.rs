use core::fmt;

use crate::{Code, QpackError};

/// A connection error: a violation by the peer that ends the connection (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionError {
    /// The error code with which the connection is closed.
    pub code: Code,
    /// A description of the error for logs.
    pub reason: &'static str,
    /// The exact QPACK error, if this is a QPACK error.
    pub qpack: Option<QpackError>,
}

impl ConnectionError {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason, qpack: None }
    }
}

impl From<QpackError> for ConnectionError {
    fn from(error: QpackError) -> Self {
        Self { code: error.code(), reason: error.reason(), qpack: Some(error) }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

impl core::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The QPACK error's message is already in `reason`.
        self.qpack.as_ref()?.source()
    }
}

/// A stream error: a violation by the peer that ends one request stream (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamError {
    /// The error code with which the stream is reset and stopped.
    pub code: Code,
    /// A description of the error for logs.
    pub reason: &'static str,
}

impl StreamError {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// Returns the error for a malformed message (RFC 9114 §4.1.2).
    pub(crate) const fn malformed(reason: &'static str) -> Self {
        Self::new(Code::MESSAGE_ERROR, reason)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

impl core::error::Error for StreamError {}

/// The reason why something could not be sent. No part of it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The connection is closed.
    ConnectionClosed,
    /// The peer or this endpoint is shutting down, so no new requests can be sent (RFC 9114 §5.2).
    GoingAway,
    /// The peer's stream limit does not allow another stream yet.
    StreamsBlocked,
    /// The peer's SETTINGS, which determine whether this can be sent, have not arrived. Try again
    /// after [`Event::Settings`](crate::Event::Settings).
    SettingsUnknown,
    /// The server does not accept extended CONNECT (RFC 9220 §3).
    ExtendedConnectUnsupported,
    /// The stream does not exist, or its sending part has ended.
    StreamClosed,
    /// The peer asked to stop sending this message, with this error code.
    Stopped(Code),
    /// Only the other role (client or server) may send this kind of message.
    WrongRole,
    /// This part cannot be sent at this point in the message.
    OutOfOrder {
        /// Description of the part that must be sent first or was already sent.
        reason: &'static str,
    },
    /// The message would be malformed (RFC 9114 §4.1.2).
    Malformed {
        /// Description of the problem with the message.
        reason: &'static str,
    },
    /// The field section is larger than the peer accepts (RFC 9114 §4.2.2).
    FieldSectionTooLarge {
        /// The size of the field section in bytes, including 32 per field.
        size: u64,
        /// The peer's limit in bytes.
        limit: u64,
    },
    /// The current DATA frame is not filled yet: send the missing bytes, or reset the stream.
    FrameIncomplete {
        /// Number of bytes that are missing from the DATA frame.
        missing: u64,
    },
    /// The length of the content differs from the content-length field.
    ContentLength {
        /// The length in the content-length field, in bytes.
        announced: u64,
        /// The length that the content would have, in bytes.
        sent: u64,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionClosed => f.write_str("the connection is closed"),
            Self::GoingAway => f.write_str("the connection is shutting down"),
            Self::StreamsBlocked => f.write_str("the peer does not allow another stream yet"),
            Self::SettingsUnknown => f.write_str("the peer's settings have not arrived yet"),
            Self::ExtendedConnectUnsupported => {
                f.write_str("the server does not accept extended CONNECT")
            }
            Self::StreamClosed => f.write_str("the stream does not exist or has ended"),
            Self::Stopped(code) => {
                write!(f, "the peer asked to stop sending this message ({code})")
            }
            Self::WrongRole => {
                f.write_str("only the other role (client or server) can send this kind of message")
            }
            Self::OutOfOrder { reason } | Self::Malformed { reason } => f.write_str(reason),
            Self::FieldSectionTooLarge { size, limit } => {
                write!(f, "the field section has {size} bytes but the peer accepts only {limit}")
            }
            Self::FrameIncomplete { missing } => {
                write!(f, "{missing} bytes of the current DATA frame have not been sent")
            }
            Self::ContentLength { announced, sent } => {
                write!(f, "content-length is {announced} but the content has {sent} bytes")
            }
        }
    }
}

impl core::error::Error for SendError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteError;

    #[test]
    fn errors_name_their_codes() {
        assert_eq!(format!("{} {:?}", Code::NO_ERROR, Code::NO_ERROR), "H3_NO_ERROR H3_NO_ERROR");
        assert_eq!(format!("{} {:?}", Code::new(0x77), Code::new(0x77)), "0x77 0x77");
        let error = ConnectionError::new(Code::ID_ERROR, "why");
        assert_eq!(error.to_string(), "H3_ID_ERROR: why");
        assert!(WriteError::Stopped(0x10c).to_string().ends_with("error code 0x10c"));
        assert!(WriteError::Closed.to_string().contains("nothing more"));
    }
}
