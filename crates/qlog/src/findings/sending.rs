//! Detects waiting data that is not sent, and probes that are not sent.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{Blocked, Event, EventKind};

/// The minimum total idle time for a finding.
const IDLE_TIME: Duration = Duration::from_millis(500);

/// Detects that nothing is in flight although data is waiting and nothing blocks sending (L4).
#[derive(Clone, Debug, Default)]
pub(super) struct IdleWithData {
    since: Option<Duration>,
    patience: Duration,
    worst: Option<(Duration, Duration)>,
    total: Duration,
    count: u64,
}

impl IdleWithData {
    fn is_idle(state: &State) -> bool {
        let is_empty = state.metrics.bytes_in_flight.map_or(state.ledger.bytes(), Some) == Some(0)
            && state.ledger.count() == 0;
        let is_blocked = matches!(
            state.blocked,
            Some(
                Blocked::Amplification
                    | Blocked::ConnectionFlowControl
                    | Blocked::StreamFlowControl
                    | Blocked::Other
                    | Blocked::Application
            )
        );
        let waits = matches!(state.blocked, Some(Blocked::CongestionControl | Blocked::Pacing))
            || state.flow.has_data() == Some(true);
        is_empty
            && waits
            && !is_blocked
            && state.rtt().is_some()
            && state.handshake_is_confirmed
            && !state.is_closed
    }

    fn end(&mut self, now: Duration) {
        let Some(since) = self.since.take() else { return };
        let length = now.saturating_sub(since);
        if length <= self.patience {
            return;
        }
        self.total = self.total.saturating_add(length);
        self.count = self.count.saturating_add(1);
        if self.worst.is_none_or(|(begin, end)| end.saturating_sub(begin) < length) {
            self.worst = Some((since, now));
        }
    }
}

impl Detector for IdleWithData {
    fn on_event(&mut self, _event: &Event, state: &State) {
        if Self::is_idle(state) {
            if self.since.is_none() {
                self.since = Some(state.now);
                self.patience = state.patience();
            }
        } else {
            self.end(state.now);
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.end(state.now);
        let Some((begin, end)) = self.worst.filter(|_| self.total >= IDLE_TIME) else {
            return Vec::new();
        };
        vec![Finding {
            id: FindingId::IdleWithData,
            severity: self.total.as_secs_f64(),
            begin,
            end,
            headline: format!(
                "Nothing in flight for {} although data could be sent",
                text::time(end.saturating_sub(begin))
            ),
            metrics: vec![
                ("longest pause", text::time(end.saturating_sub(begin))),
                ("pauses", text::count(self.count)),
                ("total duration", text::time(self.total)),
            ],
        }]
    }
}

/// The maximum number of times that the probe timeout is doubled.
const MAX_BACKOFF: u32 = 16;

/// Detects that packets are outstanding but the probe for them is not sent (L3).
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeOverdue {
    /// When the last ack-eliciting packet was sent or acknowledged, and the maximum pause that is
    /// allowed afterwards.
    since: Option<(Duration, Duration)>,
    /// The number of consecutive timeouts, inferred from the packets.
    timeouts: u32,
    worst: Option<(Duration, Duration, Duration)>,
    total: Duration,
}

impl ProbeOverdue {
    fn allowed(&self, state: &State) -> Duration {
        let reported = state.metrics.pto_count.and_then(|count| u32::try_from(count).ok());
        let backoff = self.timeouts.max(reported.unwrap_or_default()).min(MAX_BACKOFF);
        let factor = 1_u32.checked_shl(backoff).unwrap_or(u32::MAX);
        // The allowed time is twice the timeout plus half a second, because the stack's estimates
        // may be newer than those in the trace, and the machine may be busy.
        let allowed = state.probe_timeout().saturating_mul(factor).saturating_mul(2);
        allowed.saturating_add(Duration::from_millis(500))
    }

    fn end(&mut self, now: Duration) {
        let Some((since, allowed)) = self.since.take() else { return };
        let length = now.saturating_sub(since);
        if length <= allowed {
            return;
        }
        self.total = self.total.saturating_add(length.saturating_sub(allowed));
        if self.worst.is_none_or(|(begin, end, _)| end.saturating_sub(begin) < length) {
            self.worst = Some((since, now, allowed));
        }
    }
}

impl Detector for ProbeOverdue {
    fn on_event(&mut self, event: &Event, state: &State) {
        let has_progressed = !state.step.acknowledged.is_empty();
        let has_sent =
            matches!(&event.kind, EventKind::PacketSent(packet) if packet.is_ack_eliciting());
        if has_progressed {
            self.timeouts = 0;
        } else if has_sent
            && let Some((since, _)) = self.since
            && state.now.saturating_sub(since) > state.probe_timeout().div_f64(2.0)
        {
            self.timeouts = self.timeouts.saturating_add(1);
        }
        let is_waiting = state.ledger.count() > 0
            && state.ledger.bytes().is_some()
            && state.handshake_is_confirmed
            && state.blocked != Some(Blocked::Amplification)
            && !state.is_closed;
        if has_progressed || has_sent || !is_waiting {
            self.end(state.now);
        }
        if is_waiting {
            let begin = self.since.map_or(state.now, |(since, _)| since);
            // The allowed time may increase as the estimates change, but it never decreases.
            let known = self.since.map_or(Duration::ZERO, |(_, allowed)| allowed);
            self.since = Some((begin, self.allowed(state).max(known)));
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.end(state.now);
        let Some((begin, end, allowed)) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::ProbeOverdue,
            severity: self.total.as_secs_f64(),
            begin,
            end,
            headline: format!(
                "No probe sent for {} while packets were unacknowledged",
                text::time(end.saturating_sub(begin))
            ),
            metrics: vec![
                ("longest time without a probe", text::time(end.saturating_sub(begin))),
                ("expected maximum (twice the probe timeout)", text::time(allowed)),
                ("total time beyond the maximum", text::time(self.total)),
            ],
        }]
    }
}
