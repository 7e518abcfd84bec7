use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::Timestamp;

use super::destination::Destination;
use super::folder::Folder;
use super::json::Object;
use super::writing_thread::Handed;
use super::{QlogError, TraceOptions};

/// The byte that begins each record (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;
/// The size at which buffered records are passed on, in bytes.
const FLUSH_SIZE: usize = 32 << 10;

/// Records that are being passed on to a file. Only complete records are passed on, so that a log
/// whose process died can be read to its end. If records had to be dropped, the log says so at that
/// point.
pub(super) struct Records {
    destination: Destination,
    waiting: Vec<u8>,
    /// The number of buffered records.
    waiting_records: u64,
    /// Number of dropped records that the log does not mention yet.
    dropped: u64,
    /// Number of bytes that were passed on.
    written: u64,
    maximum_bytes: u64,
    /// The folder of the log's file, if it has one.
    folder: Option<Arc<Folder>>,
    flush_interval: Duration,
    flushed_at: Timestamp,
    /// The reason why no more records are written.
    failure: Option<QlogError>,
    /// Whether writing has stopped and the reason has been reported.
    has_ended: bool,
}

impl Records {
    pub(super) fn new(destination: Destination, options: &TraceOptions, now: Timestamp) -> Self {
        Self {
            destination,
            waiting: Vec::new(),
            waiting_records: 0,
            dropped: 0,
            written: 0,
            maximum_bytes: options.maximum_bytes,
            folder: None,
            flush_interval: options.flush_interval,
            flushed_at: now,
            failure: None,
            has_ended: false,
        }
    }

    /// Makes the log end when `folder` has no room.
    pub(super) fn within(&mut self, folder: Option<Arc<Folder>>) {
        self.folder = folder;
    }

    /// Appends an event.
    pub(super) fn event(&mut self, now: Timestamp, name: &str, data: impl FnOnce(&mut Object<'_>)) {
        self.record(now, |json| {
            json.milliseconds("time", now.since_origin());
            json.text("name", name);
            json.object("data", data);
        });
    }

    /// Appends a record. Does nothing after a failure.
    pub(super) fn record(&mut self, now: Timestamp, fill: impl FnOnce(&mut Object<'_>)) {
        if self.is_over() {
            return;
        }
        let start = self.waiting.len();
        if let Destination::Held(room) = &mut self.destination {
            // After a record was dropped, all later ones are dropped as well, so that the only gap
            // is the one after the held records.
            if self.dropped == 0 {
                append_record(&mut self.waiting, fill);
                if room.take(start, self.waiting.len().saturating_sub(start)) {
                    self.waiting_records = self.waiting_records.saturating_add(1);
                    return;
                }
                self.waiting.truncate(start);
            }
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        append_record(&mut self.waiting, fill);
        if self.written.saturating_add(self.waiting.len() as u64) > self.maximum_bytes {
            self.waiting.truncate(start);
            self.end_at_limit(now, QlogError::Limit { maximum_bytes: self.maximum_bytes });
            return;
        }
        let size = self.written.saturating_add(start as u64);
        if let Some(shortage) = self.folder.as_ref().and_then(|folder| folder.shortage(size)) {
            self.waiting.truncate(start);
            self.end_at_limit(now, shortage);
            return;
        }
        self.waiting_records = self.waiting_records.saturating_add(1);
        if self.waiting.len() >= FLUSH_SIZE
            || now.saturating_since(self.flushed_at) >= self.flush_interval
        {
            self.flush(now);
        }
    }

    /// Writes an event stating that the log is incomplete, and ends the log.
    fn end_at_limit(&mut self, now: Timestamp, limit: QlogError) {
        append_record(&mut self.waiting, |json| {
            json.milliseconds("time", now.since_origin());
            json.text("name", "loglevel:warning");
            json.object("data", |json| {
                json.text("message", "the log has reached its limit and ends here");
            });
        });
        self.waiting_records = self.waiting_records.saturating_add(1);
        self.finish(now);
        self.failure.get_or_insert(limit);
    }

    /// Passes the held records on to `destination`, because the connection gets a log.
    pub(super) fn release(&mut self, now: Timestamp, destination: Destination) {
        self.destination = destination;
        // The held records are written first, because the dropped ones came later.
        let dropped = core::mem::take(&mut self.dropped);
        self.flush(now);
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// Passes on the buffered records, unless they have to be held.
    pub(super) fn flush(&mut self, now: Timestamp) {
        if self.is_over() || matches!(self.destination, Destination::Held(_)) {
            return;
        }
        self.flushed_at = now;
        if self.dropped > 0 {
            self.waiting.splice(0..0, dropped_record(now, self.dropped));
        }
        if self.waiting.is_empty() {
            return;
        }
        let is_first = self.written == 0;
        let handed = self.destination.hand_over(&self.waiting, self.waiting_records, is_first);
        self.note(handed);
        self.waiting.clear();
        self.waiting_records = 0;
        // One huge record must not keep its memory allocated for the rest of the connection.
        self.waiting.shrink_to(FLUSH_SIZE.saturating_mul(2));
    }

    fn note(&mut self, handed: std::io::Result<Handed>) {
        match handed {
            Ok(Handed::Over) => {
                self.written = self.written.saturating_add(self.waiting.len() as u64);
                self.dropped = 0;
            }
            Ok(Handed::Dropped) => {
                self.dropped = self.dropped.saturating_add(self.waiting_records);
            }
            Ok(Handed::Ended) => self.has_ended = true,
            Err(source) => self.failure = Some(QlogError::Write { source }),
        }
    }

    /// Passes on the buffered records, and then the number of records that were dropped.
    pub(super) fn finish(&mut self, now: Timestamp) {
        self.flush(now);
        if self.dropped > 0 && !self.is_over() {
            self.waiting = dropped_record(now, self.dropped);
            let handed = self.destination.hand_over(&self.waiting, 0, true);
            self.note(handed);
            self.waiting.clear();
        }
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || self.has_ended
    }

    /// Returns whether writing has stopped and the reason has been reported.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes the reason why writing has stopped, if it has.
    pub(super) fn take_failure(&mut self) -> Option<QlogError> {
        self.failure.take()
    }

    /// Returns the time at which records were last passed on.
    pub(super) fn flushed_at(&self) -> Timestamp {
        self.flushed_at
    }
}

/// Creates a record stating that `count` records are missing at this point.
fn dropped_record(now: Timestamp, count: u64) -> Vec<u8> {
    let mut record = Vec::new();
    append_record(&mut record, |json| {
        json.milliseconds("time", now.since_origin());
        json.text("name", "clearway:records_dropped");
        json.object("data", |json| json.number("records", count));
    });
    record
}

fn append_record(output: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    output.push(RECORD_SEPARATOR);
    Object::write(output, fill);
    output.push(b'\n');
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("destination", &self.destination)
            .field("written", &self.written)
            .field("waiting", &self.waiting.len())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
