//! The qlog files of this program's connections, which are written by a separate thread, and the
//! final messages about incomplete files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clearway::qlog::{QlogDirectory, QlogError, QlogSummary, TraceOptions, WritingThread};

use crate::events::{Event, note};
use crate::failure::Failure;
use crate::output;

/// Maximum time that the program waits at exit for the files to be written.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A qlog writer that must be completed before the program exits.
enum Writing {
    Directory(QlogDirectory),
    Thread(WritingThread),
}

static WRITING: Mutex<Vec<Writing>> = Mutex::new(Vec::new());

fn register(writing: Writing) {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner).push(writing);
}

/// Opens a directory for qlog files with a total size of at most `maximum_bytes`; [`finish`]
/// completes the files. A write error is printed once.
///
/// # Errors
///
/// Returns an error if no file can be created in the directory.
pub(crate) fn directory(
    path: PathBuf,
    options: TraceOptions,
    maximum_bytes: u64,
) -> Result<QlogDirectory, Failure> {
    let directory = QlogDirectory::new(path, options)
        .map_err(|error| {
            Failure::new(error.to_string()).advise("choose another folder with --qlog")
        })?
        .with_maximum_bytes(maximum_bytes)
        .with_error_handler(Arc::new(report));
    register(Writing::Directory(directory.clone()));
    Ok(directory)
}

fn report(error: &QlogError) {
    let event = match error {
        QlogError::Limit { .. }
        | QlogError::FilesRemoved { .. }
        | QlogError::FolderFull { .. }
        | QlogError::FailedHandshakes => Event::QlogLimitReached,
        _ => Event::QlogFailed,
    };
    note(event, &format!("clearway: {error}"));
}

/// Starts a thread that writes qlog files; [`finish`] completes the files.
///
/// # Errors
///
/// Returns an error if the system cannot start a thread.
pub(crate) fn thread() -> Result<WritingThread, Failure> {
    let thread = WritingThread::start()
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    register(Writing::Thread(thread.clone()));
    Ok(thread)
}

/// Waits until all files are written, for at most a few seconds, and prints which parts are
/// missing. Must be called after all connections have ended.
pub(crate) fn finish() {
    let all = std::mem::take(&mut *WRITING.lock().unwrap_or_else(PoisonError::into_inner));
    for writing in all {
        let summary = match writing {
            Writing::Directory(directory) => directory.finish(TIMEOUT),
            Writing::Thread(thread) => {
                QlogSummary { disk: thread.finish(TIMEOUT), ..QlogSummary::default() }
            }
        };
        for line in shortfalls(&summary) {
            output::status(&format!("clearway: {line}"));
        }
    }
}

/// Describes which parts of the files are missing, with one line per reason.
fn shortfalls(summary: &QlogSummary) -> Vec<String> {
    let QlogSummary { disk, failed_handshakes, unopened, removed } = summary;
    let mut lines = Vec::new();
    if !disk.is_complete {
        lines.push(format!(
            "qlog files are incomplete: {} bytes were not written to disk within {TIMEOUT:?}",
            disk.waiting_bytes
        ));
    }
    if disk.records_dropped > 0 {
        let count = disk.records_dropped;
        lines.push(format!(
            "{count} records are missing from qlog files (gaps are marked): the disk is too slow"
        ));
    }
    if disk.logs_dropped > 0 {
        let count = disk.logs_dropped;
        lines.push(format!("{count} connections have no qlog file: the disk is too slow"));
    }
    if *failed_handshakes > 0 {
        lines.push(format!(
            "{failed_handshakes} failed handshakes have no qlog file: there were too many of them"
        ));
    }
    if *unopened > 0 {
        lines.push(format!(
            "{unopened} connections have no qlog file: none of their first packets could be decrypted"
        ));
    }
    if *removed > 0 {
        lines.push(format!(
            "{removed} qlog files were removed: the total size had reached --qlog-max-total"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use clearway::qlog::Finished;

    use super::*;

    #[test]
    fn only_missing_data_is_reported() {
        let disk = Finished { is_complete: true, ..Finished::default() };
        let complete = QlogSummary { disk, ..QlogSummary::default() };
        assert_eq!(shortfalls(&complete), [""; 0]);
        let disk =
            Finished { is_complete: false, waiting_bytes: 7, records_dropped: 8, logs_dropped: 9 };
        let lines =
            shortfalls(&QlogSummary { disk, failed_handshakes: 10, unopened: 11, removed: 12 });
        let counts = [
            "7 bytes",
            "8 records",
            "9 connections",
            "10 failed handshakes",
            "11 connections",
            "12 qlog",
        ];
        assert_eq!(lines.len(), counts.len());
        for (line, count) in lines.iter().zip(counts) {
            assert!(line.contains(count), "{line}");
        }
    }
}
