//! Identities of files and their versions.

use std::fs::{File, Metadata};
use std::io;
use std::time::{Duration, SystemTime};

use crate::system;

/// Minimum age of a change that is guaranteed to have a different modification time than any later
/// change.
const DISTINCT: Duration = Duration::from_secs(1);

/// The identity of a file, and of its current version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// Identifies the file, as far as the system can tell files apart.
    file: [u64; 2],
    /// The length in bytes.
    pub(super) length: u64,
    /// The modification time: seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            file: system::identity(metadata),
            length: metadata.len(),
            changed: system::modified(metadata),
        }
    }

    /// Returns `file` if it still has this identity.
    ///
    /// # Errors
    ///
    /// Returns an error if `file` is another file or another version.
    pub(super) fn check(self, file: File) -> io::Result<File> {
        match Self::of(&file.metadata()?) == self {
            true => Ok(file),
            false => Err(io::Error::other("the file was changed while it was being sent")),
        }
    }

    /// Returns the entity tag (RFC 9110 §8.8.3) at the time `now`, derived from length and
    /// modification time, so that servers with copies of a file agree. The tag is weak while
    /// another change could get the same modification time as the last one.
    pub(super) fn entity_tag(&self, now: SystemTime) -> String {
        let Self { length, changed: (seconds, nanoseconds), .. } = self;
        let age = self.modified().and_then(|modified| now.duration_since(modified).ok());
        let weak = if age.is_some_and(|age| age >= DISTINCT) { "" } else { "W/" };
        format!("{weak}\"{length:x}-{seconds:x}.{nanoseconds:x}\"")
    }

    /// Returns the modification time; `None` if it is before 1970.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.changed;
        let since = Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recently_modified_file_has_a_weak_tag() {
        let identity = Identity { file: [1, 2], length: 3, changed: (1000, 5) };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(identity.entity_tag(at(2000)), "\"3-3e8.5\"");
        assert_eq!(identity.entity_tag(at(1001)), "W/\"3-3e8.5\"");
        assert_eq!(identity.entity_tag(at(0)), "W/\"3-3e8.5\"");
        let second = at(1001) + Duration::from_nanos(5);
        assert_eq!(identity.entity_tag(second), "\"3-3e8.5\"");
        let before_1970 = Identity { changed: (-1, 0), ..identity };
        assert_eq!(before_1970.modified(), None);
        assert_eq!(before_1970.entity_tag(at(2000)), "W/\"3-ffffffffffffffff.0\"");
    }
}
