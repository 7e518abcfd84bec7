//! Files that are read again when they have changed.
//!
//! The files are looked at every second. Being told of changes (inotify) would be no better here: such files are often
//! reached through symbolic links that are exchanged as a whole, or lie on network file systems, where nothing is told;
//! and a second is soon enough for what changes every few weeks.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the files are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// What shows that a file has changed: file system, inode, size, and the times of the last change of content and inode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp(u64, u64, u64, [i64; 4]);

/// Files, and what was seen of them. A file that is missing has no stamp.
#[derive(Debug)]
pub(crate) struct Watched {
    files: Vec<PathBuf>,
    /// Before they were read last.
    read: Vec<Option<Stamp>>,
    /// When they were looked at last.
    seen: Vec<Option<Stamp>>,
}

impl Watched {
    /// The files, which are read for the first time after this.
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        let read = stamps(&files);
        Self { files, seen: read.clone(), read }
    }

    /// Looks at the files: whether to read them again. That is so if it `is_asked` for, and when one has changed since they
    /// were read and has stayed the same since the last look: several files, or a long one, are not written in one moment.
    pub(crate) fn look(&mut self, is_asked: bool) -> bool {
        let now = stamps(&self.files);
        let is_new = is_asked || (now != self.read && now == self.seen);
        if is_new {
            self.read.clone_from(&now);
        }
        self.seen = now;
        is_new
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
    Ok(Stamp(data.dev(), data.ino(), data.size(), times))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Watched;

    #[test]
    fn a_change_counts_when_it_is_over() {
        let path = std::env::temp_dir().join(format!("clearway-watched-{}", std::process::id()));
        fs::write(&path, "1").unwrap();
        let mut watched = Watched::new(vec![path.clone()]);
        assert!(!watched.look(false));
        fs::write(&path, "12").unwrap();
        assert!(!watched.look(false), "it may not be complete");
        fs::write(&path, "123").unwrap();
        assert!(!watched.look(false), "it was not");
        assert!(watched.look(false));
        assert!(!watched.look(false), "it was read");
        assert!(watched.look(true), "someone asks");
        fs::remove_file(&path).unwrap();
        assert!(!watched.look(false));
        assert!(watched.look(false), "that it is missing is a change, too");
        assert!(!watched.look(false));
    }
}
