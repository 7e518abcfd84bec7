mod chain;
mod tls;

use core::fmt;
use std::sync::Arc;

use clearway_wire::{DecodeError, TransportErrorCode};

pub use chain::{
    CertificateChainLimit, MAX_CERTIFICATES, MAX_CERTIFICATES_OF_ONE_NAME, MAX_CHAIN_SIGNATURES,
};

/// A reason to close the connection with a CONNECTION_CLOSE of type 0x1c (RFC 9000 §20.1).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct TransportError {
    /// The error code sent to the peer.
    pub code: TransportErrorCode,
    /// The type of the frame that caused the error, if a frame did.
    pub frame_type: Option<u64>,
    /// The cause of the error.
    pub cause: TransportErrorCause,
}

const ECH_REJECTED: &str = "the server rejected the encrypted ClientHello";

/// The cause of a [`TransportError`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TransportErrorCause {
    /// The peer violated a rule or exceeded a limit of this endpoint, or a rule forbids this
    /// endpoint from continuing.
    Rule {
        /// The violation, as a phrase for error messages.
        what: &'static str,
        /// The section with the rule, such as "RFC 9000 §4.1".
        section: &'static str,
    },
    /// A frame or transport parameter from the peer could not be decoded.
    Decode(DecodeError),
    /// TLS failed. If a certificate is rejected, this is
    /// [`InvalidCertificate`](rustls::Error::InvalidCertificate) with the reason.
    Tls(Arc<rustls::Error>),
    /// The server completed the handshake without decrypting the encrypted ClientHello, because it
    /// does not have the key of the configuration that this client used (RFC 9849 §6.1.6). Its
    /// certificate for the configuration's public name was verified.
    EncryptedClientHelloRejected {
        /// The server's ECHConfigList, which may be used to retry once. If `None`, the server
        /// currently does not support ECH, and the client may retry without it.
        retry_configs: Option<Vec<u8>>,
    },
    /// A failure or limit of this endpoint, not caused by the peer.
    Internal(&'static str),
}

impl TransportError {
    /// Creates the error for `what`, which is forbidden by the rule in `section`, such as "RFC 9000
    /// §4.1".
    pub const fn rule(code: TransportErrorCode, what: &'static str, section: &'static str) -> Self {
        Self { code, frame_type: None, cause: TransportErrorCause::Rule { what, section } }
    }

    /// Creates an INTERNAL_ERROR: this endpoint cannot continue, for this reason.
    pub const fn internal(reason: &'static str) -> Self {
        let code = TransportErrorCode::INTERNAL_ERROR;
        Self { code, frame_type: None, cause: TransportErrorCause::Internal(reason) }
    }

    /// Creates the error of a TLS failure; `code` holds the alert (RFC 9001 §4.8).
    pub fn tls(code: TransportErrorCode, error: rustls::Error) -> Self {
        Self { code, frame_type: None, cause: TransportErrorCause::Tls(Arc::new(error)) }
    }

    /// Sets the frame type that caused the error, unless it is already set.
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = self.frame_type.or(Some(frame_type));
        self
    }

    /// Returns the same error with another code.
    pub(crate) fn with_code(self, code: TransportErrorCode) -> Self {
        Self { code, ..self }
    }

    /// Returns a brief description without details, for the reason phrase of a CONNECTION_CLOSE
    /// (RFC 9000 §19.19).
    pub fn reason(&self) -> &'static str {
        match &self.cause {
            TransportErrorCause::Rule { what, .. } => what,
            TransportErrorCause::Decode(
                DecodeError::Truncated { field } | DecodeError::Invalid { field, .. },
            ) => field,
            TransportErrorCause::Decode(DecodeError::UnknownFrame { .. }) => "unknown frame type",
            TransportErrorCause::Decode(DecodeError::DuplicateParameter { .. }) => {
                "a transport parameter occurs twice"
            }
            TransportErrorCause::Decode(_) => "a frame or a transport parameter cannot be decoded",
            TransportErrorCause::Tls(error) => tls::reason(error),
            TransportErrorCause::EncryptedClientHelloRejected { .. } => ECH_REJECTED,
            TransportErrorCause::Internal(reason) => reason,
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.cause)?;
        match self.frame_type {
            Some(frame_type) => write!(f, " (frame type {frame_type:#x})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TransportErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { what, section } => write!(f, "{what} ({section})"),
            Self::Decode(error) => error.fmt(f),
            Self::Tls(error) => f.write_str(tls::reason(error)),
            Self::EncryptedClientHelloRejected { .. } => f.write_str(ECH_REJECTED),
            Self::Internal(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.cause {
            TransportErrorCause::Decode(error) => error.source(),
            TransportErrorCause::Tls(error) => Some(&**error),
            TransportErrorCause::Rule { .. }
            | TransportErrorCause::EncryptedClientHelloRejected { .. }
            | TransportErrorCause::Internal(_) => None,
        }
    }
}

impl From<DecodeError> for TransportError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::DuplicateParameter { .. } => TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            _ => TransportErrorCode::FRAME_ENCODING_ERROR,
        };
        Self { code, frame_type: None, cause: TransportErrorCause::Decode(error) }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
