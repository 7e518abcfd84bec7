use core::fmt;
use core::time::Duration;

use clearway_units::Timestamp;

use super::destination::Destination;
use super::json::Object;
use super::writing_thread::Handed;
use super::{QlogError, TraceOptions};

/// RFC 7464 §2.2.
const RECORD_SEPARATOR: u8 = 0x1e;
/// Records go to the file once this many bytes wait.
const FLUSH_SIZE: usize = 32 << 10;

/// Records for a file. Only whole records are passed on, so that a log whose process died can be read to its end. Where
/// records had to be dropped, the log contains their number.
pub(super) struct Records {
    destination: Destination,
    waiting: Vec<u8>,
    /// Records that wait.
    waiting_records: u64,
    /// Dropped records that the log does not mention yet.
    dropped: u64,
    /// Bytes handed over.
    written: u64,
    maximum_bytes: u64,
    flush_interval: Duration,
    flushed_at: Timestamp,
    /// Why nothing more is written.
    failure: Option<QlogError>,
    /// Nothing more is written, and that was reported.
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
            flush_interval: options.flush_interval,
            flushed_at: now,
            failure: None,
            has_ended: false,
        }
    }

    /// Appends an event.
    pub(super) fn event(&mut self, now: Timestamp, name: &str, data: impl FnOnce(&mut Object<'_>)) {
        self.record(now, |json| {
            json.milliseconds("time", now.since_origin());
            json.text("name", name);
            json.object("data", data);
        });
    }

    /// Appends a record. After a failure this does nothing.
    pub(super) fn record(&mut self, now: Timestamp, fill: impl FnOnce(&mut Object<'_>)) {
        if self.is_over() {
            return;
        }
        let start = self.waiting.len();
        if let Destination::Held(room) = &mut self.destination {
            // All missing records are missing in one place, after the held ones.
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
            self.end_at_limit(now);
            return;
        }
        self.waiting_records = self.waiting_records.saturating_add(1);
        if self.waiting.len() >= FLUSH_SIZE
            || now.saturating_since(self.flushed_at) >= self.flush_interval
        {
            self.flush(now);
        }
    }

    /// Says in the log itself that it is not complete.
    fn end_at_limit(&mut self, now: Timestamp) {
        append_record(&mut self.waiting, |json| {
            json.milliseconds("time", now.since_origin());
            json.text("name", "loglevel:warning");
            json.object("data", |json| {
                json.text("message", "the log has reached its limit and ends here");
            });
        });
        self.waiting_records = self.waiting_records.saturating_add(1);
        self.finish(now);
        let limit = QlogError::Limit { maximum_bytes: self.maximum_bytes };
        self.failure.get_or_insert(limit);
    }

    /// It is decided that there is a log, which goes to `destination`.
    pub(super) fn release(&mut self, now: Timestamp, destination: Destination) {
        self.destination = destination;
        // The held records are older than the dropped ones.
        let dropped = core::mem::take(&mut self.dropped);
        self.flush(now);
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// Hands over what waits, if it does not have to be held.
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
        // One huge record must not hold its memory for the rest of the connection.
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

    /// Hands over what waits, and how many records were dropped at the end.
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

    /// Whether nothing more is written, which was reported.
    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Why nothing more is written, if so.
    pub(super) fn take_failure(&mut self) -> Option<QlogError> {
        self.failure.take()
    }

    /// When records were last handed over.
    pub(super) fn flushed_at(&self) -> Timestamp {
        self.flushed_at
    }
}

/// Says that `count` records are missing here.
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
