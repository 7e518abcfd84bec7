//! The certificates of the simulated servers, which are created once per process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair,
};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::sign::{any_ecdsa_type, any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::signing::EqualSignatures;
use super::{LabCertificateError, SERVER_NAME};

/// The certificates that a server sends, and the root that its clients trust.
struct Identity {
    certified: CertifiedKey,
    root: CertificateDer<'static>,
}

type Identities = BTreeMap<Option<u32>, Arc<Identity>>;

/// Returns the identity of servers whose certificate chains have `size` bytes; with `None`, returns
/// one with a single certificate of any size.
fn identity(size: Option<u32>) -> Result<Arc<Identity>, LabCertificateError> {
    static IDENTITIES: Mutex<Identities> = Mutex::new(BTreeMap::new());
    let mut identities = IDENTITIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = identities.get(&size) {
        return Ok(identity.clone());
    }
    let identity = Arc::new(size.map_or_else(self_signed, |size| chain(size as usize))?);
    identities.insert(size, identity.clone());
    Ok(identity)
}

/// Returns the resolver for a server's certificates.
pub(super) fn resolver(
    size: Option<u32>,
) -> Result<Arc<dyn ResolvesServerCert>, LabCertificateError> {
    Ok(Arc::new(SingleCertAndKey::from(identity(size)?.certified.clone())))
}

/// Returns the root certificates that clients of servers with such a certificate chain trust.
pub(super) fn roots(size: Option<u32>) -> Result<RootCertStore, LabCertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity(size)?.root.clone())?;
    Ok(roots)
}

/// Creates a self-signed Ed25519 certificate; all Ed25519 signatures have the same size.
fn self_signed() -> Result<Identity, LabCertificateError> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let parameters = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    let root = CertificateDer::from(parameters.self_signed(&key)?);
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()))?;
    Ok(Identity { certified: CertifiedKey::new(vec![root.clone()], key), root })
}

/// A certificate authority's certificate with its key.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

fn ecdsa() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
}

/// Creates a certificate authority called `name`, signed by `issuer` or self-signed.
fn authority(name: &str, issuer: Option<&Authority>) -> Result<Authority, rcgen::Error> {
    let key = ecdsa()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = match issuer {
        Some(authority) => parameters.signed_by(&key, &authority.issuer)?,
        None => parameters.self_signed(&key)?,
    };
    let certificate = CertificateDer::from(certificate);
    Ok(Authority { certificate, issuer: Issuer::new(parameters, key) })
}

/// The OID of an unknown extension (2.25 is the arc of UUIDs) that pads certificates.
const FILLER: [u64; 3] = [2, 25, 1];
/// The maximum number of attempts. Signatures vary by a few bytes, so adjusting the padding by one
/// byte each time soon results in the right size.
const ATTEMPTS: usize = 1000;
/// The chain size, in bytes, from which two intermediate certificates are used instead of one.
const WITH_TWO_INTERMEDIATES: usize = 2000;

/// Creates a certificate chain of `size` bytes in total: the server's certificate, padded with an
/// unknown extension, and one or two intermediates that lead to the root, which is not sent.
fn chain(size: usize) -> Result<Identity, LabCertificateError> {
    let root = authority("Root", None)?;
    let mut authorities = vec![authority("A", Some(&root))?];
    if size >= WITH_TWO_INTERMEDIATES {
        authorities.insert(0, authority("B", authorities.first())?);
    }
    let key = ecdsa()?;
    let mut parameters = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    parameters.distinguished_name = DistinguishedName::new();
    let others: usize = authorities.iter().map(|authority| authority.certificate.len()).sum();
    let mut filler = 0_usize;
    for _ in 0..ATTEMPTS {
        let extension = CustomExtension::from_oid_content(&FILLER, vec![0; filler]);
        parameters.custom_extensions = vec![extension];
        let signer = authorities.first().unwrap_or(&root);
        let certificate = CertificateDer::from(parameters.signed_by(&key, &signer.issuer)?);
        let now = certificate.len() + others;
        if now == size {
            let ours = core::iter::once(certificate);
            let theirs = authorities.into_iter().map(|authority| authority.certificate);
            let key = any_ecdsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
            let key = Arc::new(EqualSignatures(key));
            let certified = CertifiedKey::new(ours.chain(theirs).collect(), key);
            return Ok(Identity { certified, root: root.certificate });
        }
        filler = (filler + size).saturating_sub(now);
    }
    let error = format!("cannot create a certificate chain of {size} bytes");
    Err(rustls::Error::General(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_the_size_that_was_asked_for() {
        for size in [1000, 1001, 1130, 4000, 16_000, 60_000] {
            let identity = identity(Some(size)).unwrap();
            let sum: usize = identity.certified.cert.iter().map(|it| it.len()).sum();
            assert_eq!(sum, size as usize);
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let error = identity(Some(100)).err().unwrap();
        assert!(error.to_string().contains("certificate chain of 100 bytes"), "{error}");
    }
}
