//! Reloads files while the server runs.
//!
//! The files are checked every second. Change notifications (inotify) would not be better here:
//! such files are often reached through symbolic links that are switched, or are on network file
//! systems, which send no notifications. A delay of a second does not matter for files that change
//! every few weeks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::system;

/// Interval at which the files are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Properties that reveal changes to a file: its identity and size, and the times of the last
/// changes to its content and inode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp([u64; 2], u64, [(i64, i64); 2]);

/// Watches files for changes from their last known state.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Vec<PathBuf>,
    /// The files' stamps before the last read.
    read: Vec<Option<Stamp>>,
    /// The files' stamps at the last check.
    seen: Vec<Option<Stamp>>,
}

impl Watch {
    /// Begins watching. The caller must read the files for the first time after this call.
    pub(crate) fn begin(files: Vec<PathBuf>) -> Self {
        let read = stamps(&files);
        Self { files, seen: read.clone(), read }
    }

    /// Calls `read_again` when `asked` is notified, and when a file has changed and all files have
    /// then remained unchanged for an interval.
    pub(crate) async fn run(
        mut self,
        asked: Arc<Notify>,
        mut read_again: impl FnMut() + Send + 'static,
    ) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_asked = tokio::select! {
                () = asked.notified() => true,
                _ = interval.tick() => false,
            };
            // The file system may be slow.
            let looking = tokio::task::spawn_blocking(move || {
                if self.look(is_asked) {
                    read_again();
                }
                (self, read_again)
            });
            match looking.await {
                Ok(looked) => (self, read_again) = looked,
                // The program is about to end.
                Err(_) => return,
            }
        }
    }

    /// Checks the files. Returns true if they must be read again, because `is_asked` is set, or
    /// because a file has changed since the last read and none has changed since the last check.
    /// Related files are not written simultaneously.
    fn look(&mut self, is_asked: bool) -> bool {
        let now = stamps(&self.files);
        let is_new = is_asked || (now != self.read && now == self.seen);
        if is_new {
            self.read.clone_from(&now);
        }
        self.seen = now;
        is_new
    }
}

/// Returns the identity, size and times of each file; `None` for a missing file.
fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    let times = [system::modified(&data), system::inode_changed(&data)];
    Ok(Stamp(system::identity(&data), data.len(), times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_when_it_is_over() {
        let path = std::env::temp_dir().join(format!("clearway-watch-{}", std::process::id()));
        std::fs::write(&path, "1").unwrap();
        let mut watch = Watch::begin(vec![path.clone()]);
        assert!(!watch.look(false));
        std::fs::write(&path, "12").unwrap();
        assert!(!watch.look(false), "the file may be incomplete");
        std::fs::write(&path, "123").unwrap();
        assert!(!watch.look(false), "the file has changed again");
        assert!(watch.look(false));
        assert!(!watch.look(false), "the file has already been read");
        assert!(watch.look(true), "a reload was requested");
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.look(false));
        assert!(watch.look(false), "a missing file is a change, too");
        assert!(!watch.look(false));
    }
}
