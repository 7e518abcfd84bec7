//! The error of a certificate chain that exceeds a limit.

use core::fmt;

/// The maximum number of certificates that a peer may send, its own included. Chains in use have two to four.
pub const MAX_CERTIFICATES: usize = 10;

/// The maximum number of intermediate certificates with the same subject that a peer may send. Chains in use have two where
/// an authority is cross-signed.
///
/// A path to a root is searched by names, and each certificate of one name is tried wherever that name is needed. Nine
/// certificates of one name, a chain of 3 kB, would take 200,000 attempts and 0.3 s of processor time. Within the limits a
/// chain takes less than 1 ms for the search, and at most [`MAX_CHAIN_SIGNATURES`].
pub const MAX_CERTIFICATES_OF_ONE_NAME: usize = 3;

/// The maximum number of signatures that are verified in the search for a path from a peer's certificate to a root: 2.3 ms with
/// P-256. A chain needs one for each of its certificates, and one more for each certificate that only seemed to be the issuer,
/// or each root of the same name with another key.
pub const MAX_CHAIN_SIGNATURES: usize = 16;

/// A peer's certificate chain exceeds a limit, and was refused before a path to a root was found. This is the source of
/// [`rustls::CertificateError::Other`]; the peer gets the alert certificate_unknown.
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
                "no path from the peer's certificate to a root was found with {MAX_CHAIN_SIGNATURES} signatures; the peer \
                 should send only the certificates between its own and a root"
            ),
        }
    }
}

impl core::error::Error for CertificateChainLimit {}
