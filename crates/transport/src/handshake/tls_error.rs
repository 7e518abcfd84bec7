use clearway_wire::TransportErrorCode;
use rustls::{AlertDescription, CertificateError, Error, HandshakeType, PeerMisbehaved};

use crate::TransportError;

/// What QUIC says where TLS would have sent an alert (RFC 9001 §4.8). `was_handshaking` is whether
/// the message that failed belonged to the handshake.
pub(super) fn transport_error(
    error: &Error,
    alert: Option<AlertDescription>,
    was_handshaking: bool,
) -> TransportError {
    if let Some(reason) = violation(error, was_handshaking) {
        return TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason);
    }
    let alert = alert.unwrap_or(match error {
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        _ => AlertDescription::InternalError,
    });
    TransportError::new(TransportErrorCode::crypto(u8::from(alert)), reason(error))
}

/// A ClientHello in the compatibility mode of TLS 1.3 (RFC 9001 §8.4).
pub(super) const fn client_hello_error() -> TransportError {
    TransportError::new(
        TransportErrorCode::PROTOCOL_VIOLATION,
        "the ClientHello has a legacy_session_id",
    )
}

/// Where RFC 9001 wants PROTOCOL_VIOLATION instead of an alert.
fn violation(error: &Error, was_handshaking: bool) -> Option<&'static str> {
    match error {
        // §4.1.3
        Error::PeerMisbehaved(PeerMisbehaved::KeyEpochWithPendingFragment) => {
            Some("handshake data goes on after a change of keys")
        }
        // §4.6.1
        Error::PeerMisbehaved(PeerMisbehaved::InvalidMaxEarlyDataSize) => {
            Some("a session ticket has another max_early_data_size than 0xffffffff")
        }
        // §4.4
        Error::InappropriateHandshakeMessage {
            got_type: HandshakeType::CertificateRequest,
            ..
        } if !was_handshaking => Some("a certificate was requested after the handshake"),
        _ => None,
    }
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(error) => certificate_reason(error),
        Error::NoApplicationProtocol => "no application protocol in common",
        Error::NoCertificatesPresented => "the peer has no certificate",
        Error::PeerIncompatible(_) => "TLS: the peer supports nothing that suits",
        Error::PeerMisbehaved(PeerMisbehaved::MissingQuicTransportParameters) => {
            "the peer sent no transport parameters"
        }
        Error::PeerMisbehaved(PeerMisbehaved::KeyUpdateReceivedInQuicConnection) => {
            "TLS KeyUpdate has no place in QUIC"
        }
        Error::PeerMisbehaved(_) => "TLS: the peer broke the protocol",
        Error::InvalidMessage(_) => "TLS: a message cannot be decoded",
        Error::InappropriateHandshakeMessage { .. } | Error::InappropriateMessage { .. } => {
            "TLS: a message came out of turn"
        }
        _ => "TLS failed",
    }
}

fn certificate_reason(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the peer's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the peer's certificate is not valid yet"
        }
        CertificateError::Revoked => "the peer's certificate was revoked",
        CertificateError::UnknownIssuer => "the peer's certificate has an unknown issuer",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the peer's certificate is for another name"
        }
        CertificateError::BadSignature => "the peer's certificate has a bad signature",
        _ => "the peer's certificate is not acceptable",
    }
}
