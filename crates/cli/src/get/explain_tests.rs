use bytes::Bytes;
use clearway::VarInt;

use super::*;

fn server() -> Server {
    let address = SocketAddr::from(([192, 0, 2, 1], 443));
    Server { name: "a.example:443".to_owned(), address }
}

/// Returns the error of a connection that the server closed with this code.
fn closed(error_code: TransportErrorCode) -> ConnectionError {
    let reason = Bytes::from_static(b"why");
    ConnectionError::ConnectionClosed { error_code, frame_type: 0, reason }
}

fn alert(alert: AlertDescription) -> ConnectionError {
    closed(TransportErrorCode::crypto(alert.into()))
}

#[test]
fn a_server_is_named_with_its_address_once() {
    assert_eq!(server().to_string(), "a.example:443 (192.0.2.1:443)");
    let numeric = Server { name: "192.0.2.1:443".to_owned(), ..server() };
    assert_eq!(numeric.to_string(), "192.0.2.1:443");
}

/// Each alert about a client's certificate is explained, whether it arrives during the handshake or
/// instead of the first response.
#[test]
fn refusals_of_a_certificate_are_explained() {
    for (description, what, advice) in [
        (
            AlertDescription::CertificateRequired,
            "accepts only clients with a certificate",
            "with --cert FILE --key FILE",
        ),
        (AlertDescription::UnknownCA, "does not trust the issuer", "from an issuer that it trusts"),
        (AlertDescription::CertificateExpired, "it has expired", "renew it"),
        (AlertDescription::CertificateRevoked, "it was revoked", ""),
        (
            AlertDescription::UnsupportedCertificate,
            "it is not a client certificate",
            "extended key usage",
        ),
        (AlertDescription::BadCertificate, "rejected the certificate of --cert", "why"),
        (AlertDescription::CertificateUnknown, "rejected the certificate of --cert", "why"),
        (AlertDescription::DecryptError, "rejected the certificate of --cert", "why"),
    ] {
        let error = alert(description);
        let wrapped = ReadError::ConnectionLost(error.clone());
        let texts = [
            server().not_connected(&error),
            server().unanswered("https://a.example/", &wrapped),
            server().unanswered("https://a.example/", &Error::Connection(error)),
        ];
        for text in texts.map(|failure| failure.to_string()) {
            assert!(text.starts_with("a.example:443 (192.0.2.1:443) "), "{text}");
            assert!(text.contains(what) && text.contains(advice), "{description:?}: {text}");
        }
    }
}

#[test]
fn other_ends_of_a_connection_are_not_about_a_certificate() {
    for error in [
        alert(AlertDescription::InternalError),
        alert(AlertDescription::HandshakeFailure),
        closed(TransportErrorCode::CONNECTION_REFUSED),
        ConnectionError::Reset,
    ] {
        let text = server().not_connected(&error).to_string();
        let expected = format!("cannot connect to a.example:443 (192.0.2.1:443): {error}");
        assert_eq!(text, expected);
        let unanswered =
            server().unanswered("https://a.example/", &ReadError::ConnectionLost(error));
        let text = unanswered.to_string();
        assert!(
            text.starts_with("the download of https://a.example/ was aborted (no response): "),
            "{text}"
        );
    }
    let text = server().not_connected(&alert(AlertDescription::NoApplicationProtocol)).to_string();
    assert!(text.contains("does not support the application protocol"), "{text}");
}

/// The error that ended a connection is found in every error that contains it, and in no other.
#[test]
fn the_end_of_a_connection_is_found_in_what_it_caused() {
    let end = || ConnectionError::Reset;
    let caused: [Box<dyn std::error::Error>; 5] = [
        Box::new(Error::Connection(end())),
        Box::new(ConnectError::Lost(end())),
        Box::new(ReadError::ConnectionLost(end())),
        Box::new(WriteError::ConnectionLost(end())),
        Box::new(end()),
    ];
    for error in caused {
        assert_eq!(ended(&*error), Some(&end()), "{error:?}");
    }
    let others: [Box<dyn std::error::Error>; 3] = [
        Box::new(Error::Closed),
        Box::new(ReadError::Reset(VarInt::from_u32(1))),
        Box::new(WriteError::Stopped(VarInt::from_u32(1))),
    ];
    for error in others {
        assert_eq!(ended(&*error), None, "{error:?}");
    }
}
