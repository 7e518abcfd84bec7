use core::fmt;
use std::io::Write;

use clearway_units::Timestamp;

use super::json::Object;
use super::{QlogError, TraceOptions};
use core::time::Duration;

/// RFC 7464 §2.2.
const RECORD_SEPARATOR: u8 = 0x1e;
/// Records go to the file once this many bytes wait.
const FLUSH_SIZE: usize = 32 << 10;

/// Records on their way to a file. Only whole records are handed over, so that a log whose process
/// died can be read to its end.
pub(super) struct Records {
    writer: Box<dyn Write + Send>,
    waiting: Vec<u8>,
    /// Bytes handed over.
    written: u64,
    maximum_bytes: u64,
    flush_interval: Duration,
    flushed_at: Timestamp,
    /// Why nothing more is written.
    failure: Option<QlogError>,
}

impl Records {
    pub(super) fn new(
        writer: Box<dyn Write + Send>,
        options: &TraceOptions,
        now: Timestamp,
    ) -> Self {
        Self {
            writer,
            waiting: Vec::new(),
            written: 0,
            maximum_bytes: options.maximum_bytes,
            flush_interval: options.flush_interval,
            flushed_at: now,
            failure: None,
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
        if self.failure.is_some() {
            return;
        }
        let start = self.waiting.len();
        append_record(&mut self.waiting, fill);
        if self.written.saturating_add(self.waiting.len() as u64) > self.maximum_bytes {
            self.waiting.truncate(start);
            self.end_at_limit(now);
        } else if self.waiting.len() >= FLUSH_SIZE
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
        self.flush(now);
        let limit = QlogError::Limit { maximum_bytes: self.maximum_bytes };
        self.failure.get_or_insert(limit);
    }

    /// Hands over what waits.
    pub(super) fn flush(&mut self, now: Timestamp) {
        if self.failure.is_some() {
            return;
        }
        self.flushed_at = now;
        self.written = self.written.saturating_add(self.waiting.len() as u64);
        let result = self.writer.write_all(&self.waiting).and_then(|()| self.writer.flush());
        self.failure = result.err().map(|source| QlogError::Write { source });
        self.waiting.clear();
        // One huge record must not hold its memory for the rest of the connection.
        self.waiting.shrink_to(FLUSH_SIZE.saturating_mul(2));
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

fn append_record(output: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    output.push(RECORD_SEPARATOR);
    Object::write(output, fill);
    output.push(b'\n');
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("written", &self.written)
            .field("waiting", &self.waiting.len())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
