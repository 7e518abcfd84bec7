//! What a client checks of a server's certificates.

use std::sync::{Mutex, PoisonError};

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName,
    SignatureVerificationAlgorithm, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::chain;
use super::revive::is_reviving;
use super::settings::ServerTrust;

/// Checks the certificates of servers as `trust` says: with roots as rustls's own verifier does (RFC 5280 §6, RFC 9525), except that a
/// signature of a certificate that was found valid is not verified again. Whatever the trust, a server has to prove that it has the
/// key of its certificate, except on the thread that revives a session, and for that time.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: ServerTrust,
    algorithms: WebPkiSupportedAlgorithms,
    valid: ValidSignatures,
}

impl Verifier {
    pub(super) fn new(trust: ServerTrust, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust, algorithms, valid: ValidSignatures::default() }
    }

    fn verify_chain(
        &self,
        roots: &RootCertStore,
        certificate: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let valid = &self.valid;
        let once = |algorithm: &&'static _| Once { algorithm: *algorithm, valid };
        let algorithms: Vec<Once<'_>> = self.algorithms.all.iter().map(once).collect();
        let algorithms: Vec<&dyn SignatureVerificationAlgorithm> =
            algorithms.iter().map(|once| once as _).collect();
        let supported = &algorithms;
        verify_server_cert_signed_by_trust_anchor(certificate, roots, intermediates, now, supported)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        chain::check(intermediates)?;
        if let ServerTrust::Roots(roots) = &self.trust {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            self.verify_chain(roots, &certificate, intermediates, now)?;
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if is_reviving() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// How many valid signatures are remembered.
const REMEMBERED: usize = 64;

/// What identifies a signature, with what it signs, the key and the algorithms.
type Fingerprint = [u8; SHA256_OUTPUT_LEN];

/// Signatures that were found valid. Each has one place, which is taken by the last one for it.
struct ValidSignatures(Mutex<[Option<Fingerprint>; REMEMBERED]>);

impl ValidSignatures {
    fn contains(&self, fingerprint: &Fingerprint) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::place(&mut places, fingerprint).is_some_and(|place| *place == Some(*fingerprint))
    }

    fn insert(&self, fingerprint: Fingerprint) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = Self::place(&mut places, &fingerprint) {
            *place = Some(fingerprint);
        }
    }

    fn place<'a>(
        places: &'a mut [Option<Fingerprint>; REMEMBERED],
        [first, ..]: &Fingerprint,
    ) -> Option<&'a mut Option<Fingerprint>> {
        places.get_mut(usize::from(*first) % REMEMBERED)
    }
}

impl Default for ValidSignatures {
    fn default() -> Self {
        Self(Mutex::new([None; REMEMBERED]))
    }
}

impl core::fmt::Debug for ValidSignatures {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("ValidSignatures").finish_non_exhaustive()
    }
}

/// An algorithm that is not asked again about a valid signature.
#[derive(Debug)]
struct Once<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    valid: &'a ValidSignatures,
}

impl Once<'_> {
    fn fingerprint(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Fingerprint {
        let (key_algorithm, algorithm) = (self.public_key_alg_id(), self.signature_alg_id());
        let mut hash = Context::new(&SHA256);
        for part in [key_algorithm.as_ref(), algorithm.as_ref(), public_key, message, signature] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(hash.finish().as_ref());
        fingerprint
    }
}

impl SignatureVerificationAlgorithm for Once<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let fingerprint = self.fingerprint(public_key, message, signature);
        if !self.valid.contains(&fingerprint) {
            self.algorithm.verify_signature(public_key, message, signature)?;
            self.valid.insert(fingerprint);
        }
        Ok(())
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
pub(super) mod tests;
