use core::error::Error as _;
use std::sync::Arc;

use clearway_wire::{DecodeError, TransportErrorCode};
use rustls::CertificateError;

use super::{TransportError, TransportErrorCause};

#[test]
fn a_broken_rule_names_its_section() {
    let code = TransportErrorCode::FLOW_CONTROL_ERROR;
    let error = TransportError::rule(code, "data beyond the stream's limit", "RFC 9000 §4.1");
    let error = error.in_frame(8).in_frame(6);
    assert_eq!(
        error.to_string(),
        "FLOW_CONTROL_ERROR: data beyond the stream's limit (RFC 9000 §4.1) (frame type 0x8)"
    );
    assert_eq!(error.reason(), "data beyond the stream's limit");
    assert!(error.source().is_none());
}

#[test]
fn what_cannot_be_decoded_names_the_field_and_what_is_wrong() {
    let cause = DecodeError::Truncated { field: "Stream Data" };
    let error = TransportError::from(cause);
    assert_eq!(error.to_string(), "FRAME_ENCODING_ERROR: unexpected end of input in Stream Data");
    assert_eq!(error.reason(), "Stream Data");
    assert_eq!(error.cause, TransportErrorCause::Decode(cause));
    let error = error.with_code(TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    assert_eq!(
        error.to_string(),
        "TRANSPORT_PARAMETER_ERROR: unexpected end of input in Stream Data"
    );
    assert!(error.source().is_none(), "its text contains that of the cause");
    let cause = DecodeError::Invalid { field: "Token", problem: "is empty" };
    let error = TransportError::from(cause).in_frame(7);
    assert_eq!(error.to_string(), "FRAME_ENCODING_ERROR: Token is empty (frame type 0x7)");
    assert_eq!(error.reason(), "Token");
    assert_eq!(
        TransportError::from(DecodeError::DuplicateParameter { id: 4 }).code,
        TransportErrorCode::TRANSPORT_PARAMETER_ERROR
    );
}

#[test]
fn tls_keeps_its_own_error() {
    let inner = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let error = TransportError::tls(TransportErrorCode::crypto(48), inner.clone());
    assert_eq!(error.cause, TransportErrorCause::Tls(Arc::new(inner.clone())));
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&inner));
    assert_eq!(error.reason(), "the peer's certificate has an unknown issuer");
}
