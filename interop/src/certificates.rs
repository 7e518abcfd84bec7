//! The server certificates for a cell.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The name of every server, regardless of its address.
pub(crate) const SERVER_NAME: &str = "server";
/// The other names in the server's certificate.
const OTHER_NAMES: [&str; 3] = ["server4", "server6", "server46"];
/// Number of intermediate certificates in the long chain. Together with the server's own
/// certificate there are nine.
const INTERMEDIATES: usize = 8;
/// Number of intermediates that clients trust, in addition to the root: several verifiers accept at
/// most six certificates between a trusted certificate and the server's.
const TRUSTED_INTERMEDIATES: usize = 3;
/// Number of additional names that enlarge the server's certificate in the long chain, and the
/// length of each name.
const FILLING_NAMES: usize = 20;
const FILLING_LENGTH: usize = 250;
/// Maximum length of a DNS label.
const LABEL: usize = 63;

/// The files with a server's certificates and key.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// The certificates that clients trust.
    pub(crate) roots: PathBuf,
    /// The server's certificate, followed by its issuers' certificates, without the root.
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Writes new certificates to `folder`: a root and the server's own, with eight intermediates
    /// between them if `is_long` is true.
    pub(crate) fn create(folder: &Path, is_long: bool) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let names = ["ca.pem", "cert.pem", "priv.key"].map(|name| folder.join(name));
        let [roots, chain, key] = names;
        let files = Self { roots, chain, key };
        files.write(if is_long { INTERMEDIATES } else { 0 }).map_err(io::Error::other)?;
        Ok(files)
    }

    fn write(&self, intermediates: usize) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let key = KeyPair::generate()?;
        let parameters = authority("root")?;
        let root = parameters.self_signed(&key)?;
        let mut issuer = Issuer::new(parameters, key);
        let (mut trusted, mut chain) = (root.pem(), Vec::new());
        for number in 1..=intermediates {
            let key = KeyPair::generate()?;
            let parameters = authority(&format!("intermediate {number}"))?;
            let certificate = parameters.signed_by(&key, &issuer)?.pem();
            if number <= TRUSTED_INTERMEDIATES {
                trusted.push_str(&certificate);
            }
            chain.push(certificate);
            issuer = Issuer::new(parameters, key);
        }
        let key = KeyPair::generate()?;
        let fillings = if intermediates > 0 { FILLING_NAMES } else { 0 };
        chain.push(server(fillings)?.signed_by(&key, &issuer)?.pem());
        chain.reverse();
        fs::write(&self.roots, trusted)?;
        fs::write(&self.chain, chain.concat())?;
        fs::write(&self.key, key.serialize_pem())?;
        Ok(())
    }
}

fn authority(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.distinguished_name.push(DnType::CommonName, format!("interop {name}"));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn server(fillings: usize) -> Result<CertificateParams, rcgen::Error> {
    let names = std::iter::once(SERVER_NAME).chain(OTHER_NAMES).map(str::to_owned);
    let names: Vec<String> = names.chain((0..fillings).map(filling)).collect();
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, SERVER_NAME);
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

/// Returns a long but valid DNS name, to enlarge the certificate.
fn filling(number: usize) -> String {
    let mut name = format!("n{number:02}");
    while name.len() < FILLING_LENGTH {
        let is_full = name.rsplit('.').next().is_some_and(|label| label.len() == LABEL);
        name.push(if is_full { '.' } else { 'x' });
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_chain_has_nine_certificates_and_fills_the_handshake() {
        let folder = std::env::temp_dir().join(format!("clearway-chain-{}", std::process::id()));
        let files = Certificates::create(&folder, true).unwrap();
        let chain = fs::read_to_string(&files.chain).unwrap();
        let roots = fs::read_to_string(&files.roots).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let count = |pem: &str| pem.matches("BEGIN CERTIFICATE").count();
        assert_eq!((count(&chain), count(&roots)), (9, 4));
        // Base64 encodes three bytes as four characters.
        assert!(chain.len() * 3 / 4 > 7500, "{}", chain.len());
    }

    #[test]
    fn filling_names_are_valid() {
        let name = filling(7);
        assert_eq!(name.len(), FILLING_LENGTH);
        assert!(name.split('.').all(|label| (1..=LABEL).contains(&label.len())), "{name}");
        assert_ne!(name, filling(8));
    }
}
