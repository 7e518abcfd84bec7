//! Certificates: the user's own, or a self-signed one generated at start.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::pem::{Error as PemError, PemObject};
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use clearway::{Identity, IdentityError};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// A certificate that this program generated.
#[derive(Debug)]
pub(crate) struct Development {
    pub(crate) identity: Identity,
    /// The certificate, which clients can trust.
    pub(crate) pem: String,
}

/// The names for which a development certificate is valid.
const DEVELOPMENT_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl Development {
    /// A new self-signed certificate, which nobody trusts yet, for the names of this machine.
    pub(crate) fn generate() -> Result<Self, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot make a certificate: {error}"))
        };
        let key = KeyPair::generate().map_err(|error| cannot(&error))?;
        let names = DEVELOPMENT_NAMES.map(str::to_owned).to_vec();
        let mut parameters = CertificateParams::new(names).map_err(|error| cannot(&error))?;
        // Every certificate has a name of its own, so that a client that trusts an earlier one reports an unknown
        // issuer instead of a bad signature.
        let mark: String =
            key.public_key_raw().iter().rev().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("clearway development {mark}");
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).map_err(|error| cannot(&error))?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let identity = Identity::from_der(vec![certificate.der().clone()], key.into())
            .map_err(|error| cannot(&error))?;
        Ok(Self { identity, pem: certificate.pem() })
    }
}

/// Reads a certificate chain and its private key from two PEM files, which may be one. The certificate has to be valid
/// now.
pub(crate) fn read_identity(certificates: &Path, key: &Path) -> Result<Identity, Failure> {
    let chain = read("certificate", certificates)?;
    let private_key = read("private key", key)?;
    Identity::from_pem(&chain, &private_key)
        .and_then(|identity| identity.check_validity(SystemTime::now()).map(|()| identity))
        .map_err(|error| unusable(&error, certificates, key))
}

/// The same, as rustls takes it for a client.
pub(crate) fn read_chain_and_key(
    certificates: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
    // Says what is wrong with them, if something is.
    read_identity(certificates, key)?;
    let private_key = PrivateKeyDer::from_pem_slice(&read("private key", key)?)
        .map_err(|error| unparsable("private key", key, Some(&error)))?;
    Ok((read_certificates(certificates)?, private_key))
}

/// What is wrong with which of the files, and what to do.
fn unusable(error: &IdentityError, certificates: &Path, key_file: &Path) -> Failure {
    let (file, key) = (certificates.display(), key_file.display());
    match error {
        IdentityError::NoCertificate => unparsable("certificate", certificates, None),
        IdentityError::CertificatePem(error) => unparsable("certificate", certificates, Some(error)),
        IdentityError::NoPrivateKey => unparsable("private key", key_file, None),
        IdentityError::KeyPem(error) => unparsable("private key", key_file, Some(error)),
        IdentityError::EncryptedKey => {
            Failure::new(format!("the private key {key} is encrypted with a password"))
                .advise(format!("decrypt it first: openssl pkey -in {key} -out FILE"))
        }
        IdentityError::InvalidCertificate(error) => {
            Failure::new(format!("cannot use the certificate {file}: {error}"))
                .advise("it must be an X.509 certificate of version 3")
        }
        IdentityError::InvalidKey(error) => {
            Failure::new(format!("cannot use the private key {key}: {error}"))
                .advise("it must be an RSA, ECDSA or Ed25519 key in PKCS#8, PKCS#1 or SEC1")
        }
        IdentityError::KeyMismatch => {
            Failure::new(format!("the key {key} does not belong to the certificate {file}"))
                .advise("give the key with which the certificate was requested; the server's own certificate comes first in its file")
        }
        IdentityError::Expired { not_after } => {
            let when = httpdate::fmt_http_date(*not_after);
            Failure::new(format!("the certificate {file} expired on {when}"))
                .advise("renew it, or correct the clock of this machine")
        }
        IdentityError::NotValidYet { not_before } => {
            let when = httpdate::fmt_http_date(*not_before);
            Failure::new(format!("the certificate {file} is not valid before {when}"))
                .advise("correct the clock of this machine")
        }
        error => Failure::new(format!("cannot use the certificate {file} with the key {key}: {error}")),
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
    let text = read("certificate", file)?;
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unparsable("certificate", file, Some(&error)))?;
    match chain.is_empty() {
        true => Err(unparsable("certificate", file, None)),
        false => Ok(chain),
    }
}

fn read(what: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| {
        let path = file.display();
        Failure::new(format!("cannot read the {what} {path}: {error}"))
            .advise("check the path and the permissions of the file")
    })
}

/// A PEM file has no section of the kind, or is malformed.
fn unparsable(what: &str, file: &Path, error: Option<&PemError>) -> Failure {
    let path = file.display();
    match error {
        None | Some(PemError::NoItemsFound) => Failure::new(format!("{path} contains no {what}"))
            .advise("it must be a PEM file, with a line that begins with -----BEGIN"),
        Some(error) => Failure::new(format!("cannot parse the {what} {path}: {error}"))
            .advise("it must be a PEM file"),
    }
}

/// Writes a development certificate to a file that clients can trust with `--ca`.
pub(crate) fn save(pem: &str, file: &Path) -> Result<(), Failure> {
    let written = WholeFile::create(file).and_then(|mut file| {
        file.write_all(pem.as_bytes())?;
        file.finish()
    });
    written.map_err(|error| {
        Failure::new(format!("cannot write the certificate to {}: {error}", file.display()))
    })
}
