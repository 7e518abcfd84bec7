use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, UnixTime,
};
use rustls::{CertificateError, Error, RootCertStore};

use super::super::signatures::REMEMBERED;
use super::{ServerTrust, ValidSignatures, Verifier};

/// The algorithms of aws-lc-rs with a counter of verifications. Each test has its own.
#[derive(Debug)]
struct Counted {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    count: &'static AtomicUsize,
}

impl SignatureVerificationAlgorithm for Counted {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.algorithm.verify_signature(public_key, message, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }
}

/// The counting algorithms are leaked, because rustls keeps algorithms for the life of the process.
pub(in super::super) fn counted() -> (WebPkiSupportedAlgorithms, &'static AtomicUsize) {
    static OWN: LazyLock<WebPkiSupportedAlgorithms> =
        LazyLock::new(|| aws_lc_rs::default_provider().signature_verification_algorithms);
    let count: &'static AtomicUsize = Box::leak(Box::default());
    let counted = |algorithm: &&'static dyn SignatureVerificationAlgorithm| {
        let algorithm = Counted { algorithm: *algorithm, count };
        let leaked: &'static dyn SignatureVerificationAlgorithm = Box::leak(Box::new(algorithm));
        leaked
    };
    let all: Vec<_> = OWN.all.iter().map(counted).collect();
    (WebPkiSupportedAlgorithms { all: Vec::leak(all), mapping: OWN.mapping }, count)
}

/// A root CA, an intermediate CA, and a server certificate issued by the latter.
struct Chain {
    root: CertificateDer<'static>,
    intermediate: CertificateDer<'static>,
    server: CertificateDer<'static>,
}

impl Chain {
    fn new() -> Self {
        let authority = |name: &str| {
            let mut parameters = CertificateParams::new([]).unwrap();
            parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (parameters, KeyPair::generate().unwrap())
        };
        let (parameters, key) = authority("root");
        let root = parameters.self_signed(&key).unwrap().into();
        let issuer = Issuer::new(parameters, key);
        let (parameters, key) = authority("intermediate");
        let intermediate = parameters.signed_by(&key, &issuer).unwrap().into();
        let issuer = Issuer::new(parameters, key);
        let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let server = parameters.signed_by(&key, &issuer).unwrap().into();
        Self { root, intermediate, server }
    }

    fn verify(&self, verifier: &Verifier, name: &str, now: UnixTime) -> Result<(), Error> {
        let name = name.to_owned().try_into().unwrap();
        let intermediates = [self.intermediate.clone()];
        verifier.verify_server_cert(&self.server, &intermediates, &name, &[], now).map(|_| ())
    }
}

fn trusting(root: &CertificateDer<'static>) -> (Verifier, &'static AtomicUsize) {
    let (algorithms, count) = counted();
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    (Verifier::new(ServerTrust::Roots(Arc::new(roots)), algorithms), count)
}

fn unwrap_certificate_error(outcome: Result<(), Error>) -> CertificateError {
    match outcome {
        Err(Error::InvalidCertificate(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_valid_signature_is_verified_once() {
    let chain = Chain::new();
    let (verifier, count) = trusting(&chain.root);
    for _ in 0..3 {
        chain.verify(&verifier, "localhost", UnixTime::now()).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
    // Other verifiers do not share the cache.
    let (other, count) = trusting(&chain.root);
    chain.verify(&other, "localhost", UnixTime::now()).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// Names, times and roots are not cached.
#[test]
fn everything_else_is_checked_each_time() {
    let chain = Chain::new();
    let (verifier, _) = trusting(&chain.root);
    let now = UnixTime::now();
    chain.verify(&verifier, "localhost", now).unwrap();
    let other_name = chain.verify(&verifier, "example.org", now);
    let is_name = |error| matches!(error, CertificateError::NotValidForNameContext { .. });
    assert!(is_name(unwrap_certificate_error(other_name)));
    let later = UnixTime::since_unix_epoch(Duration::from_secs(1 << 40));
    let expired = unwrap_certificate_error(chain.verify(&verifier, "localhost", later));
    assert!(matches!(expired, CertificateError::ExpiredContext { .. }), "{expired:?}");
    let (stranger, _) = trusting(&Chain::new().root);
    let stranger = Verifier { valid: verifier.valid, ..stranger };
    let untrusted = unwrap_certificate_error(chain.verify(&stranger, "localhost", now));
    assert_eq!(untrusted, CertificateError::BadSignature);
}

/// If any byte of a chain is changed, the chain is accepted only if it would also be accepted with
/// an empty cache.
#[test]
fn a_changed_certificate_is_as_wrong_as_before() {
    let chain = Chain::new();
    let now = UnixTime::now();
    let (knowing, _) = trusting(&chain.root);
    chain.verify(&knowing, "localhost", now).unwrap();
    let mut refused = 0;
    for of_server in [true, false] {
        let original = if of_server { &chain.server } else { &chain.intermediate };
        for at in 0..original.len() {
            let mut changed = original.to_vec();
            changed[at] ^= 1;
            let changed = CertificateDer::from(changed);
            let (server, intermediate) = match of_server {
                true => (changed, chain.intermediate.clone()),
                false => (chain.server.clone(), changed),
            };
            let chain = Chain { root: chain.root.clone(), intermediate, server };
            let (fresh, _) = trusting(&chain.root);
            let outcomes = [&knowing, &fresh].map(|it| chain.verify(it, "localhost", now));
            refused += usize::from(outcomes[0].is_err());
            // Some errors are not equal to any error, not even to themselves.
            let [after, before] = outcomes.map(|outcome| format!("{outcome:?}"));
            assert_eq!(after, before, "{of_server} {at}");
        }
    }
    assert_eq!(refused, chain.server.len() + chain.intermediate.len());
}

#[test]
fn an_invalid_signature_is_not_remembered() {
    let chain = Chain::new();
    let mut server = chain.server.to_vec();
    *server.last_mut().unwrap() ^= 1;
    let chain = Chain { server: server.into(), ..chain };
    let (verifier, count) = trusting(&chain.root);
    // The intermediate certificate's signature is remembered.
    for asked in 2..=4 {
        let outcome = chain.verify(&verifier, "localhost", UnixTime::now());
        assert_eq!(unwrap_certificate_error(outcome), CertificateError::BadSignature);
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }
}

#[test]
fn so_many_signatures_are_remembered_and_no_more() {
    let valid = ValidSignatures::default();
    let fingerprint = |number: usize| {
        let mut fingerprint = [7; 32];
        fingerprint[..8].copy_from_slice(&(number as u64).to_le_bytes());
        fingerprint
    };
    for number in 0..10 * REMEMBERED {
        assert!(!valid.contains(&fingerprint(number)));
        valid.insert(fingerprint(number));
        assert!(valid.contains(&fingerprint(number)));
    }
    let known = (0..10 * REMEMBERED).filter(|number| valid.contains(&fingerprint(*number)));
    assert_eq!(known.count(), REMEMBERED);
}
