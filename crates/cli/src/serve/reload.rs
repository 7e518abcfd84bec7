//! Certificates that are read again while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use clearway::{Certificates, Identity};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::certificate::read_identity;
use crate::failure::Failure;
use crate::output;
use crate::watched::{INTERVAL, Watched};

/// A certificate's file and its key's.
type Files = (PathBuf, PathBuf);

/// The certificates of a server, with the files from which they come.
#[derive(Debug)]
pub(super) struct Reloading {
    files: Vec<Files>,
    certificates: Arc<Certificates>,
    watched: Watched,
}

impl Reloading {
    /// Reads the files for the first time.
    pub(super) fn start(files: Vec<Files>) -> Result<Self, Failure> {
        let paths = files.iter().flat_map(|(certificate, key)| [certificate.clone(), key.clone()]);
        let watched = Watched::new(paths.collect());
        let certificates = Certificates::new(identities(&files)?);
        let certificates = certificates.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { files, certificates: Arc::new(certificates), watched })
    }

    pub(super) fn certificates(&self) -> Arc<Certificates> {
        self.certificates.clone()
    }

    /// Reads the files again when `asked` is notified, and when one has changed and then stays the same for an interval:
    /// certificate and key are not written in one moment.
    pub(super) async fn run(mut self, asked: Arc<Notify>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_asked = tokio::select! {
                () = asked.notified() => true,
                _ = interval.tick() => false,
            };
            // The file system may be slow.
            let looking = tokio::task::spawn_blocking(move || {
                if self.watched.look(is_asked) {
                    self.read_again();
                }
                self
            });
            match looking.await {
                Ok(reloading) => self = reloading,
                // The program ends.
                Err(_) => return,
            }
        }
    }

    fn read_again(&self) {
        let replaced = identities(&self.files).and_then(|identities| {
            let lines: Vec<_> = identities.iter().map(described).collect();
            let replaced = self.certificates.replace(identities);
            replaced.map(|()| lines).map_err(|error| Failure::new(error.to_string()))
        });
        match replaced {
            Ok(lines) => {
                for ((file, _), described) in self.files.iter().zip(lines) {
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
