//! Client certificates and key exchange between two real endpoints in virtual time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::support::{Pair, delayed};
use clearway_transport::{
    ClientTrust, ConnectionError, Event, ServerConfig, ServerTrust, TlsClientConfig,
    TlsClientSettings, TlsServerConfig, TlsServerSettings, TransportErrorCause, certified_key,
};
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InvalidMessage, RootCertStore};

/// Returns the certificate of both endpoints; each endpoint trusts it.
fn identity() -> &'static Arc<CertifiedKey> {
    static IDENTITY: OnceLock<Arc<CertifiedKey>> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Arc::new(certified_key(vec![made.cert.der().clone()], key).unwrap())
    })
}

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(identity().cert[0].clone()).unwrap();
    Arc::new(roots)
}

/// Creates two endpoints 50 ms apart, with these TLS settings.
fn pair(
    change_client: impl FnOnce(&mut TlsClientSettings),
    change_server: impl FnOnce(&mut TlsServerSettings),
) -> Pair {
    let mut pair = Pair::new(delayed(50, 1));
    let certificates = Arc::new(SingleCertAndKey::from(identity().clone()));
    let mut server = TlsServerSettings::new(certificates, &[b"test"]);
    change_server(&mut server);
    let sessions = Arc::new(TlsServerConfig::from_settings(server).unwrap());
    pair.server_config = Arc::new(ServerConfig { sessions, ..(*pair.server_config).clone() });
    pair.restart_server();
    let mut client = TlsClientSettings::new(ServerTrust::Roots(roots()), &[b"test"]);
    change_client(&mut client);
    pair.client_config.sessions = Arc::new(TlsClientConfig::from_settings(client).unwrap());
    pair.reconnect(Vec::new());
    pair
}

fn ask_for_certificates(server: &mut TlsServerSettings) {
    server.clients = ClientTrust::Required(roots().into());
}

#[test]
fn the_server_has_the_certificate_of_the_client() {
    let mut pair =
        pair(|client| client.certificate = Some(identity().clone()), ask_for_certificates);
    pair.establish();
    assert_eq!(pair.server().session().peer_certificates(), Some(&identity().cert[..]));
}

/// A ClientHello with X25519MLKEM768 takes two datagrams and one round trip; a group that the
/// server does not support costs two round trips.
#[test]
fn another_key_exchange_group_costs_one_round_trip() {
    type Groups<'a> = &'a [&'static dyn SupportedKxGroup];
    let (hybrid, classic): (Groups<'_>, Groups<'_>) = (&[X25519MLKEM768, X25519], &[X25519]);
    let p256: Groups<'_> = &[SECP256R1];
    let hybrid_and_p256: Groups<'_> = &[X25519MLKEM768, SECP256R1];
    for (client, server, expected, milliseconds) in [
        (hybrid, hybrid, "X25519MLKEM768", 100),
        (hybrid, classic, "X25519", 100),
        (hybrid_and_p256, p256, "secp256r1", 200),
    ] {
        let mut pair = pair(
            |settings| settings.key_exchange_groups = client.to_vec(),
            |settings| settings.key_exchange_groups = server.to_vec(),
        );
        let start = pair.now;
        pair.run_until(Duration::from_secs(5), |pair| {
            pair.client_events.contains(&Event::Connected)
        });
        let took = pair.now.saturating_since(start);
        assert_eq!(took, Duration::from_millis(milliseconds), "{expected}");
        pair.establish();
        assert_eq!(pair.client().session().key_exchange_group(), Some(expected));
        assert_eq!(pair.server().session().key_exchange_group(), Some(expected));
    }
}

/// The length of a Certificate message is checked first: neither endpoint buffers more than 64 KiB
/// of it.
#[test]
fn certificate_chains_of_more_than_64_kilobytes_are_refused_by_name() {
    let own = identity();
    for (length, of_client) in
        [(100_000, true), (1_000_000, true), (100_000, false), (1_000_000, false)]
    {
        let mut chain = own.cert.clone();
        chain.push(CertificateDer::from(vec![0x30; length]));
        let chain = Arc::new(CertifiedKey::new(chain, own.key.clone()));
        let mut pair = match of_client {
            true => pair(|client| client.certificate = Some(chain), ask_for_certificates),
            false => {
                pair(|_| {}, |server| server.certificates = Arc::new(SingleCertAndKey::from(chain)))
            }
        };
        let events = |pair: &Pair| match of_client {
            true => [pair.server_events.clone(), pair.client_events.clone()],
            false => [pair.client_events.clone(), pair.server_events.clone()],
        };
        let refuses = |pair: &mut Pair| !events(pair)[0].is_empty();
        pair.run_until(Duration::from_secs(5), refuses);
        let [refusing, _] = events(&pair);
        let [Event::Closed(ConnectionError::TransportError(error))] = &refusing[..] else {
            panic!("{refusing:?}")
        };
        let TransportErrorCause::Tls(error) = &error.cause else { panic!("{error:?}") };
        let expected = rustls::Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
        assert_eq!(**error, expected);
        let is_closed = |event: &Event| {
            matches!(event, Event::Closed(ConnectionError::ConnectionClosed { .. }))
        };
        pair.run_until(Duration::from_secs(5), |pair| events(pair)[1].iter().any(is_closed));
        assert!(events(&pair)[1].iter().any(is_closed));
    }
}
