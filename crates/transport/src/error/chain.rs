//! The error for a certificate chain that exceeds a limit.

use core::fmt;

/// The maximum number of certificates that a peer may send, including its own. Chains in use have
/// two to four.
pub const MAX_CERTIFICATES: usize = 10;

/// The maximum number of intermediate certificates with the same subject that a peer may send.
/// Chains in use have two if an authority is cross-signed.
///
/// Path building looks up issuers by subject name, and tries every certificate with a matching
/// name. Nine certificates with one name, a chain of 3 kB, would take 200,000 attempts and 0.3 s of
/// CPU time. Within the limits, a search takes less than 1 ms and verifies at most
/// [`MAX_CHAIN_SIGNATURES`] signatures.
pub const MAX_CERTIFICATES_OF_ONE_NAME: usize = 3;

/// The maximum number of signatures verified in the search for a path from a peer's certificate to
/// a root: 2.3 ms with P-256. A chain requires one verification per certificate, another one for
/// each certificate that only appeared to be the issuer, and one for each root with the same name
/// and a different key.
pub const MAX_CHAIN_SIGNATURES: usize = 16;

/// A peer's certificate chain exceeds a limit, and was rejected before a path to a root was found.
/// This is the source of [`rustls::CertificateError::Other`]; the peer receives the alert
/// certificate_unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CertificateChainLimit {
    /// The chain has more than [`MAX_CERTIFICATES`] certificates.
    Certificates {
        /// The number of certificates.
        count: usize,
    },
    /// More than [`MAX_CERTIFICATES_OF_ONE_NAME`] intermediate certificates have the same subject.
    OneName {
        /// The number of certificates with that subject.
        count: usize,
    },
    /// No path to a root was found with [`MAX_CHAIN_SIGNATURES`] signatures.
    Signatures,
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
            Self::Signatures => write!(
                f,
                "no path from the peer's certificate to a root was found within \
                 {MAX_CHAIN_SIGNATURES} signature checks; the peer should send only the \
                 certificates between its own and a root"
            ),
        }
    }
}

impl core::error::Error for CertificateChainLimit {}
