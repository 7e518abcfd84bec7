//! Limits on the certificate chain of a peer.

use core::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};
use webpki::EndEntityCert;

/// The maximum number of certificates that a peer may send, its own included. Chains in use have two to four.
pub const MAX_CERTIFICATES: usize = 10;

/// The maximum number of intermediate certificates with the same subject that a peer may send. Chains in use have two where
/// an authority is cross-signed.
///
/// A path to a root is searched by names, and each certificate of one name is tried wherever that name is needed. Nine
/// certificates of one name, a chain of 3 kB, would take 200,000 attempts and 0.3 s of processor time. Within the limits a
/// chain takes less than 1 ms for the search, and at most 100 signatures: 14 ms with P-256.
pub const MAX_CERTIFICATES_OF_ONE_NAME: usize = 3;

/// A peer's certificate chain exceeds a limit, and was refused before it was searched for a path to a root. This is the source
/// of [`rustls::CertificateError::Other`]; the peer gets the alert certificate_unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CertificateChainLimit {
    /// The chain has more than [`MAX_CERTIFICATES`] certificates.
    Certificates {
        /// How many it has.
        count: usize,
    },
    /// More than [`MAX_CERTIFICATES_OF_ONE_NAME`] intermediate certificates have the same subject.
    OneName {
        /// How many have it.
        count: usize,
    },
}

impl fmt::Display for CertificateChainLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates { count } => write!(
                f,
                "the peer sent {count} certificates and at most {MAX_CERTIFICATES} are accepted; it should send only those \
                 between its own and a root"
            ),
            Self::OneName { count } => write!(
                f,
                "the peer sent {count} intermediate certificates with the same subject and at most \
                 {MAX_CERTIFICATES_OF_ONE_NAME} are accepted; it should send only those between its own and a root"
            ),
        }
    }
}

impl core::error::Error for CertificateChainLimit {}

/// # Errors
/// [`CertificateError::Other`] with [`CertificateChainLimit`].
pub(super) fn check(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let refused = |limit| {
        let error = OtherError(Arc::new(limit));
        Err(Error::InvalidCertificate(CertificateError::Other(error)))
    };
    let count = intermediates.len().saturating_add(1);
    if count > MAX_CERTIFICATES {
        return refused(CertificateChainLimit::Certificates { count });
    }
    // What cannot be parsed is not part of any path.
    let parsed = intermediates.iter().filter_map(|it| EndEntityCert::try_from(it).ok());
    let mut subjects: Vec<Vec<u8>> = parsed.map(|it| it.subject().to_vec()).collect();
    subjects.sort_unstable();
    let count = subjects.chunk_by(|one, next| one == next).map(<[_]>::len).max().unwrap_or(0);
    if count > MAX_CERTIFICATES_OF_ONE_NAME {
        return refused(CertificateChainLimit::OneName { count });
    }
    Ok(())
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
