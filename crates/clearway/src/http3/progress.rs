//! Whether the peer goes on with what it has begun.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_transport::StreamProgress;
use clearway_units::Timestamp;

/// How long a client may leave a server waiting. The measure is progress: as long as anything moves, however
/// slowly, the time begins anew. A stream that takes longer is abandoned, by itself; the others go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// How long nothing of a request may come that is not complete, while its header section or a task waits
    /// for it. Then the stream is abandoned: with H3_REQUEST_REJECTED if no task has seen the request, else with
    /// H3_REQUEST_CANCELLED (RFC 9114 §8.1).
    pub request: Duration,
    /// How long a client may acknowledge nothing of a response that it does not let the server send, because
    /// of its limit for the stream, or by acknowledging nothing on the whole connection. Then the response is abandoned with
    /// H3_REQUEST_CANCELLED.
    pub send: Duration,
}

impl Timeouts {
    /// How often to look, so that a timeout is late by an eighth of itself at most.
    pub(super) fn interval(&self) -> Duration {
        (self.request.min(self.send) / 8).max(Duration::from_millis(1))
    }
}

/// What a stream does not go on with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stalled {
    /// The peer does not complete its request.
    Request,
    /// The peer does not take the response.
    Response,
}

/// One stream as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) stream: u64,
    pub(super) progress: StreamProgress,
    /// More of the request has to come, and somebody waits for it.
    pub(super) awaits_request: bool,
}

/// A figure, and since when it is what it is.
#[derive(Clone, Copy, Debug)]
struct Mark {
    figure: u64,
    since: Timestamp,
}

impl Mark {
    const fn new(figure: u64, since: Timestamp) -> Self {
        Self { figure, since }
    }

    /// How long `figure` has been what it is, if `counts`; else the time begins now.
    fn age(&mut self, now: Timestamp, figure: u64, counts: bool) -> Duration {
        if !counts || figure != self.figure {
            *self = Self::new(figure, now);
        }
        now.saturating_since(self.since)
    }
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    received: Mark,
    acknowledged: Mark,
}

/// How the streams of one connection come on.
#[derive(Debug, Default)]
pub(super) struct Watch {
    streams: BTreeMap<u64, Marks>,
    /// When something was acknowledged last, on any stream.
    acknowledged_at: Option<Timestamp>,
}

impl Watch {
    /// Compares the streams with what they were, and says which of them have stood still for too long.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        timeouts: &Timeouts,
        looks: &[Look],
    ) -> Vec<(u64, Stalled)> {
        let before = core::mem::take(&mut self.streams);
        let has_moved = looks.iter().any(|look| {
            let mark = before.get(&look.stream).map(|marks| marks.acknowledged.figure);
            mark.is_some_and(|figure| figure != look.progress.acknowledged)
        });
        if has_moved {
            self.acknowledged_at = Some(now);
        }
        let silence = self.acknowledged_at.map(|at| now.saturating_since(at));
        let is_silent = silence.is_none_or(|silence| silence >= timeouts.send);
        let mut stalled = Vec::new();
        for Look { stream, progress, awaits_request } in looks {
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
