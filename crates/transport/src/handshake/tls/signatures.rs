//! Verification of the signatures in a certificate chain: each signature only once, and only a
//! limited number of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::Error;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm};

use super::chain;
use crate::crypto::packets::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use crate::{CertificateChainLimit, MAX_CHAIN_SIGNATURES};

/// Runs a search for a path to a root, with algorithms that skip signatures known to be valid, and
/// verify at most [`MAX_CHAIN_SIGNATURES`] other signatures.
///
/// # Errors
/// Returns [`CertificateChainLimit::Signatures`] if the search failed because of the limit.
pub(super) fn bounded<T, E>(
    supported: &WebPkiSupportedAlgorithms,
    valid: &ValidSignatures,
    search: impl FnOnce(&[&dyn SignatureVerificationAlgorithm]) -> Result<T, E>,
) -> Result<Result<T, E>, Error> {
    let own = Search::default();
    let once = |algorithm: &&'static _| Once { algorithm: *algorithm, valid, search: &own };
    let algorithms: Vec<Once<'_>> = supported.all.iter().map(once).collect();
    let algorithms: Vec<&dyn SignatureVerificationAlgorithm> =
        algorithms.iter().map(|once| once as _).collect();
    let found = search(&algorithms);
    match own.verified.load(Ordering::Relaxed) > MAX_CHAIN_SIGNATURES {
        true if found.is_err() => Err(chain::refused(CertificateChainLimit::Signatures)),
        _ => Ok(found),
    }
}

/// The number of valid signatures that are remembered.
pub(super) const REMEMBERED: usize = 64;

/// Identifies a signature together with the signed message, the key and the algorithms.
type Fingerprint = [u8; SHA256_OUTPUT_LEN];

/// A direct-mapped cache of signatures found to be valid: a new signature replaces the one in its
/// slot.
pub(super) struct ValidSignatures(Mutex<[Option<Fingerprint>; REMEMBERED]>);

impl ValidSignatures {
    pub(super) fn contains(&self, fingerprint: &Fingerprint) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::place(&mut places, fingerprint).is_some_and(|place| *place == Some(*fingerprint))
    }

    pub(super) fn insert(&self, fingerprint: Fingerprint) {
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

/// A search for a path, across all algorithms.
#[derive(Debug, Default)]
struct Search {
    /// The number of verified signatures.
    verified: AtomicUsize,
    /// The signatures found to be valid, at most [`MAX_CHAIN_SIGNATURES`]. In [`ValidSignatures`],
    /// other signatures may have replaced them.
    valid: Mutex<Vec<Fingerprint>>,
}

impl Search {
    fn valid(&self) -> MutexGuard<'_, Vec<Fingerprint>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An algorithm that skips signatures known to be valid and rejects all others once too many have
/// been verified.
#[derive(Debug)]
struct Once<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    valid: &'a ValidSignatures,
    search: &'a Search,
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
        if self.search.valid().contains(&fingerprint) || self.valid.contains(&fingerprint) {
            return Ok(());
        }
        if self.search.verified.fetch_add(1, Ordering::Relaxed) >= MAX_CHAIN_SIGNATURES {
            return Err(InvalidSignature);
        }
        self.algorithm.verify_signature(public_key, message, signature)?;
        self.search.valid().push(fingerprint);
        self.valid.insert(fingerprint);
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
