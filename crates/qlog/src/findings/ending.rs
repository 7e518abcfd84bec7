//! Detects connections whose peer no longer responds (L11).

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{Close, Event, EventKind};

/// Checks how a connection ends when its peer is silent.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings {
    /// The send time of the first ack-eliciting packet since the last received packet (RFC 9000
    /// §10.1).
    unanswered_since: Option<Duration>,
    /// The number of ack-eliciting packets sent since the last received packet.
    unanswered: u64,
    timed_out: Option<(Duration, Duration, u64)>,
    kept: Option<(Duration, Duration, Duration)>,
}

impl Detector for Endings {
    fn on_event(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::PacketReceived(_) => (self.unanswered_since, self.unanswered) = (None, 0),
            EventKind::PacketSent(packet) if packet.is_ack_eliciting() => {
                self.unanswered_since.get_or_insert(state.now);
                self.unanswered = self.unanswered.saturating_add(1);
                let (Some(unanswered_since), Some(timeout)) =
                    (self.unanswered_since, state.idle_timeout())
                else {
                    return;
                };
                // The bound is at least three probe timeouts (RFC 9000 §10.1), with a margin of 25
                // % plus one second.
                let bound = timeout.max(state.probe_timeout().saturating_mul(3));
                let allowed =
                    bound.saturating_add(bound.div_f64(4.0)).saturating_add(Duration::from_secs(1));
                if state.now.saturating_sub(unanswered_since) > allowed {
                    self.kept = Some((unanswered_since, state.now, bound));
                }
            }
            EventKind::Closed(close) => {
                let Close { trigger, reason, error, .. } = &**close;
                let says = |text: &Option<Box<str>>| {
                    text.as_deref().is_some_and(|text| text.to_ascii_lowercase().contains("idle"))
                };
                // quiche logs no reason. The end was an idle timeout if nothing was received for
                // that long.
                let says_nothing = trigger.is_none() && reason.is_none() && error.is_none();
                let is_idle = says(trigger)
                    || says(reason)
                    || (says_nothing && state.was_silent_for_idle_timeout());
                let has_unfinished =
                    state.ledger.count() > 0 || state.flow.has_data() == Some(true);
                if is_idle && has_unfinished {
                    let since = state.last_received.unwrap_or_default();
                    self.timed_out = Some((since, state.now, self.unanswered));
                }
            }
            _ => {}
        }
    }

    fn finish(self: Box<Self>, _state: &State) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some((begin, end, unanswered)) = self.timed_out {
            findings.push(Finding {
                id: FindingId::TimedOutWithData,
                severity: end.saturating_sub(begin).as_secs_f64(),
                begin,
                end,
                headline: format!(
                    "Idle timeout after {} without packets, with data unacknowledged",
                    text::time(end.saturating_sub(begin))
                ),
                metrics: vec![
                    ("time since the peer's last packet", text::time(end.saturating_sub(begin))),
                    ("unanswered ack-eliciting packets", text::count(unanswered)),
                ],
            });
        }
        if let Some((begin, end, bound)) = self.kept {
            findings.push(Finding {
                id: FindingId::DeadPeerKept,
                severity: end.saturating_sub(begin).as_secs_f64() / 4.0,
                begin,
                end,
                headline: format!(
                    "Still sending after {} without a response (idle timeout {})",
                    text::time(end.saturating_sub(begin)),
                    text::time(bound)
                ),
                metrics: vec![
                    ("time without a response", text::time(end.saturating_sub(begin))),
                    ("idle timeout", text::time(bound)),
                ],
            });
        }
        findings
    }
}
