//! Limits on the certificate chain of a peer.

use core::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};

/// The maximum number of certificates that a peer may send, its own included. Chains in use have two to four. A longer chain
/// is refused before any signature is verified, with [`CertificateChainTooLong`]. Without a limit, a chain of 64 KiB has
/// 150 certificates, and with equal names the search for a path through them takes up to 100 signatures.
pub const MAX_CERTIFICATES: usize = 16;

/// A peer has sent more than [`MAX_CERTIFICATES`] certificates. It is the source of
/// [`rustls::CertificateError::Other`], and the peer gets the alert certificate_unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CertificateChainTooLong {
    /// How many certificates the chain has.
    pub certificates: usize,
}

impl fmt::Display for CertificateChainTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificates } = self;
        write!(
            f,
            "the peer sent {certificates} certificates, and at most {MAX_CERTIFICATES} are accepted; \
             it should send only those between its own and a root"
        )
    }
}

impl core::error::Error for CertificateChainTooLong {}

/// # Errors
/// [`CertificateError::Other`] with [`CertificateChainTooLong`].
pub(super) fn check(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let certificates = intermediates.len().saturating_add(1);
    if certificates <= MAX_CERTIFICATES {
        return Ok(());
    }
    let error = OtherError(Arc::new(CertificateChainTooLong { certificates }));
    Err(Error::InvalidCertificate(CertificateError::Other(error)))
}
