//! Files that are read again while the server runs.
//!
//! They are looked at every second. Being told of changes (inotify) would be no better here: such files are often reached
//! through symbolic links that are exchanged as a whole, or lie on network file systems, where nothing is told; and a second
//! is soon enough for what changes every few weeks.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// What shows that a file has changed: file system, inode, size, and the times of the last change of content and inode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp(u64, u64, u64, [i64; 4]);

/// Files, and what they were when they were read last.
#[derive(Debug)]
pub(super) struct Watch {
    files: Vec<PathBuf>,
    /// The files' stamps before they were read last.
    read: Vec<Option<Stamp>>,
}

impl Watch {
    /// The caller reads the files after this for the first time.
    pub(super) fn begin(files: Vec<PathBuf>) -> Self {
        let read = stamps(&files);
        Self { files, read }
    }

    /// Calls `read_again` when `asked` is notified, and when a file has changed and then all stay the same for an interval:
    /// files that belong together are not written in one moment.
    pub(super) async fn run(
        mut self,
        asked: Arc<Notify>,
        mut read_again: impl FnMut() + Send + 'static,
    ) {
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
                    self.read.clone_from(&now);
                    read_again();
                }
                (self, now, read_again)
            });
            match looking.await {
                Ok(looked) => (self, seen, read_again) = looked,
                // The program ends.
                Err(_) => return,
            }
        }
    }
}

/// The stamps of all files; `None` where there is none.
fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
    Ok(Stamp(data.dev(), data.ino(), data.size(), times))
}
