//! The limits on the number of streams, in both directions (RFC 9000 §4.6).

use clearway_units::packed::Pack;
use clearway_wire::VarInt;

/// The maximum stream count; with at most 2^60 streams every stream ID can be encoded (RFC 9000
/// §4.6).
const MAX_STREAMS: u64 = 1 << 60;

/// The locally initiated streams of one type (bidirectional or unidirectional).
#[derive(Clone, Copy, Debug, Default, Pack)]
pub(super) struct LocalStreams {
    opened: u64,
    maximum: u64,
    /// Whether the application was unable to open a stream and is waiting for the limit to rise.
    awaits_stream: bool,
    reported_at: Option<u64>,
}

impl LocalStreams {
    /// Returns how many streams have been opened.
    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns how many more streams the peer permits.
    pub(super) const fn available(&self) -> u64 {
        self.maximum.saturating_sub(self.opened)
    }

    /// Returns the index of the next stream and counts it as opened; `None` at the peer's limit.
    pub(super) fn open(&mut self) -> Option<u64> {
        if self.opened >= self.maximum {
            self.awaits_stream = true;
            return None;
        }
        let index = self.opened;
        self.opened = index.checked_add(1)?;
        Some(index)
    }

    /// Sets the peer's limit. Returns whether the application is waiting for it.
    pub(super) fn raise(&mut self, maximum: u64) -> bool {
        let rises = maximum > self.maximum;
        self.maximum = self.maximum.max(maximum.min(MAX_STREAMS));
        rises && core::mem::take(&mut self.awaits_stream)
    }

    /// Handles the rejection of early data, which makes the peer's limit unknown again. Streams
    /// that were opened stay open.
    pub(super) fn restart(&mut self) {
        self.maximum = 0;
        self.reported_at = None;
    }

    /// Returns whether the peer allows the stream with this index.
    pub(super) const fn permits(&self, index: u64) -> bool {
        index < self.maximum
    }

    /// Returns whether more streams were opened than the peer allows.
    pub(super) const fn exceeds_limit(&self) -> bool {
        self.opened > self.maximum
    }

    /// Returns the limit for the STREAMS_BLOCKED frame to send, if any; the frame is sent once per
    /// limit.
    pub(super) fn pending_blocked(&self) -> Option<VarInt> {
        let owed = self.awaits_stream && self.reported_at != Some(self.maximum);
        owed.then(|| VarInt::saturating(self.maximum))
    }

    /// Records that the frame was sent.
    pub(super) fn on_blocked_sent(&mut self) {
        self.reported_at = Some(self.maximum);
    }

    /// Records that the frame was lost.
    pub(super) fn on_blocked_lost(&mut self) {
        self.reported_at = None;
    }
}

/// The peer-initiated streams of one type (bidirectional or unidirectional).
#[derive(Clone, Copy, Debug, Pack)]
pub(super) struct RemoteStreams {
    opened: u64,
    accepted: u64,
    retired: u64,
    /// The maximum number of concurrently open streams.
    concurrent: u64,
    maximum: u64,
    pending_maximum: bool,
}

/// The peer has exceeded the stream limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooManyStreams;

impl RemoteStreams {
    /// Creates the state for at most `concurrent` concurrent streams.
    pub(super) fn new(concurrent: u64) -> Self {
        let concurrent = concurrent.min(MAX_STREAMS);
        let maximum = concurrent;
        Self { opened: 0, accepted: 0, retired: 0, concurrent, maximum, pending_maximum: false }
    }

    /// Changes the maximum number of concurrently open streams. Streams that the peer was already
    /// permitted to open stay permitted (RFC 9000 §4.6): a lower maximum takes effect as they end.
    pub(super) fn set_concurrent(&mut self, concurrent: u64) {
        self.concurrent = concurrent.min(MAX_STREAMS);
        self.renew();
    }

    /// Returns how many streams the peer has opened.
    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns how many more streams the peer may open.
    pub(super) const fn available(&self) -> u64 {
        self.maximum.saturating_sub(self.opened)
    }

    /// Records that the peer used the stream with `index`, which also opens all lower ones (RFC
    /// 9000 §3.2). Returns the indices of the newly opened streams.
    pub(super) fn on_used(&mut self, index: u64) -> Result<core::ops::Range<u64>, TooManyStreams> {
        if index >= self.maximum {
            return Err(TooManyStreams);
        }
        let from = self.opened;
        self.opened = from.max(index.saturating_add(1));
        self.renew_if_worth_it();
        Ok(from..self.opened)
    }

    /// Returns the index of the next stream that the application has not accepted.
    pub(super) fn accept(&mut self) -> Option<u64> {
        let index = self.accepted;
        if index >= self.opened {
            return None;
        }
        self.accepted = index.saturating_add(1);
        Some(index)
    }

    /// Records that a stream has ended, so the peer may open another.
    pub(super) fn on_retired(&mut self) {
        self.retired = self.retired.saturating_add(1);
        self.renew_if_worth_it();
    }

    /// Decides whether to send a new limit: a new limit is sent when the peer has used half of the
    /// limit last sent to it, or when the limit can rise by an eighth. The peer can therefore
    /// nearly always open as many streams as allowed, and one frame covers several streams.
    fn renew_if_worth_it(&mut self) {
        let left = self.maximum.saturating_sub(self.opened);
        let more = self.retired.saturating_add(self.concurrent).saturating_sub(self.maximum);
        if left <= self.concurrent / 2 || more > self.concurrent / 8 {
            self.renew();
        }
    }

    /// Handles the peer's report that it is blocked at `limit`. If a higher limit was already sent,
    /// that frame may have been lost.
    pub(super) fn on_peer_blocked(&mut self, limit: u64) {
        self.renew();
        self.pending_maximum |= limit < self.maximum;
    }

    fn renew(&mut self) {
        let maximum = self.retired.saturating_add(self.concurrent).min(MAX_STREAMS);
        self.pending_maximum |= maximum > self.maximum;
        self.maximum = self.maximum.max(maximum);
    }

    /// Returns how many streams are open.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn open(&self) -> u64 {
        self.opened.saturating_sub(self.retired)
    }

    /// Returns the limit of the MAX_STREAMS frame to send, if any.
    pub(super) fn pending_maximum(&self) -> Option<VarInt> {
        self.pending_maximum.then(|| VarInt::saturating(self.maximum))
    }

    /// Records that the MAX_STREAMS frame was sent.
    pub(super) fn on_maximum_sent(&mut self) {
        self.pending_maximum = false;
    }

    /// Handles the loss of a MAX_STREAMS frame.
    pub(super) fn on_maximum_lost(&mut self) {
        self.pending_maximum = true;
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
