//! Certificates: the user's own, or a self-signed one generated at start.

use std::fs;
use std::path::Path;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::pem::{Error as PemError, PemObject};
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::failure::Failure;

/// A server's certificate chain and private key.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The server's own certificate comes first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// The certificate as PEM, if this program generated it.
    pub(crate) development_pem: Option<String>,
}

/// The names for which a development certificate is valid.
const DEVELOPMENT_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl Identity {
    /// A new self-signed certificate, which nobody trusts yet, for the names of this machine.
    pub(crate) fn development() -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format!("cannot make a certificate: {error}"));
        let key = KeyPair::generate().map_err(cannot)?;
        let names = DEVELOPMENT_NAMES.map(str::to_owned).to_vec();
        let mut parameters = CertificateParams::new(names).map_err(cannot)?;
        // Every certificate has a name of its own, so that a client that trusts an earlier one reports an unknown
        // issuer instead of a bad signature.
        let mark: String =
            key.public_key_raw().iter().rev().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("clearway development {mark}");
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).map_err(cannot)?;
        let development_pem = Some(certificate.pem());
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Self { chain: vec![certificate.der().clone()], key: key.into(), development_pem })
    }

    /// Reads the certificate chain and the private key from two PEM files.
    pub(crate) fn read(certificates: &Path, key: &Path) -> Result<Self, Failure> {
        let chain = read_certificates(certificates)?;
        let read_key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| unreadable("private key", key, &error))?;
        Ok(Self { chain, key: read_key, development_pem: None })
    }
}

/// The trust anchors: the certificates in a PEM file.
pub(crate) fn read_roots(file: &Path) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        roots.add(certificate).map_err(|error| {
            let file = file.display();
            Failure::new(format!("{file} contains a certificate that cannot be trusted: {error}"))
        })?;
    }
    Ok(roots)
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let chain = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("certificate", file, &error))?;
    match chain.is_empty() {
        true => Err(unreadable("certificate", file, &PemError::NoItemsFound)),
        false => Ok(chain),
    }
}

fn unreadable(what: &str, file: &Path, error: &PemError) -> Failure {
    let path = file.display();
    match error {
        PemError::Io(error) => Failure::new(format!("cannot read the {what} {path}: {error}"))
            .advise("check the path and the permissions of the file"),
        PemError::NoItemsFound => Failure::new(format!("{path} contains no {what}"))
            .advise("it must be a PEM file, with a line that begins with -----BEGIN"),
        error => Failure::new(format!("cannot parse the {what} {path}: {error:?}"))
            .advise("it must be a PEM file"),
    }
}

/// Writes a development certificate to a file that clients can trust with `--ca`.
pub(crate) fn save(pem: &str, file: &Path) -> Result<(), Failure> {
    fs::write(file, pem).map_err(|error| {
        Failure::new(format!("cannot write the certificate to {}: {error}", file.display()))
    })
}
