//! Limits on a peer's certificate chain.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};
use webpki::EndEntityCert;

use crate::{CertificateChainLimit, MAX_CERTIFICATES, MAX_CERTIFICATES_OF_ONE_NAME};

/// Checks the number of certificates, and of intermediate certificates with the same subject.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(super) fn check(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let count = intermediates.len().saturating_add(1);
    if count > MAX_CERTIFICATES {
        return Err(refused(CertificateChainLimit::Certificates { count }));
    }
    // Certificates that cannot be parsed are not part of any path.
    let parsed = intermediates.iter().filter_map(|it| EndEntityCert::try_from(it).ok());
    let mut subjects: Vec<Vec<u8>> = parsed.map(|it| it.subject().to_vec()).collect();
    subjects.sort_unstable();
    let count = subjects.chunk_by(|one, next| one == next).map(<[_]>::len).max().unwrap_or(0);
    if count > MAX_CERTIFICATES_OF_ONE_NAME {
        return Err(refused(CertificateChainLimit::OneName { count }));
    }
    Ok(())
}

/// Returns the error of a chain that exceeds a limit.
pub(super) fn refused(limit: CertificateChainLimit) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(limit))))
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
