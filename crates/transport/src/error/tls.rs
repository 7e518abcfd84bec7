//! The reason phrases of TLS failures.

use rustls::{CertificateError, Error, PeerMisbehaved};

use super::CertificateChainLimit;

pub(super) fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(error) => certificate_reason(error),
        Error::NoApplicationProtocol => "no application protocol in common",
        Error::NoCertificatesPresented => "the peer sent no certificate",
        Error::PeerIncompatible(_) => "TLS: no common parameters with the peer",
        Error::PeerMisbehaved(PeerMisbehaved::MissingQuicTransportParameters) => {
            "the peer sent no transport parameters"
        }
        Error::PeerMisbehaved(PeerMisbehaved::KeyUpdateReceivedInQuicConnection) => {
            "TLS: a KeyUpdate message, which QUIC forbids"
        }
        Error::PeerMisbehaved(_) => "TLS: the peer violated the protocol",
        Error::InvalidMessage(_) => "TLS: a message cannot be decoded",
        Error::InappropriateHandshakeMessage { .. } | Error::InappropriateMessage { .. } => {
            "TLS: an unexpected message"
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
            "the peer's certificate is for a different name"
        }
        CertificateError::BadSignature => "the peer's certificate has a bad signature",
        CertificateError::Other(error) if error.0.is::<CertificateChainLimit>() => {
            "the peer's certificate chain is too long"
        }
        _ => "the peer's certificate is not acceptable",
    }
}
