//! Tests every error for which a client rejects a server, in a real handshake: the error variant
//! that a program receives, and the line that the user of `clearway get` reads.

use std::error::Error as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use clearway::http3::{self, Client};
use clearway::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use clearway::rustls::{self, AlertDescription, CertificateError, RootCertStore};
use clearway::transport::TransportErrorCause;
use clearway::wire::TransportErrorCode;
use clearway::{ClientConfig, ConnectionError, Endpoint, ServerConfig};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};
use tokio::net::UdpSocket;

use crate::support::{Scratch, fail};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The server name that the clients use.
const NAME: &str = "localhost";

/// A faulty server, and the expected error in a client.
struct Fault {
    what: &'static str,
    server: Server,
    is_right: fn(&ConnectionError) -> bool,
    /// Texts that the error line must contain, besides the server.
    line: &'static [&'static str],
}

enum Server {
    /// Presents the first certificate, while the client trusts chains that end at the second one.
    Showing(Shown, Certificate),
    /// Has a trusted certificate, but supports only this application protocol.
    Speaking(&'static str),
    /// Supports only a QUIC version that no client supports.
    OfAnotherVersion,
}

struct Shown(Certificate, KeyPair);

fn parameters(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// Returns a trusted self-signed certificate.
fn self_signed(parameters: &CertificateParams) -> Server {
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    Server::Showing(Shown(certificate.clone(), key), certificate)
}

fn changed(change: impl FnOnce(&mut CertificateParams)) -> Server {
    let mut parameters = parameters(NAME);
    change(&mut parameters);
    self_signed(&parameters)
}

/// Creates a certificate authority with its own key; all such authorities have the same name.
fn authority() -> (Certificate, Issuer<'static, KeyPair>) {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "The Authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    (certificate, Issuer::new(parameters, key))
}

/// The client trusts an authority with the issuer's name, but with another key.
fn signed_by_a_namesake() -> Server {
    let ((_, issuer), (trusted, _)) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let certificate = parameters(NAME).signed_by(&key, &issuer).unwrap();
    Server::Showing(Shown(certificate, key), trusted)
}

fn not_trusted() -> Server {
    let (Server::Showing(shown, _), (trusted, _)) = (self_signed(&parameters(NAME)), authority())
    else {
        unreachable!()
    };
    Server::Showing(shown, trusted)
}

/// Returns the certificate error for which the local TLS stack aborted the handshake.
fn certificate_error(error: &ConnectionError) -> Option<&CertificateError> {
    let ConnectionError::TransportError(error) = error else { return None };
    match &error.cause {
        TransportErrorCause::Tls(error) => match &**error {
            rustls::Error::InvalidCertificate(error) => Some(error),
            _ => None,
        },
        _ => None,
    }
}

fn faults() -> Vec<Fault> {
    vec![
        Fault {
            what: "expired",
            server: changed(|certificate| {
                certificate.not_before = date_time_ymd(2020, 1, 1);
                certificate.not_after = date_time_ymd(2020, 2, 1);
            }),
            is_right: |error| {
                matches!(certificate_error(error), Some(CertificateError::ExpiredContext { .. }))
            },
            line: &["cannot trust", "has expired", "the clock of this machine"],
        },
        Fault {
            what: "not yet valid",
            server: changed(|certificate| certificate.not_before = date_time_ymd(3000, 1, 1)),
            is_right: |error| {
                let error = certificate_error(error);
                matches!(error, Some(CertificateError::NotValidYetContext { .. }))
            },
            line: &["cannot trust", "is not valid yet", "the clock of this machine"],
        },
        Fault {
            what: "wrong name",
            server: self_signed(&parameters("elsewhere.test")),
            is_right: |error| {
                let error = certificate_error(error);
                matches!(error, Some(CertificateError::NotValidForNameContext { .. }))
            },
            line: &["cannot trust", "is for a different name", "--connect"],
        },
        Fault {
            what: "unknown issuer",
            server: not_trusted(),
            is_right: |error| {
                matches!(certificate_error(error), Some(CertificateError::UnknownIssuer))
            },
            line: &["cannot trust", "has an unknown issuer", "--ca FILE"],
        },
        Fault {
            what: "bad signature",
            server: signed_by_a_namesake(),
            is_right: |error| {
                matches!(certificate_error(error), Some(CertificateError::BadSignature))
            },
            line: &["cannot trust", "has a bad signature", "--ca FILE"],
        },
        Fault {
            what: "an authority's certificate",
            server: changed(|certificate| {
                certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }),
            is_right: |error| match certificate_error(error) {
                Some(CertificateError::Other(other)) => matches!(
                    other.0.downcast_ref::<webpki::Error>(),
                    Some(webpki::Error::CaUsedAsEndEntity)
                ),
                _ => false,
            },
            line: &["cannot trust", "not acceptable", "basicConstraints=critical,CA:FALSE"],
        },
        Fault {
            what: "a client's certificate",
            server: changed(|certificate| {
                certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            }),
            is_right: |error| {
                let error = certificate_error(error);
                matches!(error, Some(CertificateError::InvalidPurposeContext { .. }))
            },
            line: &["cannot trust", "not acceptable", "server authentication"],
        },
        Fault {
            what: "no common protocol",
            server: Server::Speaking("another"),
            is_right: |error| {
                let alert = u8::from(AlertDescription::NoApplicationProtocol);
                matches!(error, ConnectionError::ConnectionClosed { error_code, .. }
                    if *error_code == TransportErrorCode::crypto(alert))
            },
            line: &["does not support the application protocol", "--http09"],
        },
        Fault {
            what: "no common version",
            server: Server::OfAnotherVersion,
            is_right: |error| matches!(error, ConnectionError::VersionMismatch),
            line: &["cannot connect to", "supports no QUIC version"],
        },
    ]
}

#[test]
fn every_refusal_has_its_variant_and_its_line() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for Fault { what, server, is_right, line } in faults() {
        let scratch = Scratch::new(&format!("refusals-{}", what.replace(' ', "-")));
        let (address, trusted) = runtime.block_on(serve(server));
        let error = runtime.block_on(connect(address, &trusted));
        let http3::Error::Connection(connection_error) = &error else {
            panic!("{what}: {error:?}")
        };
        assert!(is_right(connection_error), "{what}: {error:?}");
        assert_causes(what, &error);

        let (authorities, output) = (scratch.path("trusted.pem"), scratch.path("file"));
        fs::write(&authorities, trusted.pem()).unwrap();
        let (url, address) = (format!("https://{NAME}:{}/", address.port()), address.to_string());
        let said = fail(&["get", "--ca", &authorities, "--connect", &address, "-o", &output, &url]);
        for part in line.iter().copied().chain([NAME, &address]) {
            assert!(said.contains(part), "{what}: {part:?} is not in {said:?}");
        }
        assert_eq!(scratch.names(), ["trusted.pem"], "{what}");
    }
}

/// Checks that code that does not match on variants finds the TLS error in the chain of sources.
fn assert_causes(what: &str, error: &http3::Error) {
    let sources = std::iter::successors(error.source(), |error| (*error).source());
    let tls = sources.filter(|error| error.is::<rustls::Error>()).count();
    let http3::Error::Connection(connection_error) = error else { unreachable!() };
    let is_local = matches!(connection_error, ConnectionError::TransportError(_));
    assert_eq!(tls, usize::from(is_local), "{what}");
}

/// Starts the server, which runs as long as the runtime. Returns its address and the certificate that clients trust.
async fn serve(server: Server) -> (SocketAddr, Certificate) {
    let (Shown(certificate, key), trusted, protocol) = match server {
        Server::Showing(shown, trusted) => (shown, trusted, http3::PROTOCOL),
        Server::Speaking(protocol) => {
            let Server::Showing(shown, trusted) = self_signed(&parameters(NAME)) else {
                unreachable!()
            };
            (shown, trusted, protocol.as_bytes())
        }
        Server::OfAnotherVersion => return (answer_with_another_version().await, authority().0),
    };
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::new(vec![CertificateDer::from(certificate)], key.into())
        .application_protocols([protocol]);
    let endpoint = Endpoint::server(LOOPBACK, config).unwrap();
    let address = endpoint.local_address();
    tokio::spawn(async move {
        while let Some(connecting) = endpoint.accept().await {
            drop(connecting.await);
        }
    });
    (address, trusted)
}

/// Answers every Initial packet with Version Negotiation (RFC 9000 §17.2.1).
async fn answer_with_another_version() -> SocketAddr {
    let socket = UdpSocket::bind(LOOPBACK).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut datagram = [0; 2048];
        while let Ok((size, client)) = socket.recv_from(&mut datagram).await {
            let Some(answer) = version_negotiation(&datagram[..size]) else { continue };
            drop(socket.send_to(&answer, client).await);
        }
    });
    address
}

/// Returns a Version Negotiation packet for an Initial packet; its connection IDs are swapped (RFC
/// 8999 §6).
fn version_negotiation(initial: &[u8]) -> Option<Vec<u8>> {
    const LONG_HEADER: u8 = 0x80;
    const ANOTHER_VERSION: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
    let ids = initial.get(5..)?;
    let (destination, rest) = ids.get(1..)?.split_at_checked(usize::from(ids[0]))?;
    let (source, _) = rest.get(1..)?.split_at_checked(usize::from(rest[0]))?;
    let mut packet = vec![LONG_HEADER, 0, 0, 0, 0, source.len() as u8];
    packet.extend_from_slice(source);
    packet.push(destination.len() as u8);
    packet.extend_from_slice(destination);
    packet.extend_from_slice(&ANOTHER_VERSION);
    Some(packet)
}

async fn connect(address: SocketAddr, trusted: &Certificate) -> http3::Error {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der().clone()).unwrap();
    let config = ClientConfig::with_roots(roots).application_protocols([http3::PROTOCOL]);
    let endpoint = Endpoint::client(LOOPBACK).unwrap();
    Client::connect(&endpoint, &config, address, NAME).await.map(drop).unwrap_err()
}
