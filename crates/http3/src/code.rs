use core::fmt;

/// An HTTP/3 or QPACK error code (RFC 9114 §8.1, RFC 9204 §8.3, RFC 9297 §5.2). Any 62-bit number
/// can be received; unknown codes are equivalent to [`Code::NO_ERROR`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u64);

macro_rules! codes {
    ($($(#[$documentation:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $($(#[$documentation])* pub const $name: Self = Self($value);)*

            /// Returns the code's name in the RFC, if the code is defined.
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
    /// The peer created a stream that the endpoint will not accept.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A stream that the connection needs was closed.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame was received that is not allowed on this stream or in the current state.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// A frame with an invalid layout or size.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// Behavior that might be generating excessive load.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// Incorrect use of a stream ID or push ID.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// An error in SETTINGS.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// There was no SETTINGS frame at the start of the control stream.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// The server rejected the request without processing it.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request was canceled, or its response is no longer needed.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The request stream ended without a complete request.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// A malformed message.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The TCP connection opened for a CONNECT request failed or was reset.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// The request cannot be served over HTTP/3 and should be retried over HTTP/1.1.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A malformed HTTP datagram or capsule, or one for a request that does not use datagrams (RFC
    /// 9297 §5.2).
    DATAGRAM_ERROR = 0x33, "H3_DATAGRAM_ERROR";
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// An invalid instruction on the QPACK encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// An invalid instruction on the QPACK decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl Code {
    /// Creates the error code with the number `code`.
    pub const fn new(code: u64) -> Self {
        Self(code)
    }

    /// Returns the error code as a number.
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
