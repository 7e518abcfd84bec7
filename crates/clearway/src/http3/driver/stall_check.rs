//! Checks for streams on which the peer makes no progress.

use std::collections::BTreeSet;

use clearway_http3::Code;

use super::progress::{StallSample, Stalled, Watch};
use super::{AppTurn, Running};

impl<O: AppTurn> Running<'_, O> {
    /// Abandons the streams on which the peer makes no progress, if a check is due, and schedules
    /// the next one. Checks are scheduled only while messages are in progress, so that an idle
    /// connection need not be woken.
    pub(super) fn check_stalls(&mut self) {
        let core = &mut *self.turn.core;
        let timeouts = match core.is_idle() || self.turn.streams.connection().is_closed() {
            true => None,
            false => self.app.timeouts(),
        };
        let Some(timeouts) = timeouts else {
            if core.next_stall_check.take().is_some()
                && let Some(busy) = core.busy.used()
            {
                busy.watch = Watch::default();
            }
            return;
        };
        if core.next_stall_check.is_some_and(|at| self.now < at) {
            return;
        }
        if core.next_stall_check.replace(self.now + timeouts.interval()).is_none() {
            return;
        }
        let mut streams: BTreeSet<u64> = core.http3.request_streams().collect();
        streams.extend(core.undelivered.iter());
        let samples: Vec<StallSample> =
            streams.into_iter().filter_map(|stream| self.sample(stream)).collect();
        for (stream, stalled) in self.turn.core.busy.watch.check(self.now, &timeouts, &samples) {
            match stalled {
                Stalled::Request => self.abandon_request(stream),
                Stalled::Response => self.abandon_response(stream),
            }
        }
    }

    fn sample(&mut self, stream: u64) -> Option<StallSample> {
        let mut progress = self.turn.progress(stream)?;
        if self.app.awaits_credit(stream) {
            // There is more to send, but the application has not produced it because the client has
            // not granted any credit.
            progress.outstanding = progress.outstanding.max(1);
            let credits = self.turn.credit(stream).unwrap_or_default();
            progress.is_blocked |= credits.stream == 0;
        }
        let http3 = &self.turn.core.http3;
        let awaits_request = http3.awaits_request(stream)
            || (http3.awaits_content(stream) && self.app.wants_content(stream));
        Some(StallSample { stream, progress, awaits_request })
    }

    fn abandon_request(&mut self, stream: u64) {
        let Self { turn, app, .. } = self;
        if turn.core.http3.awaits_request(stream) {
            turn.reset(stream, Code::REQUEST_REJECTED);
            turn.stop(stream, Code::REQUEST_REJECTED);
            return;
        }
        turn.stop(stream, Code::REQUEST_CANCELLED);
        app.request_timed_out(turn, stream, Code::REQUEST_CANCELLED);
    }

    fn abandon_response(&mut self, stream: u64) {
        let Self { turn, app, .. } = self;
        turn.abort(stream, Code::REQUEST_CANCELLED);
        if turn.core.is_refused(stream) {
            return;
        }
        app.response_timed_out(turn, stream, Code::REQUEST_CANCELLED);
    }
}
