use core::fmt;

use clearway::VarInt;

/// A DoQ error code (RFC 9250 §4.3), which is sent when a stream is reset or stopped, or a
/// connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorCode {
    /// DOQ_NO_ERROR: a connection or stream is closed, and there is no error to report.
    NoError,
    /// DOQ_INTERNAL_ERROR: the endpoint cannot continue with the transaction or the connection.
    InternalError,
    /// DOQ_PROTOCOL_ERROR: the peer violated the protocol.
    ProtocolError,
    /// DOQ_REQUEST_CANCELLED: the client no longer needs the response.
    RequestCancelled,
    /// DOQ_EXCESSIVE_LOAD: the peer causes too much load, or a limit was reached.
    ExcessiveLoad,
    /// DOQ_UNSPECIFIED_ERROR: an error without a more specific code.
    UnspecifiedError,
}

impl ErrorCode {
    /// All error codes of RFC 9250, in numerical order.
    pub const ALL: [Self; 6] = [
        Self::NoError,
        Self::InternalError,
        Self::ProtocolError,
        Self::RequestCancelled,
        Self::ExcessiveLoad,
        Self::UnspecifiedError,
    ];

    /// Returns the code as QUIC carries it.
    pub const fn code(self) -> VarInt {
        VarInt::from_u32(match self {
            Self::NoError => 0,
            Self::InternalError => 1,
            Self::ProtocolError => 2,
            Self::RequestCancelled => 3,
            Self::ExcessiveLoad => 4,
            Self::UnspecifiedError => 5,
        })
    }

    /// Returns the name in RFC 9250.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoError => "DOQ_NO_ERROR",
            Self::InternalError => "DOQ_INTERNAL_ERROR",
            Self::ProtocolError => "DOQ_PROTOCOL_ERROR",
            Self::RequestCancelled => "DOQ_REQUEST_CANCELLED",
            Self::ExcessiveLoad => "DOQ_EXCESSIVE_LOAD",
            Self::UnspecifiedError => "DOQ_UNSPECIFIED_ERROR",
        }
    }
}

impl From<VarInt> for ErrorCode {
    /// Converts a received code. An unknown code is equivalent to DOQ_UNSPECIFIED_ERROR (RFC 9250
    /// §4.3.4).
    fn from(code: VarInt) -> Self {
        Self::ALL.into_iter().find(|it| it.code() == code).unwrap_or(Self::UnspecifiedError)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_rfc_and_unknown_ones_are_unspecified() {
        for (number, code) in (0..).zip(ErrorCode::ALL) {
            assert_eq!(code.code(), VarInt::from_u32(number));
            assert_eq!(ErrorCode::from(VarInt::from_u32(number)), code);
            assert_eq!(code.to_string(), code.name());
        }
        // DOQ_ERROR_RESERVED, and the largest possible code.
        for unknown in [VarInt::from_u32(0xd098_ea5e), VarInt::from_u32(6), VarInt::MAX] {
            assert_eq!(ErrorCode::from(unknown), ErrorCode::UnspecifiedError);
        }
    }
}
