use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use clearway_wire::Version;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, GeneralSubtree, IsCa, Issuer,
    KeyPair, NameConstraints, PublicKeyData, SignatureAlgorithm,
};
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::super::client_trust::ClientPolicy;
use super::super::tests::converse;
use super::super::verifier::Verifier;
use super::super::verifier::tests::counted;
use super::super::{
    ClientTrust, ServerTrust, TlsClientConfig, TlsClientSettings, TlsServerConfig,
    TlsServerSettings, TlsSession, certified_key,
};
use super::*;
use crate::handshake::ServerSessions;
use crate::handshake::tests::{self, ONE};
use crate::{MAX_CHAIN_SIGNATURES, TransportError, TransportErrorCause};

type Certificate = CertificateDer<'static>;

fn authority(name: &str) -> (CertificateParams, KeyPair) {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (parameters, KeyPair::generate().unwrap())
}

/// Returns a root certificate and its issuer.
fn root(name: &str) -> (Certificate, Issuer<'static, KeyPair>) {
    let (parameters, key) = authority(name);
    let certificate = parameters.self_signed(&key).unwrap().into();
    (certificate, Issuer::new(parameters, key))
}

/// Returns a self-signed authority that has the same name as another one, but not its key.
fn impostor(name: &str) -> Certificate {
    root(name).0
}

fn leaf(names: &[String], issuer: &Issuer<'static, KeyPair>) -> Certificate {
    let key = KeyPair::generate().unwrap();
    CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap().into()
}

fn localhost() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// Returns the outcome of verifying a server, and the number of signatures verified.
fn verify(
    root: &Certificate,
    own: &Certificate,
    intermediates: &[Certificate],
    name: &str,
) -> (Result<(), Error>, usize) {
    let (algorithms, count) = counted();
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let verifier = Verifier::new(ServerTrust::Roots(Arc::new(roots)), algorithms);
    let name = name.to_owned().try_into().unwrap();
    let outcome = verifier.verify_server_cert(own, intermediates, &name, &[], UnixTime::now());
    (outcome.map(|_| ()), count.load(Ordering::Relaxed))
}

/// Verifies a client like [`verify`]; its name does not matter.
fn verify_client(
    root: &Certificate,
    own: &Certificate,
    intermediates: &[Certificate],
) -> (Result<(), Error>, usize) {
    let (algorithms, count) = counted();
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.signature_verification_algorithms = algorithms;
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let trust = ClientTrust::Required(roots.into());
    let verifier = ClientPolicy::of(&trust, &Arc::new(provider)).unwrap().verifier();
    let outcome = verifier.verify_client_cert(own, intermediates, UnixTime::now());
    (outcome.map(|_| ()), count.load(Ordering::Relaxed))
}

/// Returns the limit that was exceeded, if any.
fn limit(error: &Error) -> Option<CertificateChainLimit> {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else {
        return None;
    };
    error.downcast_ref().copied()
}

#[test]
fn a_chain_of_ten_certificates_is_accepted_in_any_order() {
    // Repeated, because two of the remembered signatures may share a slot.
    for _ in 0..20 {
        accept_in_any_order();
    }
}

fn accept_in_any_order() {
    let (root, mut issuer) = root("root");
    let mut intermediates = Vec::new();
    for number in 0..3 {
        let (parameters, key) = authority(&format!("intermediate {number}"));
        intermediates.insert(0, parameters.signed_by(&key, &issuer).unwrap().into());
        issuer = Issuer::new(parameters, key);
    }
    let own = leaf(&localhost(), &issuer);
    // Unneeded certificates, three of which have a name that is needed.
    intermediates.extend([impostor("intermediate 2"), impostor("intermediate 2")]);
    intermediates.extend((0..4).map(|number| impostor(&format!("other {number}"))));
    for _ in 0..2 {
        assert_eq!(intermediates.len() + 1, MAX_CERTIFICATES);
        for (outcome, signatures) in [
            verify(&root, &own, &intermediates, "localhost"),
            verify_client(&root, &own, &intermediates),
        ] {
            assert_eq!(outcome, Ok(()));
            assert!((4..=MAX_CHAIN_SIGNATURES / 2).contains(&signatures), "{signatures}");
        }
        intermediates.reverse();
    }
    intermediates.push(impostor("one more"));
    let (outcome, signatures) = verify(&root, &own, &intermediates, "localhost");
    let expected = CertificateChainLimit::Certificates { count: 11 };
    assert_eq!((limit(&outcome.unwrap_err()), signatures), (Some(expected), 0));
}

/// Every certificate could be the issuer of every other one, so there are as many possible paths as
/// permutations.
#[test]
fn certificates_of_one_name_are_limited() {
    let (root, _) = root("root");
    let own = leaf(&localhost(), &self::root("X").1);
    for count in [4, 9] {
        let intermediates: Vec<_> = (0..count).map(|_| impostor("X")).collect();
        let (outcome, signatures) = verify(&root, &own, &intermediates, "localhost");
        let expected = CertificateChainLimit::OneName { count };
        assert_eq!((limit(&outcome.unwrap_err()), signatures), (Some(expected), 0));
    }
    let unreadable = vec![Certificate::from(vec![0x30; 5]); 9];
    let (outcome, _) = verify(&root, &own, &unreadable, "localhost");
    assert!(limit(&outcome.unwrap_err()).is_none());
}

/// The most expensive chain within the limits: three names that form a cycle of issuers, with three
/// certificates each.
#[test]
fn the_search_for_a_path_is_bounded() {
    let named = |name: &str, issuer: &str| {
        let (parameters, key) = authority(name);
        let certificate: Certificate =
            parameters.signed_by(&key, &self::root(issuer).1).unwrap().into();
        certificate
    };
    let mut intermediates = Vec::new();
    for _ in 0..3 {
        intermediates.extend([named("X", "Y"), named("Y", "Z"), named("Z", "X")]);
    }
    let own = leaf(&localhost(), &self::root("X").1);
    // If no root has one of these names, nothing is verified. Otherwise, each path ends at that
    // root.
    for (name, most) in [("root", 0), ("X", MAX_CHAIN_SIGNATURES), ("Z", MAX_CHAIN_SIGNATURES)] {
        let root = root(name).0;
        for (role, (outcome, signatures)) in [
            ("server", verify(&root, &own, &intermediates, "localhost")),
            ("client", verify_client(&root, &own, &intermediates)),
        ] {
            let expected = (most > 0).then_some(CertificateChainLimit::Signatures);
            assert_eq!(limit(&outcome.unwrap_err()), expected, "{role} {name}");
            assert_eq!(signatures, most, "{role} {name}");
        }
    }
}

/// The error for a chain within the limits describes the chain's defect.
#[test]
fn a_wrong_signature_is_called_that() {
    let own = leaf(&localhost(), &root("X").1);
    let wrong = Err(Error::InvalidCertificate(CertificateError::BadSignature));
    let other = impostor("X");
    assert_eq!(verify(&other, &own, &[], "localhost"), (wrong.clone(), 1));
    // The signature is verified once in the bounded search, and once for rustls's error.
    assert_eq!(verify_client(&other, &own, &[]), (wrong, 2));
}

#[test]
fn a_certificate_may_have_a_thousand_names() {
    let (root, issuer) = root("root");
    let names: Vec<_> = (0..1000).map(|number| format!("name-{number}.example.org")).collect();
    let own = leaf(&names, &issuer);
    assert!(own.len() > 20_000);
    for name in ["name-0.example.org", "name-999.example.org"] {
        assert_eq!(verify(&root, &own, &[], name), (Ok(()), 1));
    }
    let (outcome, _) = verify(&root, &own, &[], "name-1000.example.org");
    let error = outcome.unwrap_err();
    let is_name =
        matches!(error, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }));
    assert!(is_name, "{error:.200?}");
}

/// Each name has to be compared with each constraint.
#[test]
fn a_thousand_names_under_a_thousand_constraints_are_refused() {
    let (root, issuer) = root("root");
    let (mut parameters, key) = authority("constrained");
    let permitted = |number| GeneralSubtree::DnsName(format!("name-{number}.example.com"));
    parameters.name_constraints = Some(NameConstraints {
        permitted_subtrees: (0..1000).map(permitted).collect(),
        excluded_subtrees: Vec::new(),
    });
    let constrained: Certificate = parameters.signed_by(&key, &issuer).unwrap().into();
    let issuer = Issuer::new(parameters, key);
    let names: Vec<_> = (0..1000).map(|_| "name-999.example.com".to_owned()).collect();
    let own = leaf(&names, &issuer);
    let (outcome, signatures) = verify(&root, &own, &[constrained], "name-999.example.com");
    let error = format!("{:?}", outcome.unwrap_err());
    assert!(error.contains("MaximumNameConstraintComparisonsExceeded"), "{error:.200}");
    assert_eq!(signatures, 2);
}

/// Returns the outcome of a handshake between a client and a server with these certificates: the
/// server requires a certificate issued by `ca`.
fn handshake(
    client: Option<CertifiedKey>,
    server: CertifiedKey,
    ca: Option<&Certificate>,
) -> Result<(), TransportError> {
    let resolver = Arc::new(SingleCertAndKey::from(server));
    let mut settings = TlsServerSettings::new(resolver, &[b"h3"]);
    if let Some(ca) = ca {
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone()).unwrap();
        settings.clients = ClientTrust::Required(roots.into());
    }
    let server = Arc::new(TlsServerConfig::from_settings(settings).unwrap());
    let mut settings = TlsClientSettings::new(ServerTrust::DangerousAnyone, &[b"h3"]);
    settings.certificate = client.map(Arc::new);
    let client = TlsClientConfig::from_settings(settings).unwrap();
    let mut client =
        TlsSession::connect(&client, Version::V1, &[], "localhost", b"client".to_vec()).unwrap();
    let mut server = server.accept(ONE, b"server".to_vec()).unwrap();
    converse(&mut client, &mut *server)
}

fn own() -> CertifiedKey {
    let own = tests::identity();
    certified_key(vec![own.certificate], own.key).unwrap()
}

/// Both ends reject chains that are too long with the alert certificate_unknown.
#[test]
fn both_ends_refuse_long_chains_by_name() {
    let (ca, issuer) = root("root");
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(localhost()).unwrap();
    let mut chain: Vec<Certificate> = vec![parameters.signed_by(&key, &issuer).unwrap().into()];
    chain.extend((0..10).map(|number| impostor(&number.to_string())));
    let long = || {
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        certified_key(chain.clone(), key).unwrap()
    };
    for error in [
        handshake(None, long(), None).unwrap_err(),
        handshake(Some(long()), own(), Some(&ca)).unwrap_err(),
    ] {
        assert_eq!(error.code.alert(), Some(46), "{error}");
        assert_eq!(error.reason(), "the peer's certificate chain is too long");
        let TransportErrorCause::Tls(error) = error.cause else { panic!("{error:?}") };
        assert_eq!(limit(&error), Some(CertificateChainLimit::Certificates { count: 11 }));
    }
}

/// A signing key whose public key is invalid.
struct Key(&'static SignatureAlgorithm, Vec<u8>);

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.1
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0
    }
}

/// Keys that are not on their curve, have a wrong length, or use a different curve than the
/// signature.
#[test]
fn keys_that_are_none_end_the_handshake() {
    static P256: LazyLock<Vec<u8>> =
        LazyLock::new(|| KeyPair::generate().unwrap().der_bytes().to_vec());
    let (ca, issuer) = root("root");
    let point = |change: fn(&mut Vec<u8>)| {
        let mut point = P256.clone();
        change(&mut point);
        point
    };
    let keys = [
        ("another key", point(|_| {})),
        ("not on the curve", point(|point| point[64] ^= 1)),
        ("infinity", vec![0]),
        ("empty", Vec::new()),
        (
            "zeros",
            vec![4; 65]
                .into_iter()
                .enumerate()
                .map(|(at, it)| if at == 0 { it } else { 0 })
                .collect(),
        ),
        ("short", point(|point| point.truncate(33))),
        ("long", vec![4; 60_000]),
        (
            "compressed",
            point(|point| {
                point.truncate(33);
                point[0] = 2;
            }),
        ),
        ("in a different format", point(|point| point[0] = 6)),
    ];
    let algorithms: [&'static SignatureAlgorithm; 4] = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ];
    for algorithm in algorithms {
        for (what, key) in &keys {
            let key = Key(algorithm, key.clone());
            let parameters = CertificateParams::new(localhost()).unwrap();
            let certificate: Certificate = parameters.signed_by(&key, &issuer).unwrap().into();
            let lying = || CertifiedKey::new(vec![certificate.clone()], own().key);
            for error in [
                handshake(None, lying(), None).unwrap_err(),
                handshake(Some(lying()), own(), Some(&ca)).unwrap_err(),
            ] {
                let TransportErrorCause::Tls(error) = &error.cause else { panic!("{error:?}") };
                let is_right =
                    matches!(**error, Error::InvalidCertificate(_) | Error::PeerMisbehaved(_));
                assert!(is_right, "{what}: {error:?}");
            }
        }
    }
}

/// A certificate with an unknown curve: every byte of the key's algorithm is changed.
#[test]
fn unknown_curves_end_the_handshake() {
    let own = own();
    let certificate = own.cert[0].to_vec();
    // The OIDs of id-ecPublicKey and prime256v1.
    let algorithm = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    let place = certificate.windows(algorithm.len()).position(|it| it == algorithm).unwrap();
    for at in place..place + algorithm.len() {
        let mut changed = certificate.clone();
        changed[at] ^= 0x05;
        let lying = CertifiedKey::new(vec![changed.into()], own.key.clone());
        let error = handshake(None, lying, None).unwrap_err();
        let TransportErrorCause::Tls(error) = &error.cause else { panic!("{error:?}") };
        assert!(matches!(**error, Error::InvalidCertificate(_)), "{error:?}");
    }
}
