use core::fmt;

use crate::VarInt;

/// A transport error code (RFC 9000 §20.1, RFC 9368 §10.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportErrorCode(pub VarInt);

impl TransportErrorCode {
    /// The connection is closed without an error.
    pub const NO_ERROR: Self = Self::from_u32(0x00);
    /// The endpoint cannot continue because of an internal error.
    pub const INTERNAL_ERROR: Self = Self::from_u32(0x01);
    /// The server does not accept the connection.
    pub const CONNECTION_REFUSED: Self = Self::from_u32(0x02);
    /// More data arrived than the flow control limits allow.
    pub const FLOW_CONTROL_ERROR: Self = Self::from_u32(0x03);
    /// A frame had a stream ID that exceeds the stream limit.
    pub const STREAM_LIMIT_ERROR: Self = Self::from_u32(0x04);
    /// A frame arrived that the stream's state does not allow.
    pub const STREAM_STATE_ERROR: Self = Self::from_u32(0x05);
    /// The final size of a stream changed, or data was received beyond it.
    pub const FINAL_SIZE_ERROR: Self = Self::from_u32(0x06);
    /// A frame is malformed.
    pub const FRAME_ENCODING_ERROR: Self = Self::from_u32(0x07);
    /// The transport parameters are malformed, invalid, incomplete or forbidden.
    pub const TRANSPORT_PARAMETER_ERROR: Self = Self::from_u32(0x08);
    /// The peer issued more connection IDs than the limit allows.
    pub const CONNECTION_ID_LIMIT_ERROR: Self = Self::from_u32(0x09);
    /// The protocol was violated in a way that no other code covers.
    pub const PROTOCOL_VIOLATION: Self = Self::from_u32(0x0a);
    /// A client's Initial packet has an invalid token.
    pub const INVALID_TOKEN: Self = Self::from_u32(0x0b);
    /// The application closed the connection.
    pub const APPLICATION_ERROR: Self = Self::from_u32(0x0c);
    /// More data arrived in CRYPTO frames than can be buffered.
    pub const CRYPTO_BUFFER_EXCEEDED: Self = Self::from_u32(0x0d);
    /// The peer made an error in a key update.
    pub const KEY_UPDATE_ERROR: Self = Self::from_u32(0x0e);
    /// The AEAD's confidentiality or integrity limit is reached.
    pub const AEAD_LIMIT_REACHED: Self = Self::from_u32(0x0f);
    /// The network path cannot carry QUIC.
    pub const NO_VIABLE_PATH: Self = Self::from_u32(0x10);
    /// The peer's version information is inconsistent with the versions of its packets, or
    /// indicates a downgrade (RFC 9368 §4).
    pub const VERSION_NEGOTIATION_ERROR: Self = Self::from_u32(0x11);
    /// The first of the 256 codes that contain a TLS alert.
    pub const CRYPTO_ERROR: Self = Self::from_u32(Self::CRYPTO_BASE);

    const CRYPTO_BASE: u32 = 0x0100;

    /// Returns the code for a TLS alert (RFC 9001 §4.8).
    pub const fn crypto(alert: u8) -> Self {
        Self::from_u32(Self::CRYPTO_BASE | alert as u32)
    }

    /// Returns the TLS alert, if the code contains one.
    pub const fn alert(self) -> Option<u8> {
        let code = self.0.get();
        if code >> 8 == 1 { Some((code & 0xff) as u8) } else { None }
    }

    const fn from_u32(code: u32) -> Self {
        Self(VarInt::from_u32(code))
    }

    /// Returns the RFC's name for the code.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NO_ERROR => "NO_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::CONNECTION_REFUSED => "CONNECTION_REFUSED",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::STREAM_LIMIT_ERROR => "STREAM_LIMIT_ERROR",
            Self::STREAM_STATE_ERROR => "STREAM_STATE_ERROR",
            Self::FINAL_SIZE_ERROR => "FINAL_SIZE_ERROR",
            Self::FRAME_ENCODING_ERROR => "FRAME_ENCODING_ERROR",
            Self::TRANSPORT_PARAMETER_ERROR => "TRANSPORT_PARAMETER_ERROR",
            Self::CONNECTION_ID_LIMIT_ERROR => "CONNECTION_ID_LIMIT_ERROR",
            Self::PROTOCOL_VIOLATION => "PROTOCOL_VIOLATION",
            Self::INVALID_TOKEN => "INVALID_TOKEN",
            Self::APPLICATION_ERROR => "APPLICATION_ERROR",
            Self::CRYPTO_BUFFER_EXCEEDED => "CRYPTO_BUFFER_EXCEEDED",
            Self::KEY_UPDATE_ERROR => "KEY_UPDATE_ERROR",
            Self::AEAD_LIMIT_REACHED => "AEAD_LIMIT_REACHED",
            Self::NO_VIABLE_PATH => "NO_VIABLE_PATH",
            Self::VERSION_NEGOTIATION_ERROR => "VERSION_NEGOTIATION_ERROR",
            _ => return None,
        })
    }
}

impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            f.write_str(name)
        } else if let Some(alert) = self.alert() {
            write!(f, "CRYPTO_ERROR (TLS alert {alert})")
        } else {
            write!(f, "{:#x}", self.0.get())
        }
    }
}

impl fmt::Debug for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransportErrorCode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_rfc() {
        let names = [
            "NO_ERROR",
            "INTERNAL_ERROR",
            "CONNECTION_REFUSED",
            "FLOW_CONTROL_ERROR",
            "STREAM_LIMIT_ERROR",
            "STREAM_STATE_ERROR",
            "FINAL_SIZE_ERROR",
            "FRAME_ENCODING_ERROR",
            "TRANSPORT_PARAMETER_ERROR",
            "CONNECTION_ID_LIMIT_ERROR",
            "PROTOCOL_VIOLATION",
            "INVALID_TOKEN",
            "APPLICATION_ERROR",
            "CRYPTO_BUFFER_EXCEEDED",
            "KEY_UPDATE_ERROR",
            "AEAD_LIMIT_REACHED",
            "NO_VIABLE_PATH",
            "VERSION_NEGOTIATION_ERROR",
        ];
        for (code, name) in names.into_iter().enumerate() {
            assert_eq!(TransportErrorCode(VarInt::from_u32(code as u32)).to_string(), name);
        }
        assert_eq!(TransportErrorCode(VarInt::from_u32(0x12)).to_string(), "0x12");
        assert_eq!(TransportErrorCode(VarInt::from_u32(0x200)).to_string(), "0x200");
        assert_eq!(format!("{:?}", TransportErrorCode::NO_ERROR), "TransportErrorCode(NO_ERROR)");
    }

    #[test]
    fn tls_alerts() {
        // handshake_failure is alert 40 (RFC 8446 §6).
        let code = TransportErrorCode::crypto(40);
        assert_eq!((code.0.get(), code.alert()), (0x128, Some(40)));
        assert_eq!(code.to_string(), "CRYPTO_ERROR (TLS alert 40)");
        assert_eq!(TransportErrorCode::crypto(0), TransportErrorCode::CRYPTO_ERROR);
        assert_eq!(TransportErrorCode::crypto(255).0.get(), 0x1ff);
        assert_eq!(TransportErrorCode(VarInt::from_u32(0x200)).alert(), None);
        assert_eq!(TransportErrorCode::NO_VIABLE_PATH.alert(), None);
    }
}
