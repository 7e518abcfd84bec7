//! Reads the kernel's files, with size limits, and with the reason for failures.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::snapshot::{Missing, Reading};

/// Maximum size to read from one file. The largest one, the list of sockets, has 128 bytes per
/// socket.
const MAX_FILE: u64 = 32 << 20;
/// Size of one read call, enough for most files.
const CHUNK: usize = 1 << 14;
/// Maximum length of quoted malformed text.
const MAX_QUOTED: usize = 80;

/// The location of the kernel's files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    proc: PathBuf,
}

impl Files {
    /// Returns the files of this system.
    pub(super) fn of_system() -> Self {
        Self { proc: "/proc".into() }
    }

    /// Returns the files below another directory, which contains `proc`.
    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Self {
        Self { proc: root.join("proc") }
    }

    /// Returns the path of a file in `/proc`.
    pub(super) fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.proc.join(path)
    }

    /// Returns the path of a file of this thread's network namespace. `/proc/net` would show the
    /// namespace of the process's first thread.
    pub(super) fn net(&self, name: &str) -> PathBuf {
        self.proc.join("thread-self/net").join(name)
    }
}

/// Reads a file. It may contain names of processes and threads, which need not be UTF-8.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?.take(MAX_FILE);
    // The kernel generates only a part of such a file per read call, and does not report its size.
    let mut bytes = Vec::new();
    let mut chunk = [0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            len => bytes.extend(chunk.get(..len).unwrap_or_default()),
        }
    }
}

/// Reads a file and parses it with `parse`.
pub(super) fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Malformed>,
) -> Reading<T> {
    match read(path) {
        Ok(text) => parse(&text).map_or_else(Reading::from, Reading::Seen),
        Err(error) => Reading::Missing(missing(path, &error)),
    }
}

/// Reads a file with a single number.
pub(super) fn number(path: &Path) -> Reading<u64> {
    parsed(path, |text| text.trim().parse().map_err(|_| Malformed::of(text)))
}

/// Returns the reason that a file could not be read.
pub(super) fn missing(path: &Path, error: &io::Error) -> Missing {
    match error.kind() {
        // If the directory exists without the file, the kernel lacks it. If the directory is
        // missing, all of its files are hidden.
        ErrorKind::NotFound => {
            match path.parent().is_some_and(|folder| fs::exists(folder).unwrap_or(false)) {
                true => Missing::Kernel,
                false => Missing::Namespace,
            }
        }
        ErrorKind::PermissionDenied => Missing::Right(format!("to read {}", path.display())),
        ErrorKind::Unsupported => Missing::Kernel,
        _ => Missing::Failed(format!("{}: {error}", path.display())),
    }
}

/// Text that could not be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Malformed(String);

impl Malformed {
    /// Quotes the beginning of a malformed text.
    pub(super) fn of(text: &str) -> Self {
        Self(text.chars().take(MAX_QUOTED).map(printable).collect())
    }

    /// Describes data that is not text.
    pub(super) fn because(what: &str) -> Self {
        Self(what.to_owned())
    }
}

fn printable(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

impl From<Malformed> for Missing {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

impl<T> From<Malformed> for Reading<T> {
    fn from(malformed: Malformed) -> Self {
        Self::Missing(malformed.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_a_missing_file_is_told() {
        let root = std::env::temp_dir();
        let absent = root.join("clearway-doctor-absent");
        let error = read(&absent).unwrap_err();
        assert_eq!(missing(&absent, &error), Missing::Kernel);
        let hidden = absent.join("snmp");
        let error = read(&hidden).unwrap_err();
        assert_eq!(missing(&hidden, &error), Missing::Namespace);
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert!(
            matches!(missing(&absent, &denied), Missing::Right(right) if right.contains("absent"))
        );
        // A directory can be opened, but not read.
        let error = read(&root).unwrap_err();
        assert!(matches!(missing(&root, &error), Missing::Failed(_)));
    }

    #[test]
    fn what_was_not_understood_is_quoted_shortly() {
        let malformed = Malformed::of(&"a\nb".repeat(100));
        assert_eq!(malformed.0.len(), MAX_QUOTED);
        assert!(malformed.0.starts_with("a ba b"));
    }
}
