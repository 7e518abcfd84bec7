//! Which file a request's path means.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::store::{Kept, Reader, Store};

/// What is not unreserved in a URL (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Names that begin with a dot are not served, except for this (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// How old a change must be before another one surely has another time.
const DISTINCT: Duration = Duration::from_secs(1);

/// The folder whose files are served.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Without links and dots.
    root: PathBuf,
    /// Names that begin with a dot are served like others.
    serves_hidden: bool,
    pub(super) store: Store,
}

/// What a path means.
#[derive(Debug)]
pub(super) enum Found {
    /// A file, open for reading.
    File(FileFound),
    /// A folder whose path has no slash at its end; with it, this is its path, encoded for a URL.
    Folder(String),
    /// Nothing, or nothing that may be seen.
    Nothing,
    /// Something that this user may not read.
    Forbidden(io::Error),
    /// The machine has no descriptor or no memory for it at the moment.
    Busy(io::Error),
    /// Something that cannot be read.
    Failed(io::Error),
}

/// A file, open for reading.
#[derive(Debug)]
pub(super) struct FileFound {
    pub(super) kept: Kept,
    pub(super) identity: Identity,
    pub(super) media_type: String,
}

/// Which file it is, and which version of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// In bytes.
    pub(super) length: u64,
    /// Seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// `file`, if it is this one.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub(super) fn check(self, file: File) -> io::Result<File> {
        match Self::of(&file.metadata()?) == self {
            true => Ok(file),
            false => Err(io::Error::other("the file was changed while it was being sent")),
        }
    }

    /// Its entity tag (RFC 9110 §8.8.3) at this time. It is weak while another change might not be told from the last.
    pub(super) fn entity_tag(&self, now: SystemTime) -> String {
        let Self { inode, length, changed: (seconds, nanoseconds), .. } = self;
        let age = self.modified().and_then(|modified| now.duration_since(modified).ok());
        let weak = if age.is_some_and(|age| age >= DISTINCT) { "" } else { "W/" };
        format!("{weak}\"{inode:x}-{length:x}-{seconds:x}.{nanoseconds:x}\"")
    }

    /// When it was changed last; `None` before 1970.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.changed;
        let since = Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

impl FileFound {
    /// Its content from `start` to `end`.
    pub(super) fn read(self, client: SocketAddr, store: &Store, start: u64, end: u64) -> Reader {
        Reader::new(self.kept, store.share(client), self.identity, start, end)
    }
}

impl Files {
    /// The files of the folder `root`. Names that begin with a dot are served only if `serves_hidden`.
    pub(super) fn new(root: &Path, serves_hidden: bool, store: Store) -> io::Result<Self> {
        let root = root.canonicalize()?;
        match root.is_dir() {
            true => Ok(Self { root, serves_hidden, store }),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// What `path` means, the path of a request, without the query, to the client at this address.
    pub(super) async fn find(&self, client: SocketAddr, path: &str) -> Found {
        let Some(wanted) = Wanted::parse(path) else { return Found::Nothing };
        match self.look_up(client, &wanted).await {
            Ok(found) => found,
            Err(error) => match error.kind() {
                _ if super::store::is_shortage(&error) => Found::Busy(error),
                ErrorKind::PermissionDenied => Found::Forbidden(error),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                    Found::Nothing
                }
                _ => Found::Failed(error),
            },
        }
    }

    async fn look_up(&self, client: SocketAddr, wanted: &Wanted) -> io::Result<Found> {
        let mut real = tokio::fs::canonicalize(self.root.join(&wanted.relative)).await?;
        if !self.may_serve(&wanted.relative) || !self.is_inside(&real) {
            return Ok(Found::Nothing);
        }
        let mut metadata = tokio::fs::metadata(&real).await?;
        if metadata.is_dir() {
            if !wanted.is_folder {
                return Ok(Found::Folder(wanted.folder_url()));
            }
            real = tokio::fs::canonicalize(real.join("index.html")).await?;
            if !self.is_inside(&real) {
                return Ok(Found::Nothing);
            }
            metadata = tokio::fs::metadata(&real).await?;
        } else if wanted.is_folder {
            return Ok(Found::Nothing);
        }
        // What is no regular file may block, or never end.
        if !metadata.is_file() {
            return Ok(Found::Nothing);
        }
        let path = real.clone();
        let look = move |file: &File| {
            let metadata = file.metadata()?;
            let media_type = media_type(&path, file)?;
            Ok(metadata.is_file().then(|| (Identity::of(&metadata), media_type)))
        };
        let (looked, kept) = self.store.inspect(client, real, look).await?;
        let Some((identity, media_type)) = looked else { return Ok(Found::Nothing) };
        Ok(Found::File(FileFound { kept, identity, media_type }))
    }

    /// A link may lead out of the folder, or to what is hidden.
    fn is_inside(&self, real: &Path) -> bool {
        real.strip_prefix(&self.root).is_ok_and(|relative| self.may_serve(relative))
    }

    fn may_serve(&self, relative: &Path) -> bool {
        let mut names = relative.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let is_visible = |(number, name): (usize, &std::ffi::OsStr)| {
            !name.as_encoded_bytes().starts_with(b".") || (number == 0 && name == WELL_KNOWN)
        };
        self.serves_hidden || names.by_ref().enumerate().all(is_visible)
    }
}

/// The type of a file's content, by its name.
fn media_type(path: &Path, file: &File) -> io::Result<String> {
    let guessed = mime_guess::from_path(path).first_or_octet_stream();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let media_type = match extension.to_ascii_lowercase().as_str() {
        // A program in TypeScript, or packets of an MPEG transport stream, of 188 bytes each (ISO 13818-1).
        "ts" | "mts" => match is_transport_stream(file)? {
            true => "video/mp2t",
            false => "text/plain",
        },
        "cts" | "tsx" => "text/plain",
        _ => guessed.essence_str(),
    };
    Ok(match media_type.starts_with("text/") {
        true => format!("{media_type}; charset=utf-8"),
        false => media_type.to_owned(),
    })
}

fn is_transport_stream(file: &File) -> io::Result<bool> {
    let mut beginning = [0; 189];
    let count = file.read_at(&mut beginning, 0)?;
    Ok(count == beginning.len()
        && beginning.first() == Some(&0x47)
        && beginning.last() == Some(&0x47))
}

/// What the path of a request asks for.
#[derive(PartialEq, Eq, Debug)]
struct Wanted {
    /// Below the root.
    relative: PathBuf,
    /// It ends as the path of a folder does.
    is_folder: bool,
}

impl Wanted {
    /// Understands a path; `None` if it would lead out of the folder, or cannot be a path.
    fn parse(path: &str) -> Option<Self> {
        let decoded = percent_decode_str(path).decode_utf8().ok()?;
        let mut wanted = Self { relative: PathBuf::new(), is_folder: true };
        for part in decoded.strip_prefix('/')?.split('/') {
            wanted.is_folder = matches!(part, "" | ".");
            match part {
                "" | "." => {}
                ".." => return None,
                part if part.contains(['\0', '\\']) => return None,
                part => wanted.relative.push(part),
            }
        }
        Some(wanted)
    }

    /// The path of the folder, made anew from its names: it begins with one slash, and has a name after it, so that it
    /// never names another server (RFC 3986 §4.2).
    fn folder_url(&self) -> String {
        let mut url = String::from("/");
        for name in self.relative.components() {
            let name = name.as_os_str().to_string_lossy();
            url.extend(utf8_percent_encode(&name, RESERVED));
            url.push('/');
        }
        url
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
