//! Finds the file for a request's path.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::identity::Identity;
use super::place::{self, Place};
use super::store::{Kept, Reader, Store};
use crate::system::{self, Kind};

/// All characters except the unreserved ones of a URL (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The only name with a leading dot that is served by default (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// The directory whose files are served.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The absolute path of the directory. Symbolic links in it are followed for each request.
    root: PathBuf,
    /// Whether names with a leading dot are served like all others.
    serves_hidden: bool,
    pub(super) store: Store,
}

/// The result of looking up a path.
#[derive(Debug)]
pub(super) enum Found {
    /// A file, open for reading.
    File(FileFound),
    /// A directory, requested without a trailing slash; holds the path with the slash, encoded for
    /// a URL.
    Folder(String),
    /// The path does not exist, or is not served.
    Nothing,
    /// A file or directory that this user may not read.
    Forbidden(io::Error),
    /// The machine currently lacks a file descriptor or memory.
    Busy(io::Error),
    /// A file or directory that cannot be read.
    Failed(io::Error),
}

/// The result of a path lookup, before a file is opened.
enum Located {
    File(Place),
    /// A directory whose path does not end with a slash.
    Folder,
    Nothing,
}

/// A file, open for reading.
#[derive(Debug)]
pub(super) struct FileFound {
    pub(super) kept: Kept,
    pub(super) identity: Identity,
    pub(super) media_type: String,
}

impl FileFound {
    /// Reads the content from `start` to `end`.
    pub(super) fn read(self, client: SocketAddr, store: &Store, start: u64, end: u64) -> Reader {
        Reader::new(self.kept, store.share(client), self.identity, start, end)
    }
}

impl Files {
    /// Returns the files of the directory `root`. Names with a leading dot are served only if
    /// `serves_hidden`.
    pub(super) fn new(root: &Path, serves_hidden: bool, store: Store) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        match root.metadata()?.is_dir() {
            true => Ok(Self { root, serves_hidden, store }),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Looks up the path of a request, without its query, for the client at this address.
    pub(super) async fn find(&self, client: SocketAddr, path: &str) -> Found {
        let Some(wanted) = Wanted::parse(path) else { return Found::Nothing };
        let mut patience = self.store.patience();
        let looked = loop {
            match self.look_up(client, &wanted).await {
                Err(error) if patience.permits(&error).await => {}
                looked => break looked,
            }
        };
        match looked {
            Ok(found) => found,
            Err(error) => match error.kind() {
                _ if system::is_shortage(&error) => Found::Busy(error),
                ErrorKind::PermissionDenied => Found::Forbidden(error),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                    Found::Nothing
                }
                _ => Found::Failed(error),
            },
        }
    }

    async fn look_up(&self, client: SocketAddr, wanted: &Wanted) -> io::Result<Found> {
        if !self.may_serve(&wanted.relative) {
            return Ok(Found::Nothing);
        }
        let (files, path, is_folder) = (self.clone(), wanted.relative.clone(), wanted.is_folder);
        let locating = self.store.in_background(move || files.locate(&path, is_folder));
        let place = match locating.await? {
            Located::File(place) => place,
            Located::Folder => return Ok(Found::Folder(wanted.folder_url())),
            Located::Nothing => return Ok(Found::Nothing),
        };
        let name = place.names().to_owned();
        let look = move |file: &File| {
            let metadata = file.metadata()?;
            let media_type = media_type(&name, file)?;
            Ok(metadata.is_file().then(|| (Identity::of(&metadata), media_type)))
        };
        let (looked, kept) = self.store.inspect(client, place, look).await?;
        let Some((identity, media_type)) = looked else { return Ok(Found::Nothing) };
        Ok(Found::File(FileFound { kept, identity, media_type }))
    }

    /// Locates the file that `path` leads to, and retries once if files are replaced in the
    /// meantime.
    fn locate(&self, path: &Path, is_folder: bool) -> io::Result<Located> {
        match self.locate_once(path, is_folder) {
            Err(error) if place::has_changed(&error) => self.locate_once(path, is_folder),
            located => located,
        }
    }

    /// The root is looked up for each request: it may be a symbolic link that is switched to
    /// another release.
    fn locate_once(&self, path: &Path, is_folder: bool) -> io::Result<Located> {
        let find = |path: &Path| {
            let found = self.store.with_room(|| Place::find(&self.root, path))?;
            // A symbolic link may lead to a hidden file.
            Ok::<_, io::Error>(found.filter(|place| self.may_serve(place.names())))
        };
        let kind = |place: &Place| self.store.with_room(|| place.kind());
        let Some(mut place) = find(path)? else { return Ok(Located::Nothing) };
        let mut found = kind(&place)?;
        if found == Kind::Folder {
            if !is_folder {
                return Ok(Located::Folder);
            }
            place = match find(&path.join("index.html"))? {
                Some(index) => index,
                None => return Ok(Located::Nothing),
            };
            found = kind(&place)?;
        } else if is_folder {
            return Ok(Located::Nothing);
        }
        // Reading from anything but a regular file may block, or never end.
        Ok(if found == Kind::File { Located::File(place) } else { Located::Nothing })
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

/// Returns the media type of a file, by its name, and by its content if the name is ambiguous.
fn media_type(path: &Path, file: &File) -> io::Result<String> {
    let guessed = mime_guess::from_path(path).first_or_octet_stream();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let media_type = match extension.to_ascii_lowercase().as_str() {
        // TypeScript source, or an MPEG transport stream, which consists of packets of 188 bytes (ISO 13818-1).
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
    let count = system::read_at(file, &mut beginning, 0)?;
    Ok(count == beginning.len()
        && beginning.first() == Some(&0x47)
        && beginning.last() == Some(&0x47))
}

/// The path of a request, parsed.
#[derive(PartialEq, Eq, Debug)]
struct Wanted {
    /// The path relative to the root.
    relative: PathBuf,
    /// Whether the path ends like that of a directory, with a slash or a dot.
    is_folder: bool,
}

impl Wanted {
    /// Parses a path. Returns `None` if it leads out of the directory or is invalid.
    fn parse(path: &str) -> Option<Self> {
        let decoded = percent_decode_str(path).decode_utf8().ok()?;
        let mut wanted = Self { relative: PathBuf::new(), is_folder: true };
        for part in decoded.strip_prefix('/')?.split('/') {
            wanted.is_folder = matches!(part, "" | ".");
            match part {
                "" | "." => {}
                ".." => return None,
                part if !system::is_name(part) => return None,
                part => wanted.relative.push(part),
            }
        }
        Some(wanted)
    }

    /// Returns the path of the directory, rebuilt from its names: it begins with a single slash
    /// followed by a name, so that it cannot be mistaken for another server's name (RFC 3986 §4.2).
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

#[cfg(test)]
#[path = "paths_tests.rs"]
mod paths_tests;
