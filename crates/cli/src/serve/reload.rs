//! Certificates that are read again while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use clearway::{Certificates, Identity};
use tokio::sync::Notify;

use crate::certificate::read_identity;
use crate::failure::Failure;
use crate::output;
use crate::watch::Watch;

/// A certificate's file and its key's.
type Files = (PathBuf, PathBuf);

/// The certificates of a server, with the files from which they come.
#[derive(Debug)]
pub(super) struct Reloading {
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

    /// Reads the files again when `asked` is notified, and when one has changed.
    pub(super) async fn run(self, asked: Arc<Notify>) {
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
                output::status(&format!(
                    "reloaded the certificate {}: {described}",
                    file.display()
                ));
            }
        }
        Err(failure) => output::status(&format!(
            "clearway: the certificates were not reloaded and those before stay in use: {failure}"
        )),
    }
}

/// What is read from all files; nothing if one of them is wrong.
fn identities(files: &[Files]) -> Result<Vec<Identity>, Failure> {
    files.iter().map(|(certificate, key)| read_identity(certificate, key)).collect()
}

/// The names of a certificate, and how long it is valid.
fn described(identity: &Identity) -> String {
    let names = match identity.names() {
        [] => "no DNS name".to_owned(),
        names => names.join(", "),
    };
    format!("{names}, valid until {}", httpdate::fmt_http_date(identity.not_after()))
}
