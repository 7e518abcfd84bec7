//! Which file a request's path means, and which part of it is wanted.

use std::io::{ErrorKind, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use tokio::fs::File;
use tokio::io::AsyncSeekExt;

/// The folder whose files are served.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Without links and dots.
    root: PathBuf,
}

/// What a path means.
#[derive(Debug)]
pub(super) enum Found {
    /// A file.
    File {
        /// Open for reading.
        file: File,
        /// Its path, for its type.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
    },
    /// A folder, whose path ends with a slash.
    Folder,
    /// Nothing, or nothing that may be seen.
    Nothing,
}

impl Files {
    /// The files of the folder `root`.
    pub(super) fn new(root: &Path) -> std::io::Result<Self> {
        let root = root.canonicalize()?;
        match root.is_dir() {
            true => Ok(Self { root }),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// What `path` means, the path of a request, without the query.
    pub(super) async fn find(&self, path: &str) -> Found {
        let Some(relative) = relative(path) else { return Found::Nothing };
        let Ok(mut real) = tokio::fs::canonicalize(self.root.join(relative)).await else {
            return Found::Nothing;
        };
        // A link may lead out of the folder.
        if !real.starts_with(&self.root) {
            return Found::Nothing;
        }
        if real.is_dir() {
            if !path.ends_with('/') {
                return Found::Folder;
            }
            match tokio::fs::canonicalize(real.join("index.html")).await {
                Ok(index) if index.starts_with(&self.root) => real = index,
                _ => return Found::Nothing,
            }
        }
        self.open(real).await.unwrap_or(Found::Nothing)
    }

    async fn open(&self, path: PathBuf) -> std::io::Result<Found> {
        // What is no regular file may block, or never end.
        if !tokio::fs::metadata(&path).await?.is_file() {
            return Ok(Found::Nothing);
        }
        let file = File::open(&path).await?;
        let length = file.metadata().await?.len();
        Ok(Found::File { file, path, length })
    }
}

/// The path below the root that the path of a request means; `None` if it would lead out of it, or
/// cannot be a path.
fn relative(path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let mut relative = PathBuf::new();
    for part in decoded.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part if part.contains(['\0', '\\']) => return None,
            part => relative.push(part),
        }
    }
    Some(relative)
}

/// The part of a file that a Range field asks for (RFC 9110 §14.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All of it: no range is asked for, or in a way that may be ignored.
    Whole,
    /// These bytes.
    Some(Range<u64>),
    /// Nothing that the file has.
    Unsatisfiable,
}

/// The part of a file of `length` bytes that the field `range` asks for.
pub(super) fn part(range: Option<&str>, length: u64) -> Part {
    let Some(bytes) = range.and_then(|range| range.strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((first, last)) = bytes.split_once('-') else { return Part::Whole };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => within(first..last.saturating_add(1).min(length)),
        (Ok(first), Err(_)) if last.trim().is_empty() => within(first..length),
        (Err(_), Ok(suffix)) if first.trim().is_empty() => {
            within(length.saturating_sub(suffix)..length)
        }
        // Several ranges, or none that can be understood.
        _ => Part::Whole,
    }
}

fn within(range: Range<u64>) -> Part {
    match range.is_empty() {
        true => Part::Unsatisfiable,
        false => Part::Some(range),
    }
}

/// Moves to where a part begins.
pub(super) async fn seek(file: &mut File, start: u64) -> std::io::Result<()> {
    if start > 0 {
        file.seek(SeekFrom::Start(start)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
