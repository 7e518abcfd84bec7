//! Snapshots in a file: one JSON object per line.

use std::error::Error;
use std::fmt;

use crate::Snapshot;

/// A saved file is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub struct SavedError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The column in the line, counted from 1.
    pub column: usize,
    is_cut_off: bool,
    source: serde_json::Error,
}

impl fmt::Display for SavedError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, is_cut_off, .. } = self;
        let kind = if *is_cut_off { "the file is truncated" } else { "not a snapshot" };
        write!(formatter, "line {line}, column {column}: {kind}")
    }
}

impl Error for SavedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Encodes a snapshot as a line of a file, including the line feed.
///
/// # Errors
///
/// Never fails at present; returns the encoder's errors if that changes.
pub fn encode(snapshot: &Snapshot) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(snapshot)?;
    line.push('\n');
    Ok(line)
}

/// Decodes the snapshots in a file, which need not be trusted. The caller must limit the size of
/// the file; the decoded data takes a small multiple of it.
///
/// # Errors
///
/// Returns the position of the invalid part. A file whose last line is truncated is rejected as
/// well.
pub fn decode(file: &[u8]) -> Result<Vec<Snapshot>, SavedError> {
    let mut snapshots = Vec::new();
    for (index, line) in file.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let snapshot = serde_json::from_slice(line).map_err(|source| SavedError {
            line: index.saturating_add(1),
            column: source.column(),
            is_cut_off: source.is_eof() || (source.is_syntax() && source.column() >= line.len()),
            source,
        })?;
        snapshots.push(snapshot);
    }
    Ok(snapshots)
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
