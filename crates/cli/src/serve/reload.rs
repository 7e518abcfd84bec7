//! Reloads certificates and trusted roots while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clearway::{Certificates, ClientRoots, Identity};
use tokio::sync::Notify;

use crate::certificate::{read_identity, read_roots};
use crate::events::{Event, note};
use crate::failure::Failure;
use crate::watch::Watch;

/// The files of a certificate and its key.
type Files = (PathBuf, PathBuf);

/// The certificates of a server, and their files.
#[derive(Debug)]
pub(crate) struct Reloading {
    files: Vec<Files>,
    certificates: Arc<Certificates>,
    watch: Watch,
}

impl Reloading {
    /// Reads the files for the first time.
    pub(super) fn start(files: Vec<Files>) -> Result<Self, Failure> {
        let both = |(certificate, key): &Files| [certificate.clone(), key.clone()];
        let watch = Watch::begin(files.iter().flat_map(both).collect());
        let certificates = Certificates::new(identities(&files)?);
        let certificates = certificates.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { files, certificates: Arc::new(certificates), watch })
    }

    pub(super) fn certificates(&self) -> Arc<Certificates> {
        self.certificates.clone()
    }

    /// Reloads the files when `asked` is notified, and when one has changed.
    pub(crate) async fn run(self, asked: Arc<Notify>) {
        let Self { files, certificates, watch } = self;
        watch.run(asked, move || read_again(&files, &certificates)).await;
    }
}

fn read_again(files: &[Files], certificates: &Certificates) {
    let replaced = identities(files).and_then(|identities| {
        let lines: Vec<_> = identities.iter().map(described).collect();
        let replaced = certificates.replace(identities);
        replaced.map(|()| lines).map_err(|error| Failure::new(error.to_string()))
    });
    match replaced {
        Ok(lines) => {
            for ((file, _), described) in files.iter().zip(lines) {
                let file = file.display();
                note(
                    Event::CertificatesReloaded,
                    &format!("reloaded the certificate {file}: {described}"),
                );
            }
        }
        Err(failure) => note(
            Event::CertificatesNotReloaded,
            &format!(
                "clearway: the certificates were not reloaded and the previous ones stay in use: {failure}"
            ),
        ),
    }
}

/// The roots for client certificates, and their file.
#[derive(Debug)]
pub(crate) struct ReloadingRoots {
    file: PathBuf,
    roots: ClientRoots,
    watch: Watch,
}

impl ReloadingRoots {
    /// Reads the file for the first time.
    pub(super) fn start(file: PathBuf) -> Result<Self, Failure> {
        let watch = Watch::begin(vec![file.clone()]);
        let roots = ClientRoots::new(read_roots(&file)?);
        Ok(Self { file, roots, watch })
    }

    pub(super) fn roots(&self) -> ClientRoots {
        self.roots.clone()
    }

    /// Reloads the file when `asked` is notified, and when it has changed.
    pub(crate) async fn run(self, asked: Arc<Notify>) {
        let Self { file, roots, watch } = self;
        watch.run(asked, move || read_roots_again(&file, &roots)).await;
    }
}

fn read_roots_again(file: &Path, roots: &ClientRoots) {
    let replaced = read_roots(file).and_then(|read| {
        let count = read.len();
        let replaced = roots.replace(read);
        replaced.map(|()| count).map_err(|error| Failure::new(error.to_string()))
    });
    let file = file.display();
    match replaced {
        Ok(count) => {
            let certificates = if count == 1 { "certificate" } else { "certificates" };
            let line = format!("reloaded the client CA {file}: {count} {certificates}");
            note(Event::ClientCaReloaded, &line);
        }
        Err(failure) => note(
            Event::ClientCaNotReloaded,
            &format!(
                "clearway: the client CA was not reloaded and the previous one stays in use: {failure}"
            ),
        ),
    }
}

/// Reads the identities in all files; returns an error if one of them is invalid.
fn identities(files: &[Files]) -> Result<Vec<Identity>, Failure> {
    files.iter().map(|(certificate, key)| read_identity(certificate, key)).collect()
}

/// Describes a certificate: its names, and how long it is valid.
fn described(identity: &Identity) -> String {
    let names = match identity.names() {
        [] => "no DNS name".to_owned(),
        names => names.join(", "),
    };
    format!("{names}, valid until {}", httpdate::fmt_http_date(identity.not_after()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_described_by_its_names_and_its_end() {
        let described = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            described(&Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap())
        };
        let end = "valid until Sun, 01 Jan 4096 00:00:00 GMT";
        assert_eq!(
            described(&["a.example", "*.b.example"]),
            format!("a.example, *.b.example, {end}")
        );
        assert_eq!(described(&["192.0.2.1"]), format!("no DNS name, {end}"));
    }
}
