//! The qlog files of this program's connections, which a thread writes, and what is said of them at the end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clearway_qlog::{QlogDirectory, QlogSummary, TraceOptions, WritingThread};

use crate::failure::Failure;
use crate::output;

/// How long the program waits for the disk at its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who has something to write.
enum Writing {
    Directory(QlogDirectory),
    Thread(WritingThread),
}

static WRITING: Mutex<Vec<Writing>> = Mutex::new(Vec::new());

fn register(writing: Writing) {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner).push(writing);
}

/// A folder of qlog files, which [`finish`] completes. What is wrong with it is said once.
///
/// # Errors
///
/// If no file can be made in it.
pub(crate) fn directory(path: PathBuf, options: TraceOptions) -> Result<QlogDirectory, Failure> {
    let directory = QlogDirectory::new(path, options)
        .map_err(|error| Failure::new(error.to_string()).advise("name another with --qlog"))?
        .with_error_handler(Arc::new(|error| output::status(&format!("clearway: {error}"))));
    register(Writing::Directory(directory.clone()));
    Ok(directory)
}

/// A thread for qlog files, which [`finish`] completes.
///
/// # Errors
///
/// If the system has no thread to give.
pub(crate) fn thread() -> Result<WritingThread, Failure> {
    let thread = WritingThread::start()
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    register(Writing::Thread(thread.clone()));
    Ok(thread)
}

/// Waits until all files are written, for no longer than a few seconds, and says what is missing. All connections
/// are gone.
pub(crate) fn finish() {
    let all = std::mem::take(&mut *WRITING.lock().unwrap_or_else(PoisonError::into_inner));
    for writing in all {
        let summary = match writing {
            Writing::Directory(directory) => directory.finish(PATIENCE),
            Writing::Thread(thread) => {
                QlogSummary { disk: thread.finish(PATIENCE), ..QlogSummary::default() }
            }
        };
        for line in shortfalls(&summary) {
            output::status(&format!("clearway: {line}"));
        }
    }
}

/// What is not in the files, a line each.
fn shortfalls(summary: &QlogSummary) -> Vec<String> {
    let QlogSummary { disk, failed_handshakes, unopened } = summary;
    let mut lines = Vec::new();
    if !disk.is_complete {
        lines.push(format!(
            "qlog files are not complete: the disk did not take {} bytes within {PATIENCE:?}",
            disk.waiting_bytes
        ));
    }
    if disk.records_dropped > 0 {
        let count = disk.records_dropped;
        lines.push(format!(
            "{count} records are missing in qlog files, which say where: the disk did not keep up"
        ));
    }
    if disk.logs_dropped > 0 {
        let count = disk.logs_dropped;
        lines.push(format!("{count} connections have no qlog file: the disk did not keep up"));
    }
    if *failed_handshakes > 0 {
        lines.push(format!(
            "{failed_handshakes} handshakes that failed have no qlog file: others that failed have one"
        ));
    }
    if *unopened > 0 {
        lines.push(format!(
            "{unopened} connections have no qlog file: none of their first packets could be opened"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use clearway_qlog::Finished;

    use super::*;

    #[test]
    fn only_what_is_missing_is_said() {
        let disk = Finished { is_complete: true, ..Finished::default() };
        let complete = QlogSummary { disk, ..QlogSummary::default() };
        assert_eq!(shortfalls(&complete), [""; 0]);
        let disk =
            Finished { is_complete: false, waiting_bytes: 7, records_dropped: 8, logs_dropped: 9 };
        let lines = shortfalls(&QlogSummary { disk, failed_handshakes: 10, unopened: 11 });
        let counts = ["7 bytes", "8 records", "9 connections", "10 handshakes", "11 connections"];
        assert_eq!(lines.len(), counts.len());
        for (line, count) in lines.iter().zip(counts) {
            assert!(line.contains(count), "{line}");
        }
    }
}
