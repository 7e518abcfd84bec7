//! Real TLS between the two ends, with one certificate for all runs.

use std::sync::{Arc, OnceLock};

use clearway_transport::{SessionError, TlsClientConfig, TlsServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::clearway::SERVER_NAME;

/// The application protocol of all runs.
pub(super) const PROTOCOLS: &[&[u8]] = &[b"h3"];

struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

fn identity() -> Result<&'static Identity, LabCertificateError> {
    static IDENTITY: OnceLock<Result<Identity, LabCertificateError>> = OnceLock::new();
    IDENTITY.get_or_init(make_identity).as_ref().map_err(Clone::clone)
}

/// Ed25519, because all its signatures have the same size.
fn make_identity() -> Result<Identity, LabCertificateError> {
    let failed = |error: rcgen::Error| LabCertificateError(Arc::new(error));
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(failed)?;
    let parameters = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()]).map_err(failed)?;
    let certificate = CertificateDer::from(parameters.self_signed(&key).map_err(failed)?);
    Ok(Identity { certificate, key: key.serialize_der() })
}

/// The certificate could not be created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LabCertificateError(Arc<dyn core::error::Error + Send + Sync>);

impl core::fmt::Display for LabCertificateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "no certificate could be made for the simulated server: {}", self.0)
    }
}

impl core::error::Error for LabCertificateError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<rustls::Error> for LabCertificateError {
    fn from(error: rustls::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<SessionError> for LabCertificateError {
    fn from(error: SessionError) -> Self {
        Self(Arc::new(error))
    }
}

/// The certificate chain of every simulated server, and its key.
pub(super) fn chain_and_key()
-> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), LabCertificateError> {
    let identity = identity()?;
    let key = PrivatePkcs8KeyDer::from(identity.key.clone());
    Ok((vec![identity.certificate.clone()], key.into()))
}

/// The root certificates that every simulated client trusts.
pub(super) fn roots() -> Result<RootCertStore, LabCertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity()?.certificate.clone())?;
    Ok(roots)
}

/// The TLS configuration of a server.
pub(super) fn server() -> Result<Arc<TlsServerConfig>, LabCertificateError> {
    let (chain, key) = chain_and_key()?;
    Ok(Arc::new(TlsServerConfig::with_certificate(chain, key, PROTOCOLS)?))
}

/// The TLS configuration of a client, without a session to resume.
pub(super) fn client() -> Result<Arc<TlsClientConfig>, LabCertificateError> {
    Ok(Arc::new(TlsClientConfig::with_roots(roots()?, PROTOCOLS)?))
}
