use std::sync::{Arc, Mutex};

use clearway_units::Random;
use clearway_wire::{VarInt, frame};
use rustls::RootCertStore;

use super::{TlsClientConfig, TlsServerConfig};
use crate::handshake::tests::{
    self, Wire, client, client_config, hex, identity, server, server_config, vectors,
};
use crate::handshake::{ClientSessions, Handshake, SessionError};
use crate::{Side, SpaceId, TransportError};

fn failure(client: Handshake, server: Handshake) -> (Side, TransportError) {
    let mut wire = Wire::new((client, server));
    wire.client.start().unwrap();
    wire.run(1200, &mut Random::from_number(1)).unwrap_err()
}

#[test]
fn an_unknown_issuer_is_refused() {
    let identity = identity();
    let trusting_nobody = TlsClientConfig::with_roots(RootCertStore::empty(), &[b"h3"]).unwrap();
    let client = client(trusting_nobody, "localhost");
    let (side, error) = failure(client, server(server_config(&identity, &[b"h3"])));
    assert_eq!((side, error.frame_type), (Side::Client, Some(0x06)));
    assert_eq!(error.code.alert(), Some(48), "unknown_ca: {error}");
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let identity = identity();
    let client = client(client_config(&identity, &[b"h3"]), "example.org");
    let (side, error) = failure(client, server(server_config(&identity, &[b"h3"])));
    assert_eq!(side, Side::Client);
    assert_eq!(error.code.alert(), Some(42), "bad_certificate: {error}");
    assert_eq!(error.reason(), "the peer's certificate is for another name");
}

#[test]
fn only_the_dangerous_client_accepts_any_certificate() {
    let identity = identity();
    let config = TlsClientConfig::dangerous_without_certificate_verification(&[b"h3"]).unwrap();
    let mut client = client(config, "example.org");
    client.start().unwrap();
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    assert!(wire.client.is_complete());
}

#[test]
fn no_application_protocol_in_common_is_an_error() {
    let identity = identity();
    let client = client(client_config(&identity, &[b"h3"]), "localhost");
    let (side, error) = failure(client, server(server_config(&identity, &[b"hq-interop"])));
    assert_eq!((side, error.code.0.get()), (Side::Server, 0x178));
}

#[test]
fn a_client_without_application_protocol_is_refused() {
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    let silent = client(TlsClientConfig(Arc::new(config)), "localhost");
    let (side, error) = failure(silent, server(server_config(&identity, &[b"h3"])));
    assert_eq!((side, error.code.0.get()), (Side::Server, 0x178));
}

#[test]
fn configurations_that_do_not_fit_quic_are_refused() {
    let none: &[&[u8]] = &[];
    let refused = TlsClientConfig::with_roots(RootCertStore::empty(), none).unwrap_err();
    assert_eq!(refused, SessionError::NoApplicationProtocol);
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .retain(|suite| suite.suite() == rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let refused = TlsClientConfig::new(Arc::new(config)).unwrap_err();
    assert_eq!(refused, SessionError::NoInitialCipherSuite);
    let identity = identity();
    let config = Arc::new(client_config(&identity, &[b"h3"]));
    let refused = config.connect("not a name", Vec::new()).err();
    assert_eq!(refused, Some(SessionError::InvalidServerName));
    let chain = vec![identity.certificate.clone()];
    let other = tests::identity().key;
    assert!(TlsServerConfig::with_certificate(chain, other, &[b"h3"]).is_err());
}

/// The ClientHello of RFC 9001 §A.2, for a server that supports its application protocol.
fn sample_client_hello(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), TransportError> {
    let mut hello = hex(vectors::CLIENT_CRYPTO).split_off(4);
    change(&mut hello);
    let mut server = server(server_config(&identity(), &[b"alpn"]));
    let crypto = frame::Crypto { offset: VarInt::ZERO, data: &hello };
    server.receive_crypto(SpaceId::Initial, &crypto).map(|_| ())
}

#[test]
fn the_sample_client_hello_is_understood() {
    assert_eq!(sample_client_hello(|_| ()), Ok(()));
}

#[test]
fn missing_transport_parameters_are_a_missing_extension() {
    let error = sample_client_hello(|hello| {
        let extension = hello.windows(4).position(|bytes| bytes == [0, 0x39, 0, 0x32]).unwrap();
        hello[extension] = 0x7a;
    });
    assert_eq!(error.unwrap_err().code.0.get(), 0x16d);
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl rustls::KeyLog for Labels {
    fn log(&self, label: &str, _client_random: &[u8], _secret: &[u8]) {
        self.0.lock().unwrap().push(label.to_owned());
    }
}

#[test]
fn secrets_go_to_the_key_log_if_there_is_one() {
    let identity = identity();
    let labels = Arc::new(Labels::default());
    let config = client_config(&identity, &[b"h3"]).key_log(labels.clone());
    let mut client = client(config, "localhost");
    client.start().unwrap();
    let mut wire = Wire::new((client, server(server_config(&identity, &[b"h3"]))));
    wire.run(1200, &mut Random::from_number(1)).unwrap();
    let labels = labels.0.lock().unwrap();
    assert!(labels.iter().any(|label| label == "CLIENT_TRAFFIC_SECRET_0"), "{labels:?}");
}
