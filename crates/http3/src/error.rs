use core::fmt;

/// An HTTP/3 or QPACK error code (RFC 9114 §8.1, RFC 9204 §8.3). Any 62-bit number can arrive;
/// unknown ones mean the same as [`Code::NO_ERROR`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u64);

macro_rules! codes {
    ($($(#[$documentation:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $($(#[$documentation])* pub const $name: Self = Self($value);)*

            /// The RFC's name for it, if it has one.
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
    /// Nothing is wrong.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// A violation without a more specific code.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// A failure of the HTTP stack itself.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// A stream that the endpoint will not accept.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A stream that the connection needs was closed.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame that is not permitted here or now.
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
    /// The server did nothing with the request.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request or its response is not wanted any more.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The request stream ended without a complete request.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// A malformed message.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The TCP connection behind CONNECT failed.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// To be tried again over HTTP/1.1.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// A wrong instruction on the QPACK encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// A wrong instruction on the QPACK decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl Code {
    /// The code with this number.
    pub const fn new(code: u64) -> Self {
        Self(code)
    }

    /// The number.
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

/// What the peer did that ends the connection (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionError {
    /// The code the connection is closed with.
    pub code: Code,
    /// What happened, for people.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

impl core::error::Error for ConnectionError {}

/// What the peer did that ends one request stream (RFC 9114 §8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamError {
    /// The code the stream is abandoned with.
    pub code: Code,
    /// What happened, for people.
    pub reason: &'static str,
}

impl StreamError {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// A malformed message (RFC 9114 §4.1.2).
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

/// Why something could not be sent. Nothing of it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The connection is closed.
    ConnectionClosed,
    /// The peer, or this endpoint, is shutting down: no new requests (RFC 9114 §5.2).
    GoingAway,
    /// The peer does not allow another stream yet.
    StreamsBlocked,
    /// The stream does not exist, or its sending part has ended.
    StreamClosed,
    /// The peer sent STOP_SENDING for this message.
    Stopped(Code),
    /// Only the other role sends this.
    WrongRole,
    /// Not at this point of the message.
    OutOfOrder {
        /// What must come first or has already been sent.
        reason: &'static str,
    },
    /// The message would be malformed (RFC 9114 §4.1.2).
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The field section is larger than the peer accepts (RFC 9114 §4.2.2).
    FieldSectionTooLarge {
        /// Its size in bytes, 32 per field included.
        size: u64,
        /// The peer's limit.
        limit: u64,
    },
    /// A DATA frame was begun for more bytes than were given since: give the rest, or reset.
    FrameIncomplete {
        /// How many bytes are missing.
        missing: u64,
    },
    /// The content does not have the length that the content-length field announces.
    ContentLength {
        /// The announced length.
        announced: u64,
        /// What it would be.
        sent: u64,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionClosed => f.write_str("the connection is closed"),
            Self::GoingAway => f.write_str("the connection is shutting down"),
            Self::StreamsBlocked => f.write_str("the peer does not allow another stream yet"),
            Self::StreamClosed => f.write_str("the stream does not exist or has ended"),
            Self::Stopped(code) => write!(f, "the peer does not want more of it ({code})"),
            Self::WrongRole => f.write_str("only the other role sends this"),
            Self::OutOfOrder { reason } | Self::Malformed { reason } => f.write_str(reason),
            Self::FieldSectionTooLarge { size, limit } => {
                write!(f, "the field section has {size} bytes, the peer accepts {limit}")
            }
            Self::FrameIncomplete { missing } => {
                write!(f, "{missing} bytes are missing in the DATA frame that was begun")
            }
            Self::ContentLength { announced, sent } => {
                write!(f, "content-length is {announced}, the content {sent} bytes")
            }
        }
    }
}

impl core::error::Error for SendError {}
