//! Tests of server and client certificates, key exchange, and Encrypted ClientHello, with real
//! handshakes.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use clearway::rustls::crypto::SupportedKxGroup;
use clearway::rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use clearway::rustls::server::ClientHello;
use clearway::rustls::{AlertDescription, CertificateError, Error as TlsError, RootCertStore};
use clearway::transport::{SessionError, TransportErrorCause};
use clearway::wire::TransportErrorCode;
use clearway::{
    CertificateResolver, Certificates, ClientCertificates, ClientConfig, ConfigError, ConnectError,
    Connection, ConnectionError, Endpoint, EndpointError, Identity, IdentityError, ServerConfig,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use crate::support::{PROTOCOL, loopback, run};

/// A certificate authority that servers and clients trust.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        Self::named("The Authority")
    }

    fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(parameters, key), certificate }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Identity::from_der(vec![certificate.der().clone()], key).unwrap()
    }

    fn server(&self, names: &[&str]) -> Identity {
        self.sign(names, |_| {})
    }

    fn client(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        self.sign(&[], |parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            change(parameters);
        })
    }

    fn client_config(&self) -> ClientConfig {
        ClientConfig::with_roots(self.roots()).application_protocols([PROTOCOL])
    }
}

fn server_with(
    identities: impl IntoIterator<Item = Identity>,
) -> (Arc<Certificates>, ServerConfig) {
    let certificates = Arc::new(Certificates::new(identities).unwrap());
    let config = ServerConfig::with_resolver(certificates.clone());
    (certificates, config.application_protocols([PROTOCOL]))
}

/// Both ends of a connection, or their errors.
struct Ends {
    client: Result<Connection, ConnectError>,
    server: Result<Connection, ConnectError>,
}

async fn connect(server: &Endpoint, config: &ClientConfig, name: &str) -> Ends {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(config, server.local_address(), name).unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (client, server) = tokio::join!(connecting, accepting);
    Ends { client, server }
}

/// Returns the certificate that the server presents to a client that requests `name`.
async fn shown(server: &Endpoint, config: &ClientConfig, name: &str) -> CertificateDer<'static> {
    let ends = connect(server, config, name).await;
    ends.client.unwrap().peer_identity().unwrap()[0].clone()
}

/// Returns the local TLS error.
fn tls_error(error: &ConnectError) -> &TlsError {
    let sources = std::iter::successors(error.source(), |error| (*error).source());
    sources.filter_map(|error| error.downcast_ref()).next().unwrap_or_else(|| panic!("{error:?}"))
}

fn alert(alert: AlertDescription) -> TransportErrorCode {
    TransportErrorCode::crypto(u8::from(alert))
}

#[test]
fn a_client_shows_its_certificate_to_a_server_that_asks() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.client(|_| {});
        for (need, has_one) in [
            (ClientCertificates::Required, true),
            (ClientCertificates::Optional, true),
            (ClientCertificates::Optional, false),
        ] {
            let (_, config) = server_with([authority.server(&["localhost"])]);
            let config = config.client_certificates(need, authority.roots());
            let server = Endpoint::server(loopback(), config).unwrap();
            let config = match has_one {
                true => authority.client_config().client_certificate(certificate.clone()),
                false => authority.client_config(),
            };
            let ends = connect(&server, &config, "localhost").await;
            let shown = ends.server.unwrap();
            assert_eq!(shown.peer_identity(), has_one.then(|| certificate.chain()), "{need:?}");
        }
        // No certificate is sent to a server that does not request one.
        let (_, config) = server_with([authority.server(&["localhost"])]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let config = authority.client_config().client_certificate(certificate);
        let ends = connect(&server, &config, "localhost").await;
        assert_eq!(ends.server.unwrap().peer_identity(), None);
    });
}

/// The server reports a specific error, and the client, which was already connected, gets an alert.
#[test]
fn a_server_refuses_clients_without_a_good_certificate() {
    type IsRight = fn(&TlsError) -> bool;
    run(async {
        let (authority, other) = (Authority::new(), Authority::named("Another Authority"));
        let expired = authority.client(|parameters| {
            parameters.not_before = date_time_ymd(2020, 1, 1);
            parameters.not_after = date_time_ymd(2020, 2, 1);
        });
        let early =
            authority.client(|parameters| parameters.not_before = date_time_ymd(3000, 1, 1));
        let of_a_server = authority.client(|parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let faults: [(&str, Option<Identity>, IsRight, AlertDescription); 5] = [
            (
                "missing",
                None,
                |error| matches!(error, TlsError::NoCertificatesPresented),
                AlertDescription::CertificateRequired,
            ),
            (
                "unknown",
                Some(other.client(|_| {})),
                |error| {
                    matches!(error, TlsError::InvalidCertificate(CertificateError::UnknownIssuer))
                },
                AlertDescription::UnknownCA,
            ),
            (
                "expired",
                Some(expired),
                |error| {
                    matches!(
                        error,
                        TlsError::InvalidCertificate(CertificateError::ExpiredContext { .. })
                    )
                },
                AlertDescription::CertificateExpired,
            ),
            (
                "not valid yet",
                Some(early),
                |error| {
                    matches!(
                        error,
                        TlsError::InvalidCertificate(CertificateError::NotValidYetContext { .. })
                    )
                },
                AlertDescription::CertificateExpired,
            ),
            (
                "a server's",
                Some(of_a_server),
                |error| {
                    matches!(
                        error,
                        TlsError::InvalidCertificate(
                            CertificateError::InvalidPurposeContext { .. }
                        )
                    )
                },
                AlertDescription::UnsupportedCertificate,
            ),
        ];
        let (_, config) = server_with([authority.server(&["localhost"])]);
        let config = config.client_certificates(ClientCertificates::Required, authority.roots());
        let server = Endpoint::server(loopback(), config).unwrap();
        for (what, certificate, is_right, expected) in faults {
            let config = authority.client_config();
            let config = match certificate {
                Some(certificate) => config.client_certificate(certificate),
                None => config,
            };
            let ends = connect(&server, &config, "localhost").await;
            let error = ends.server.unwrap_err();
            assert!(is_right(tls_error(&error)), "{what}: {error:?}");
            let end = match ends.client {
                Ok(connection) => connection.closed().await,
                Err(ConnectError::Lost(error)) => error,
                Err(error) => panic!("{what}: {error:?}"),
            };
            let ConnectionError::ConnectionClosed { error_code, .. } = end else {
                panic!("{what}: {end:?}")
            };
            assert_eq!(error_code, alert(expected), "{what}");
        }
    });
}

#[test]
fn certificates_of_clients_need_an_authority() {
    let authority = Authority::new();
    let (_, config) = server_with([authority.server(&["localhost"])]);
    let config = config.client_certificates(ClientCertificates::Required, RootCertStore::empty());
    let error = Endpoint::server(loopback(), config).unwrap_err();
    let expected = ConfigError::Tls(SessionError::NoClientRoots);
    assert!(
        matches!(&error, EndpointError::Config(error) if error.to_string() == expected.to_string()),
        "{error:?}"
    );
}

#[test]
fn the_server_name_chooses_the_certificate() {
    run(async {
        let authority = Authority::new();
        let default = authority.server(&["example.org"]);
        let exact = authority.server(&["www.example.net", "Upper.Example"]);
        let wildcard = authority.server(&["*.example.net"]);
        let (certificates, config) =
            server_with([default.clone(), wildcard.clone(), exact.clone()]);
        assert_eq!(certificates.identities().len(), 3);
        let server = Endpoint::server(loopback(), config).unwrap();
        let anyone = ClientConfig::dangerous_without_certificate_verification()
            .application_protocols([PROTOCOL]);
        for (name, expected) in [
            ("example.org", &default),
            ("www.example.net", &exact),
            ("WWW.Example.NET", &exact),
            ("upper.example", &exact),
            ("other.example.net", &wildcard),
            ("deep.other.example.net", &default),
            ("example.net", &default),
            ("elsewhere.test", &default),
            // An IP address is not sent as a server name.
            ("127.0.0.1", &default),
        ] {
            assert_eq!(shown(&server, &anyone, name).await, expected.chain()[0], "{name}");
        }
        // The certificates are valid for these names: a client that verifies them connects.
        shown(&server, &authority.client_config(), "other.example.net").await;
    });
}

#[test]
fn unknown_names_may_be_refused() {
    run(async {
        let authority = Authority::new();
        let certificates = Certificates::new([authority.server(&["localhost"])]).unwrap();
        let certificates = Arc::new(certificates.refuse_unknown_names(true));
        let config = ServerConfig::with_resolver(certificates).application_protocols([PROTOCOL]);
        let server = Endpoint::server(loopback(), config).unwrap();
        for name in ["elsewhere.test", "127.0.0.1"] {
            let ends = connect(&server, &authority.client_config(), name).await;
            let error = ends.client.unwrap_err();
            assert!(
                matches!(error, ConnectError::Lost(ConnectionError::ConnectionClosed { error_code, .. })
                if error_code == alert(AlertDescription::AccessDenied))
            );
            assert!(ends.server.is_err());
        }
        assert!(connect(&server, &authority.client_config(), "localhost").await.client.is_ok());
    });
}

#[test]
fn certificates_are_replaced_while_connections_go_on() {
    run(async {
        let authority = Authority::new();
        let (before, after) = (authority.server(&["localhost"]), authority.server(&["localhost"]));
        let (certificates, config) = server_with([before.clone()]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let config = authority.client_config();
        let ends = connect(&server, &config, "localhost").await;
        let (client, of_server) = (ends.client.unwrap(), ends.server.unwrap());
        assert_eq!(client.peer_identity(), Some(before.chain()));
        let (mut send, _) = client.open_bi().await.unwrap();
        send.write_all(b"before").await.unwrap();

        assert!(matches!(certificates.replace([]), Err(IdentityError::NoCertificate)));
        certificates.replace([after.clone()]).unwrap();
        // A separate configuration is used, so that no session is resumed.
        let later = authority.client_config();
        assert_eq!(shown(&server, &later, "localhost").await, after.chain()[0]);

        send.write_all(b" and after").await.unwrap();
        send.finish().unwrap();
        let (_, mut receive) = of_server.accept_bi().await.unwrap();
        assert_eq!(receive.read_to_end(100).await.unwrap(), b"before and after");
        assert_eq!(client.peer_identity(), Some(before.chain()));
    });
}

/// Clients connect continually while certificates are replaced ten times: each handshake presents a
/// certificate that was current during the handshake, and the table keeps no others.
#[test]
fn each_handshake_shows_the_certificate_of_its_time() {
    const EACH: usize = 6;
    run(async {
        let authority = Authority::new();
        let all: Vec<_> = (0..=10).map(|_| authority.server(&["localhost"])).collect();
        let (certificates, config) = server_with([all[0].clone()]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let [current, shown_by] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (server, roots, all) = (server.clone(), authority.roots(), all.clone());
                let (current, count) = (current.clone(), shown_by.clone());
                tokio::spawn(async move {
                    while count.load(SeqCst) < EACH * all.len() {
                        let before = current.load(SeqCst);
                        // A separate configuration is used, so that no session is resumed.
                        let config = ClientConfig::with_roots(roots.clone());
                        let config = config.application_protocols([PROTOCOL]);
                        let leaf = shown(&server, &config, "localhost").await;
                        // A certificate is current slightly before it is counted.
                        let after = (current.load(SeqCst) + 1).min(all.len() - 1);
                        let in_force = &all[before..=after];
                        assert!(
                            in_force.iter().any(|it| it.chain()[0] == leaf),
                            "{before}, {after}"
                        );
                        count.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        for (number, identity) in (1..).zip(&all[1..]) {
            while shown_by.load(SeqCst) < EACH * number {
                tokio::task::yield_now().await;
            }
            certificates.replace([identity.clone()]).unwrap();
            current.store(number, SeqCst);
            let kept = certificates.identities();
            assert!(kept.len() == 1 && kept[0].chain() == identity.chain());
        }
        for client in clients {
            client.await.unwrap();
        }
    });
}

/// A custom resolver gets the contents of the ClientHello.
#[derive(Debug)]
struct ByFirstLetter(Identity, Identity);

impl CertificateResolver for ByFirstLetter {
    fn resolve(&self, client_hello: &ClientHello<'_>) -> Option<Identity> {
        assert!(!client_hello.signature_schemes().is_empty());
        match client_hello.server_name()?.as_bytes().first()? {
            b'a' => Some(self.0.clone()),
            _ => Some(self.1.clone()),
        }
    }
}

#[test]
fn a_resolver_may_be_anything() {
    run(async {
        let authority = Authority::new();
        let (a, other) = (authority.server(&["a.test"]), authority.server(&["b.test"]));
        let resolver = Arc::new(ByFirstLetter(a.clone(), other.clone()));
        let config = ServerConfig::with_resolver(resolver).application_protocols([PROTOCOL]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let config = authority.client_config();
        assert_eq!(shown(&server, &config, "a.test").await, a.chain()[0]);
        assert_eq!(shown(&server, &config, "b.test").await, other.chain()[0]);
        assert!(connect(&server, &config, "127.0.0.1").await.client.is_err());
    });
}

#[test]
fn a_key_of_another_certificate_is_refused_by_name() {
    let authority = Authority::new();
    let certificate = authority.server(&["localhost"]).chain().to_vec();
    let key = PrivateKeyDer::Pkcs8(KeyPair::generate().unwrap().serialize_der().into());
    let config = ServerConfig::new(certificate, key).application_protocols([PROTOCOL]);
    let error = Endpoint::server(loopback(), config).unwrap_err();
    let EndpointError::Config(ConfigError::Identity(error)) = error else { panic!("{error:?}") };
    assert!(matches!(error, IdentityError::KeyMismatch));
}

/// The client's first group is preferred; if the server does not support it, that costs only a
/// round trip.
#[test]
fn the_key_exchange_group_is_post_quantum_where_both_ends_have_it() {
    type Groups<'a> = &'a [&'static dyn SupportedKxGroup];
    run(async {
        let authority = Authority::new();
        let all: Option<Groups<'_>> = None;
        let classic: Groups<'_> = &[X25519, SECP256R1];
        let p256: Groups<'_> = &[SECP256R1];
        let hybrid_first: Groups<'_> = &[X25519MLKEM768, SECP256R1];
        for (client, server, expected) in [
            (all, all, "X25519MLKEM768"),
            (all, Some(classic), "X25519"),
            (Some(classic), all, "X25519"),
            // The server sends HelloRetryRequest, because the client's key shares are for groups
            // that it does not support.
            (all, Some(p256), "secp256r1"),
            (Some(hybrid_first), Some(p256), "secp256r1"),
            (Some(p256), all, "secp256r1"),
        ] {
            let (_, config) = server_with([authority.server(&["localhost"])]);
            let config = match server {
                Some(groups) => config.key_exchange_groups(groups.iter().copied()),
                None => config,
            };
            let server = Endpoint::server(loopback(), config).unwrap();
            let config = match client {
                Some(groups) => {
                    authority.client_config().key_exchange_groups(groups.iter().copied())
                }
                None => authority.client_config(),
            };
            let ends = connect(&server, &config, "localhost").await;
            assert_eq!(ends.client.unwrap().key_exchange_group(), Some(expected));
            assert_eq!(ends.server.unwrap().key_exchange_group(), Some(expected));
        }
    });
}

#[test]
fn without_a_group_in_common_there_is_no_connection() {
    run(async {
        let authority = Authority::new();
        let (_, config) = server_with([authority.server(&["localhost"])]);
        let config = config.key_exchange_groups([X25519MLKEM768]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let config = authority.client_config().key_exchange_groups([X25519]);
        let ends = connect(&server, &config, "localhost").await;
        assert!(matches!(tls_error(&ends.server.unwrap_err()), TlsError::PeerIncompatible(_)));
        assert!(ends.client.is_err());
        let endpoint = Endpoint::client(loopback()).unwrap();
        let none: [&'static dyn SupportedKxGroup; 0] = [];
        let config = authority.client_config().key_exchange_groups(none);
        let error = endpoint.connect_with(&config, server.local_address(), "localhost");
        assert!(matches!(error.unwrap_err(), ConfigError::Tls(SessionError::Tls(_))));
    });
}

/// Returns an ECHConfig (RFC 9849 §4) of version 0xfe0d, for DHKEM(X25519, HKDF-SHA256) with
/// HKDF-SHA256 and AES-128-GCM.
fn ech_config(kem: u16, public_name: &str) -> Vec<u8> {
    let mut contents = vec![7];
    contents.extend(kem.to_be_bytes());
    // A public key: any 32 bytes are a valid X25519 public key.
    contents.extend([0, 32]);
    contents.extend([9; 32]);
    contents.extend([0, 4, 0, 1, 0, 1]);
    contents.push(0);
    contents.push(public_name.len() as u8);
    contents.extend(public_name.as_bytes());
    contents.extend([0, 0]);
    let mut config = vec![0xfe, 0x0d];
    config.extend((contents.len() as u16).to_be_bytes());
    config.extend(contents);
    config
}

fn ech_config_list(configs: &[Vec<u8>]) -> Vec<u8> {
    let configs = configs.concat();
    let mut list = (configs.len() as u16).to_be_bytes().to_vec();
    list.extend(configs);
    list
}

const X25519_KEM: u16 = 0x20;

#[test]
fn grease_changes_nothing_for_a_server_without_ech() {
    run(async {
        let authority = Authority::new();
        let (_, config) = server_with([authority.server(&["localhost"])]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let config = authority.client_config().grease_encrypted_client_hello();
        let ends = connect(&server, &config, "localhost").await;
        assert!(ends.client.is_ok());
        assert_eq!(ends.server.unwrap().server_name(), Some("localhost"));
    });
}

/// The server sees only the public name, and the client does not continue.
#[test]
fn a_server_that_rejects_ech_is_reported_by_name() {
    run(async {
        let authority = Authority::new();
        let certificates = [authority.server(&["secret.test"]), authority.server(&["public.test"])];
        let (_, config) = server_with(certificates);
        let server = Endpoint::server(loopback(), config).unwrap();
        let list = ech_config_list(&[ech_config(X25519_KEM, "public.test")]);
        let config = authority.client_config().encrypted_client_hello(list);
        let ends = connect(&server, &config, "secret.test").await;
        let error = ends.client.unwrap_err();
        let ConnectError::Lost(ConnectionError::TransportError(error)) = error else {
            panic!("{error:?}")
        };
        let cause = TransportErrorCause::EncryptedClientHelloRejected { retry_configs: None };
        assert_eq!(error.cause, cause);
        assert_eq!(error.code, alert(AlertDescription::EncryptedClientHelloRequired));
        assert!(error.to_string().contains("rejected the encrypted ClientHello"), "{error}");
        let end = ends.server.unwrap_err();
        assert!(
            matches!(end, ConnectError::Lost(ConnectionError::ConnectionClosed { error_code, .. })
            if error_code == alert(AlertDescription::EncryptedClientHelloRequired)),
            "{end:?}"
        );
    });
}

#[test]
fn a_rejecting_server_has_to_prove_the_public_name() {
    run(async {
        let authority = Authority::new();
        let (_, config) = server_with([authority.server(&["secret.test"])]);
        let server = Endpoint::server(loopback(), config).unwrap();
        let list = ech_config_list(&[ech_config(X25519_KEM, "public.test")]);
        let config = authority.client_config().encrypted_client_hello(list);
        let error = connect(&server, &config, "secret.test").await.client.unwrap_err();
        let TlsError::InvalidCertificate(error) = tls_error(&error) else { panic!("{error:?}") };
        assert!(matches!(error, CertificateError::NotValidForNameContext { .. }), "{error:?}");
    });
}

#[test]
fn wrong_lists_of_ech_configurations_are_refused_by_name() {
    use clearway::rustls::EncryptedClientHelloError::{InvalidConfigList, NoCompatibleConfig};
    let authority = Authority::new();
    let endpoint = Endpoint::client(loopback()).unwrap();
    let good = ech_config(X25519_KEM, "public.test");
    let list = ech_config_list(std::slice::from_ref(&good));
    let mut of_another_version = good.clone();
    of_another_version[1] = 0x0a;
    let mut without_suites = good.clone();
    without_suites.drain(41..45);
    let mut shorter = list.clone();
    shorter.pop();
    let mut longer = list.clone();
    longer.push(0);
    let of_zeros = vec![0; 100_000];
    for (what, list, expected) in [
        ("empty", Vec::new(), InvalidConfigList),
        ("one byte", vec![0], InvalidConfigList),
        ("without configurations", vec![0, 0], NoCompatibleConfig),
        ("cut off", shorter, InvalidConfigList),
        ("with more behind it", longer, InvalidConfigList),
        ("base64", b"AEX+DQBBBwAgACAJCQkJCQkJ".to_vec(), InvalidConfigList),
        ("of 100,000 zeros", of_zeros, InvalidConfigList),
        ("malformed within", ech_config_list(&[without_suites]), InvalidConfigList),
        ("of another version", ech_config_list(&[of_another_version]), NoCompatibleConfig),
        (
            "of another KEM",
            ech_config_list(&[ech_config(0x7777, "public.test")]),
            NoCompatibleConfig,
        ),
        (
            "with an illegal name",
            ech_config_list(&[ech_config(X25519_KEM, "a name")]),
            InvalidConfigList,
        ),
    ] {
        let config = authority.client_config().encrypted_client_hello(list);
        let error = endpoint.connect_with(&config, loopback(), "localhost").unwrap_err();
        let ConfigError::Tls(SessionError::EncryptedClientHello(error)) = error else {
            panic!("{what}: {error:?}")
        };
        assert_eq!(error, expected, "{what}");
    }
    // The first supported configuration is used.
    let list = ech_config_list(&[ech_config(0x7777, "other.test"), good]);
    let config = authority.client_config().encrypted_client_hello(list);
    assert!(endpoint.connect_with(&config, loopback(), "localhost").is_ok());
}
