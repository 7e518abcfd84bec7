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
    ];
    for (code, name) in names.into_iter().enumerate() {
        assert_eq!(TransportErrorCode(VarInt::from_u32(code as u32)).to_string(), name);
    }
    assert_eq!(TransportErrorCode(VarInt::from_u32(0x11)).to_string(), "0x11");
    assert_eq!(TransportErrorCode(VarInt::from_u32(0x200)).to_string(), "0x200");
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
