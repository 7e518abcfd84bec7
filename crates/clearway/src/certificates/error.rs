use core::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem;

/// The reason why a certificate and its key cannot be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IdentityError {
    /// The certificate chain is empty, or the PEM data has no CERTIFICATE section.
    NoCertificate,
    /// The PEM data has no private key section.
    NoPrivateKey,
    /// The private key is encrypted with a password. Decrypt it first, for example with `openssl
    /// pkey`.
    EncryptedKey,
    /// The PEM data of the certificates is malformed.
    CertificatePem(Arc<pem::Error>),
    /// The PEM data of the private key is malformed.
    KeyPem(Arc<pem::Error>),
    /// The certificate cannot be parsed.
    InvalidCertificate(rustls::Error),
    /// The private key cannot be parsed, or is of an unsupported type.
    InvalidKey(rustls::Error),
    /// The private key belongs to another certificate.
    KeyMismatch,
    /// The certificate has expired.
    Expired {
        /// The end of its validity period.
        not_after: SystemTime,
    },
    /// The certificate is not valid yet.
    NotValidYet {
        /// The start of its validity period.
        not_before: SystemTime,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("no certificate found"),
            Self::NoPrivateKey => f.write_str("no private key found"),
            Self::EncryptedKey => f.write_str("the private key is encrypted; decrypt it first"),
            Self::CertificatePem(error) => write!(f, "the certificate is not valid PEM: {error}"),
            Self::KeyPem(error) => write!(f, "the private key is not valid PEM: {error}"),
            Self::InvalidCertificate(error) => write!(f, "the certificate is invalid: {error}"),
            Self::InvalidKey(error) => write!(f, "the private key cannot be used: {error}"),
            Self::KeyMismatch => f.write_str("the private key does not belong to the certificate"),
            Self::Expired { .. } => f.write_str("the certificate has expired"),
            Self::NotValidYet { .. } => f.write_str("the certificate is not valid yet"),
        }
    }
}

impl core::error::Error for IdentityError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::CertificatePem(error) | Self::KeyPem(error) => error.source(),
            Self::InvalidCertificate(error) | Self::InvalidKey(error) => error.source(),
            Self::NoCertificate
            | Self::NoPrivateKey
            | Self::EncryptedKey
            | Self::KeyMismatch
            | Self::Expired { .. }
            | Self::NotValidYet { .. } => None,
        }
    }
}
