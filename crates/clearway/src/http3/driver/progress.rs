//! Timeouts for streams on which the peer makes no progress.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_transport::StreamProgress;
use clearway_units::Timestamp;

/// Limits on how long a client may keep a server waiting; see
/// [`Server::with_timeouts`](crate::http3::Server::with_timeouts) and
/// [`Handler::timeouts`](crate::http3::Handler::timeouts).
///
/// Only progress counts: the timer restarts whenever any amount of data is received or
/// acknowledged. When a timeout expires, only that stream is abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Maximum time without new data for an incomplete request, while its header section is
    /// incomplete or a task waits for its content. A handler always waits for content.
    ///
    /// When it expires, the stream is abandoned, with H3_REQUEST_REJECTED if neither a task nor a
    /// handler has seen the request, and otherwise with H3_REQUEST_CANCELLED (RFC 9114 §8.1). A
    /// silent tunnel (CONNECT) is not an incomplete request.
    pub request: Duration,
    /// Maximum time without an acknowledgment for a response that the client blocks.
    ///
    /// A client blocks a response with its stream flow control limit, or by acknowledging nothing
    /// on the entire connection. When the timeout expires, the response is abandoned with
    /// H3_REQUEST_CANCELLED.
    pub send: Duration,
}

impl Timeouts {
    /// Returns the interval between checks, chosen so that a timeout is late by at most an eighth
    /// of its length.
    pub(super) fn interval(&self) -> Duration {
        (self.request.min(self.send) / 8).max(Duration::from_millis(1))
    }
}

/// The half of a stream that makes no progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stalled {
    /// The peer does not complete its request.
    Request,
    /// The peer does not accept the response.
    Response,
}

/// The current state of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallSample {
    pub(super) stream: u64,
    pub(super) progress: StreamProgress,
    /// Whether the request is incomplete, and either its header section is incomplete too or a task
    /// waits for more content.
    pub(super) awaits_request: bool,
}

/// A counter and the time of its last change.
#[derive(Clone, Copy, Debug)]
struct Mark {
    count: u64,
    since: Timestamp,
}

impl Mark {
    const fn new(count: u64, since: Timestamp) -> Self {
        Self { count, since }
    }

    /// Returns the time since `count` last changed. If `is_waiting` is false, the timer restarts.
    fn age(&mut self, now: Timestamp, count: u64, is_waiting: bool) -> Duration {
        if !is_waiting || count != self.count {
            *self = Self::new(count, now);
        }
        now.saturating_since(self.since)
    }
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    received: Mark,
    acknowledged: Mark,
}

/// Tracks the progress of the streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Watch {
    streams: BTreeMap<u64, Marks>,
    /// The time of the last acknowledgment on any stream.
    acknowledged_at: Option<Timestamp>,
}

impl Watch {
    /// Compares the streams with their state at the last check. Returns the streams that have made
    /// no progress for too long.
    pub(super) fn check(
        &mut self,
        now: Timestamp,
        timeouts: &Timeouts,
        samples: &[StallSample],
    ) -> Vec<(u64, Stalled)> {
        let before = core::mem::take(&mut self.streams);
        let has_moved = samples.iter().any(|sample| {
            let mark = before.get(&sample.stream).map(|marks| marks.acknowledged.count);
            mark.is_some_and(|count| count != sample.progress.acknowledged)
        });
        if has_moved {
            self.acknowledged_at = Some(now);
        }
        let silence = self.acknowledged_at.map(|at| now.saturating_since(at));
        let is_silent = silence.is_none_or(|silence| silence >= timeouts.send);
        let mut stalled = Vec::new();
        for StallSample { stream, progress, awaits_request } in samples {
            let mut marks = before.get(stream).copied().unwrap_or(Marks {
                received: Mark::new(progress.received, now),
                acknowledged: Mark::new(progress.acknowledged, now),
            });
            let is_outstanding = progress.outstanding > 0;
            let sending = marks.acknowledged.age(now, progress.acknowledged, is_outstanding);
            let receiving = marks.received.age(now, progress.received, *awaits_request);
            if is_outstanding && sending >= timeouts.send && (progress.is_blocked || is_silent) {
                stalled.push((*stream, Stalled::Response));
            } else if *awaits_request && receiving >= timeouts.request {
                stalled.push((*stream, Stalled::Request));
            } else {
                self.streams.insert(*stream, marks);
            }
        }
        stalled
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
