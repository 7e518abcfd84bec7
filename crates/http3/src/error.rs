use core::fmt;

use crate::QpackError;

/// An HTTP/3 or QPACK error code (RFC 9114 §8.1, RFC 9204 §8.3, RFC 9297 §5.2). Any 62-bit number can arrive;
/// unknown ones mean the same as [`Code::NO_ERROR`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u64);

macro_rules! codes {
    ($($(#[$documentation:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $($(#[$documentation])* pub const $name: Self = Self($value);)*

            /// The name that the RFC gives the code, if it defines it.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// There is no error to report.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// A protocol violation without a more specific code.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// An internal failure of the HTTP stack.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// A stream that the endpoint will not accept.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A stream that the connection needs was closed.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame that is not permitted on this stream or in the current state.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// A frame with a wrong layout or size.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// Behaviour that might be meant to generate load.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// A stream ID or push ID used wrongly.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// An error in SETTINGS.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// No SETTINGS at the start of the control stream.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// The server rejected the request without processing it.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request was cancelled, or its response is no longer needed.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The request stream ended without a complete request.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// A malformed message.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The TCP connection opened for a CONNECT request failed or was reset.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// The request cannot be served over HTTP/3 and should be retried over HTTP/1.1.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A malformed HTTP datagram or capsule, or one for a request that has no use for it (RFC 9297 §5.2).
    DATAGRAM_ERROR = 0x33, "H3_DATAGRAM_ERROR";
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// An invalid instruction on the QPACK encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// An invalid instruction on the QPACK decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl Code {
    /// The error code with the number `code`.
    pub const fn new(code: u64) -> Self {
        Self(code)
    }

    /// The error code as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A connection error: the peer did something that ends the connection (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionError {
    /// The error code that the connection is closed with.
    pub code: Code,
    /// What happened, in words for a log.
    pub reason: &'static str,
    /// What exactly was wrong, if it concerned QPACK.
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
        // Its text is the reason.
        self.qpack.as_ref()?.source()
    }
}

/// A stream error: the peer did something that ends one request stream (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamError {
    /// The error code that the stream is reset and stopped with.
    pub code: Code,
    /// What happened, in words for a log.
    pub reason: &'static str,
}

impl StreamError {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// The error for a malformed message (RFC 9114 §4.1.2).
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

/// The reason that something could not be sent. No part of it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The connection is closed.
    ConnectionClosed,
    /// The peer or this endpoint is shutting down, so no new requests can be sent (RFC 9114 §5.2).
    GoingAway,
    /// The peer's stream limit does not allow another stream yet.
    StreamsBlocked,
    /// The peer's SETTINGS have not arrived, and it depends on them whether this can be sent. Try again after
    /// [`Event::Settings`](crate::Event::Settings).
    SettingsUnknown,
    /// The server does not accept extended CONNECT (RFC 9220 §3).
    ExtendedConnectUnsupported,
    /// The stream does not exist, or its sending part has ended.
    StreamClosed,
    /// The peer asked to stop sending this message, with this error code.
    Stopped(Code),
    /// Only the other role (client or server) sends this.
    WrongRole,
    /// This cannot be sent at this point of the message.
    OutOfOrder {
        /// What must be sent first or has already been sent.
        reason: &'static str,
    },
    /// The message would be malformed (RFC 9114 §4.1.2).
    Malformed {
        /// What is wrong with it.
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
        /// How many bytes the DATA frame still needs.
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
            Self::WrongRole => f.write_str("only the other role (client or server) sends this"),
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
