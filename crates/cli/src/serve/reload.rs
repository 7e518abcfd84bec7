//! Certificates that are read again while the server runs.
//!
//! The files are looked at every second. Being told of changes (inotify) would be no better here: certificates are often
//! reached through symbolic links that are exchanged as a whole, or lie on network file systems, where nothing is told;
//! and a second is soon enough for what is renewed every few weeks.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clearway::{Certificates, Identity};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::certificate::read_identity;
use crate::failure::Failure;
use crate::output;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// A certificate's file and its key's.
type Files = (PathBuf, PathBuf);

/// What shows that a file has changed: file system, inode, size, and the times of the last change of content and inode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp(u64, u64, u64, [i64; 4]);

/// The certificates of a server, with the files from which they come.
#[derive(Debug)]
pub(super) struct Reloading {
    files: Vec<Files>,
    certificates: Arc<Certificates>,
    /// The files' stamps before they were read last.
    read: Vec<Option<Stamp>>,
}

impl Reloading {
    /// Reads the files for the first time.
    pub(super) fn start(files: Vec<Files>) -> Result<Self, Failure> {
        let read = stamps(&files);
        let certificates = Certificates::new(identities(&files)?);
        let certificates = certificates.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { files, certificates: Arc::new(certificates), read })
    }

    pub(super) fn certificates(&self) -> Arc<Certificates> {
        self.certificates.clone()
    }

    /// Reads the files again when `asked` is notified, and when one has changed and then stays the same for an interval:
    /// certificate and key are not written in one moment.
    pub(super) async fn run(mut self, asked: Arc<Notify>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.read.clone();
        loop {
            let is_asked = tokio::select! {
                () = asked.notified() => true,
                _ = interval.tick() => false,
            };
            // The file system may be slow.
            let looking = tokio::task::spawn_blocking(move || {
                let now = stamps(&self.files);
                if is_asked || (now != self.read && now == seen) {
                    self.read_again(now.clone());
                }
                (self, now)
            });
            match looking.await {
                Ok((reloading, now)) => (self, seen) = (reloading, now),
                // The program ends.
                Err(_) => return,
            }
        }
    }

    fn read_again(&mut self, stamps: Vec<Option<Stamp>>) {
        self.read = stamps;
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

/// The stamps of all files; `None` where there is none.
fn stamps(files: &[Files]) -> Vec<Option<Stamp>> {
    let paths = files.iter().flat_map(|(certificate, key)| [certificate, key]);
    paths.map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &PathBuf) -> io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
    Ok(Stamp(data.dev(), data.ino(), data.size(), times))
}
