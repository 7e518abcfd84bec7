use clearway_units::Random;
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::{RootCertStore, SupportedCipherSuite};

use crate::handshake::tests::{Wire, client, identity, server, server_config};
use crate::handshake::{Handshake, ServerTrust, TlsClientConfig, TlsClientSettings};

/// Completes a handshake with this suite.
fn complete(suite: SupportedCipherSuite) -> Wire {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let mut settings = TlsClientSettings::new(ServerTrust::Roots(roots.into()), &[b"h3"]);
    settings.cipher_suites = vec![suite];
    let client = client(TlsClientConfig::from_settings(settings).unwrap(), "localhost");
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.client.start().unwrap();
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    wire
}

fn export(end: &Handshake, length: usize, label: &[u8], context: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut output = vec![0; length];
    end.session().export_keying_material(&mut output, label, context).ok().map(|()| output)
}

/// The keying material equals that of the client's session, which is rustls's own.
#[test]
fn keying_material_is_that_of_rustls() {
    for suite in [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let wire = complete(suite);
        let (client, server) = (&wire.client, &wire.server);
        let mut seen = Vec::new();
        for length in [1, 32, 48, 255 * 32] {
            for (label, context) in
                [(&b"a label"[..], None), (b"another", Some(&b"context"[..])), (b"", Some(b"c"))]
            {
                let ours = export(server, length, label, context).expect("material");
                assert_eq!(Some(&ours), export(client, length, label, context).as_ref());
                seen.push(ours);
            }
        }
        seen.sort();
        seen.dedup();
        assert!(seen.len() >= 10, "{} of 12 are different", seen.len());
        assert_eq!(export(server, 32, b"a", None), export(server, 32, b"a", Some(b"")));
        assert_eq!(server.session().cipher_suite(), client.session().cipher_suite());
        assert_eq!(server.session().key_exchange_group(), client.session().key_exchange_group());
    }
}

#[test]
fn what_cannot_be_exported_is_refused_as_rustls_does() {
    let wire = complete(cipher_suite::TLS13_AES_128_GCM_SHA256);
    for end in [&wire.client, &wire.server] {
        assert_eq!(export(end, 0, b"label", None), None, "RFC 8446 has no empty output");
        assert_eq!(export(end, 255 * 32 + 1, b"label", None), None, "HKDF gives no more");
    }
    assert_eq!(
        export(&wire.server, 32, &[7; 250], None),
        None,
        "a label is at most 249 bytes long"
    );
}
