use clearway_wire::TransportErrorCode;
use rustls::{AlertDescription, Error, HandshakeType, PeerIncompatible, PeerMisbehaved};

use crate::{TransportError, TransportErrorCause};

/// Returns the error for which TLS would have sent an alert (RFC 9001 §4.8). `was_handshaking`
/// states whether the failed message belonged to the handshake; `retry_configs` are the server's
/// ECH configurations.
pub(super) fn transport_error(
    error: Error,
    alert: Option<AlertDescription>,
    was_handshaking: bool,
    retry_configs: Option<&[u8]>,
) -> TransportError {
    if let Some(violation) = violation(&error, was_handshaking) {
        return violation;
    }
    if let Error::PeerIncompatible(PeerIncompatible::ServerRejectedEncryptedClientHello(_)) = &error
    {
        return TransportError {
            code: TransportErrorCode::crypto(u8::from(
                AlertDescription::EncryptedClientHelloRequired,
            )),
            frame_type: None,
            cause: TransportErrorCause::EncryptedClientHelloRejected {
                retry_configs: retry_configs.map(<[u8]>::to_vec),
            },
        };
    }
    let alert = alert.unwrap_or(match error {
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        _ => AlertDescription::InternalError,
    });
    TransportError::tls(TransportErrorCode::crypto(u8::from(alert)), error)
}

/// Returns the error for a ClientHello in TLS 1.3 compatibility mode.
pub(super) const fn client_hello_error() -> TransportError {
    TransportError::rule(
        TransportErrorCode::PROTOCOL_VIOLATION,
        "the ClientHello has a legacy_session_id",
        "RFC 9001 §8.4",
    )
}

/// Returns a PROTOCOL_VIOLATION where RFC 9001 requires it in place of an alert.
fn violation(error: &Error, was_handshaking: bool) -> Option<TransportError> {
    let (violation, section) = match error {
        Error::PeerMisbehaved(PeerMisbehaved::KeyEpochWithPendingFragment) => {
            ("a handshake message spans a key change", "RFC 9001 §4.1.3")
        }
        Error::PeerMisbehaved(PeerMisbehaved::InvalidMaxEarlyDataSize) => {
            ("max_early_data_size of a session ticket is not 0xffffffff", "RFC 9001 §4.6.1")
        }
        Error::InappropriateHandshakeMessage {
            got_type: HandshakeType::CertificateRequest,
            ..
        } if !was_handshaking => {
            ("a certificate was requested after the handshake", "RFC 9001 §4.4")
        }
        _ => return None,
    };
    Some(TransportError::rule(TransportErrorCode::PROTOCOL_VIOLATION, violation, section))
}
