use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clearway_transport::certified_key;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::IdentityError;

/// A certificate chain with its private key, presented by a server, or by a client on request.
/// Clones are cheap.
#[derive(Clone)]
pub struct Identity(Arc<Contents>);

struct Contents {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Identity {
    /// Creates an identity from a DER certificate chain, which starts with the end-entity
    /// certificate, and its private key.
    ///
    /// Does not check whether the certificate has expired; see
    /// [`check_validity`](Self::check_validity).
    ///
    /// # Errors
    /// Fails if there is no certificate, the certificate or the key cannot be parsed, or they do
    /// not match.
    pub fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, IdentityError> {
        let own = chain.first().ok_or(IdentityError::NoCertificate)?;
        let (names, (not_before, not_after)) = {
            let parsed = EndEntityCert::try_from(own).map_err(|_| unparsable())?;
            let mut names: Vec<_> = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
            names.dedup();
            (names, validity(&parsed)?)
        };
        let key = certified_key(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                IdentityError::KeyMismatch
            }
            error @ rustls::Error::InvalidCertificate(_) => {
                IdentityError::InvalidCertificate(error)
            }
            error => IdentityError::InvalidKey(error),
        })?;
        Ok(Self(Arc::new(Contents { key: Arc::new(key), names, not_before, not_after })))
    }

    /// Creates an identity from a certificate chain, which starts with the end-entity certificate,
    /// and its private key, both in PEM. The same data may be passed for both, since sections of
    /// other types are skipped.
    ///
    /// # Errors
    /// Fails in the same cases as [`from_der`](Self::from_der), and if the PEM data is malformed or
    /// lacks the required section, or the key is encrypted.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let sections = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = match sections {
            Err(pem::Error::NoItemsFound) => Err(IdentityError::NoCertificate),
            Err(error) => Err(IdentityError::CertificatePem(Arc::new(error))),
            Ok(chain) => Ok(chain),
        }?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            _ if is_encrypted(key) => IdentityError::EncryptedKey,
            pem::Error::NoItemsFound => IdentityError::NoPrivateKey,
            error => IdentityError::KeyPem(Arc::new(error)),
        })?;
        Self::from_der(chain, key)
    }

    /// Returns the certificate chain, which starts with the end-entity certificate.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.key.cert
    }

    /// Returns the DNS names in the certificate's subjectAltName, in lower case; wildcard names
    /// begin with `*.` (RFC 9525 §6.3).
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Returns the start of the certificate's validity period.
    pub fn not_before(&self) -> SystemTime {
        self.0.not_before
    }

    /// Returns the end of the certificate's validity period, inclusive.
    pub fn not_after(&self) -> SystemTime {
        self.0.not_after
    }

    /// Checks whether the certificate is valid at `now`.
    ///
    /// # Errors
    /// Returns [`IdentityError::Expired`] or [`IdentityError::NotValidYet`] if it is not.
    pub fn check_validity(&self, now: SystemTime) -> Result<(), IdentityError> {
        let Contents { not_before, not_after, .. } = *self.0;
        match now {
            now if now < not_before => Err(IdentityError::NotValidYet { not_before }),
            now if now > not_after => Err(IdentityError::Expired { not_after }),
            _ => Ok(()),
        }
    }

    pub(crate) fn certified_key(&self) -> Arc<CertifiedKey> {
        self.0.key.clone()
    }

    /// Returns whether the key can sign with one of the peer's signature schemes.
    pub(super) fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.0.key.key.choose_scheme(schemes).is_some()
    }
}

impl fmt::Debug for Identity {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("names", &self.0.names)
            .field("not_before", &self.0.not_before)
            .field("not_after", &self.0.not_after)
            .finish_non_exhaustive()
    }
}

fn unparsable() -> IdentityError {
    let error = rustls::CertificateError::BadEncoding;
    IdentityError::InvalidCertificate(rustls::Error::InvalidCertificate(error))
}

/// Returns the start and end of a certificate's validity period. webpki reports them only in the
/// error for a verification time outside the period; it checks the time first.
fn validity(certificate: &EndEntityCert<'_>) -> Result<(SystemTime, SystemTime), IdentityError> {
    let verify_at = |seconds| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let usage = KeyUsage::server_auth();
        certificate.verify_for_usage(&[], &[], &[], time, usage, None, None).err()
    };
    let not_before = match verify_at(0) {
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        Some(webpki::Error::BadDer | webpki::Error::BadDerTime) => return Err(unparsable()),
        _ => 0,
    };
    let not_after = match verify_at(u64::MAX) {
        Some(webpki::Error::CertExpired { not_after, .. }) => not_after.as_secs(),
        _ => return Err(unparsable()),
    };
    let moment = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    moment(not_before).zip(moment(not_after)).ok_or_else(unparsable)
}

/// Returns whether PEM data contains an encrypted key, in PKCS#8 or the older OpenSSL format.
fn is_encrypted(text: &[u8]) -> bool {
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
