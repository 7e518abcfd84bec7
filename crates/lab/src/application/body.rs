//! The content of a message that is being sent.

use core::time::Duration;

use bytes::{Buf, Bytes};
use clearway_http3::{Code, Connection as Http3, SendError, Transport};
use clearway_units::{Rate, Timestamp};

use super::content::content;

/// A message that is being sent.
#[derive(Debug)]
pub(super) struct Body {
    stream: u64,
    size: u64,
    /// Bytes of content produced so far.
    offset: u64,
    /// Content that has been produced but not yet accepted by the transport.
    pending: Bytes,
    pace: Option<Pace>,
    /// Whether the message is reset at the end of the content.
    is_cut: bool,
    is_blocked: bool,
    is_ended: bool,
}

/// Content that is produced over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) since: Timestamp,
    pub(super) rate: Rate,
    pub(super) chunk: u64,
}

impl Pace {
    /// Returns the number of bytes that have been produced by `now`, in whole chunks.
    fn exists(&self, now: Timestamp) -> u64 {
        let elapsed = now.saturating_since(self.since).as_nanos();
        let bytes = elapsed * u128::from(self.rate.bytes_per_second()) / 1_000_000_000;
        let chunks = bytes / u128::from(self.chunk.max(1)) + 1;
        (chunks * u128::from(self.chunk)).try_into().unwrap_or(u64::MAX)
    }

    /// Returns when more than `bytes` will have been produced.
    fn after(&self, bytes: u64) -> Timestamp {
        let nanoseconds = u128::from(bytes) * 1_000_000_000;
        let rate = u128::from(self.rate.bytes_per_second().max(1));
        let waited = nanoseconds.div_ceil(rate).try_into().unwrap_or(u64::MAX);
        self.since + Duration::from_nanos(waited)
    }
}

impl Body {
    pub(super) fn new(stream: u64, size: u64, pace: Option<Pace>) -> Self {
        let pending = Bytes::new();
        let (is_cut, is_blocked, is_ended) = (false, false, false);
        Self { stream, size, offset: 0, pending, pace, is_cut, is_blocked, is_ended }
    }

    /// Returns the same content, reset after `after` bytes.
    pub(super) fn cut(self, after: Option<u64>) -> Self {
        match after {
            Some(after) => Self { size: self.size.min(after), is_cut: true, ..self },
            None => self,
        }
    }

    /// Returns whether the message is reset at the end of the content.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Resumes sending because the transport accepts more content.
    pub(super) fn on_writable(&mut self) {
        self.is_blocked = false;
    }

    /// Passes on as much of the available content as the transport accepts.
    ///
    /// # Errors
    /// Returns HTTP/3 errors.
    pub(super) fn pump(
        &mut self,
        now: Timestamp,
        http3: &mut Http3,
        streams: &mut dyn Transport,
    ) -> Result<(), SendError> {
        while !self.is_blocked && !self.is_ended {
            if self.pending.is_empty() {
                let exists = self.pace.map_or(u64::MAX, |pace| pace.exists(now)).min(self.size);
                if self.offset == self.size {
                    self.is_ended = true;
                    if self.is_cut {
                        http3.reset(streams, self.stream, Code::REQUEST_CANCELLED);
                        return Ok(());
                    }
                    return http3.finish(streams, self.stream);
                }
                if self.offset >= exists {
                    return Ok(());
                }
                self.pending = content(self.offset, exists - self.offset);
                self.offset += self.pending.len() as u64;
            }
            let taken = http3.send_body(streams, self.stream, self.pending.clone())?;
            self.pending.advance(taken);
            self.is_blocked = !self.pending.is_empty();
        }
        Ok(())
    }

    /// Returns the number of bytes that the transport has accepted.
    pub(super) fn written(&self) -> u64 {
        self.offset - self.pending.len() as u64
    }

    /// Returns when more content will be available.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let waits = !self.is_blocked && !self.is_ended && self.pending.is_empty();
        self.pace.filter(|_| waits && self.offset < self.size).map(|pace| pace.after(self.offset))
    }

    /// Returns whether there is content that the transport has not accepted yet.
    pub(super) fn has_backlog(&self) -> bool {
        self.is_blocked && !self.is_ended
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }
}
