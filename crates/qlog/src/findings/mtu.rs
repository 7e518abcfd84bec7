//! Detects packets that the path drops because they are too large or have an ECN mark.

use core::time::Duration;

use super::state::{LEAST_DATAGRAM, State};
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{Event, EventKind};

/// The minimum number of consecutive lost large packets for a finding.
const LARGE: u64 = 8;
/// The minimum number of times that a small packet sent between lost large ones arrives, for a
/// finding.
const ALTERNATIONS: u64 = 3;

/// Detects that all large packets are lost while small ones arrive (RFC 8899 §1.1).
#[derive(Clone, Debug, Default)]
pub(super) struct BlackHole {
    run: Option<Run>,
    worst: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The send times of the first and the last large packet.
    begin: Duration,
    last: Duration,
    end: Duration,
    lost: u64,
    /// The send time of a small packet that arrived, if it was sent after the last large one.
    small: Option<Duration>,
    alternations: u64,
    least: u64,
}

impl BlackHole {
    fn end_run(&mut self) {
        let is_one = |run: &Run| run.lost >= LARGE && run.alternations >= ALTERNATIONS;
        if let Some(run) = self.run.take().filter(is_one) {
            keep_worst(&mut self.worst, run, |run| run.lost);
        }
    }
}

impl Detector for BlackHole {
    fn on_event(&mut self, _event: &Event, state: &State) {
        for packet in &state.step.acknowledged {
            if self.run.is_some_and(|run| packet.length >= run.least && packet.sent >= run.begin) {
                self.end_run();
            }
            if let Some(run) = &mut self.run
                && packet.length <= LEAST_DATAGRAM
                && packet.sent >= run.last
            {
                run.small = Some(run.small.map_or(packet.sent, |small| small.min(packet.sent)));
            }
        }
        for packet in state.ledger.newly_lost.iter().filter(|packet| !packet.is_mtu_probe) {
            if packet.length <= LEAST_DATAGRAM {
                continue;
            }
            let run = self.run.get_or_insert(Run {
                begin: packet.sent,
                last: packet.sent,
                end: state.now,
                lost: 0,
                small: None,
                alternations: 0,
                least: packet.length,
            });
            run.lost = run.lost.saturating_add(1);
            run.least = run.least.min(packet.length);
            run.end = state.now;
            if run.small.is_some_and(|small| packet.sent > small) {
                run.small = None;
                run.alternations = run.alternations.saturating_add(1);
            }
            run.last = run.last.max(packet.sent);
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_run();
        let Some(worst) = self.worst else { return Vec::new() };
        let length = worst.end.saturating_sub(worst.begin);
        vec![Finding {
            id: FindingId::MtuBlackHole,
            severity: length.as_secs_f64(),
            begin: worst.begin,
            end: worst.end,
            headline: format!(
                "All {} packets of {} or more lost for {}",
                text::count(worst.lost),
                text::bytes(worst.least),
                text::time(length)
            ),
            metrics: vec![
                ("duration", text::time(length)),
                ("packets lost", text::count(worst.lost)),
                ("smallest packet lost", text::bytes(worst.least)),
                ("maximum size of packets that arrived", text::bytes(LEAST_DATAGRAM)),
            ],
        }]
    }
}

/// The number of unacknowledged ECN-marked packets after which the sender must stop marking (L10).
const MARKED: u64 = 10;

/// Detects a sender that continues to set ECN marks although marked packets do not arrive (RFC 9000
/// §13.4.2).
#[derive(Clone, Debug, Default)]
pub(super) struct Ecn {
    since: Option<Duration>,
    sent: u64,
    found: Option<(Duration, Duration, u64)>,
}

impl Detector for Ecn {
    fn on_event(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::Ecn(new) => {
                self.since = matches!(&**new, "testing").then_some(state.now);
                self.sent = 0;
            }
            EventKind::PacketSent(packet) if packet.is_ack_eliciting() && self.since.is_some() => {
                self.sent = self.sent.saturating_add(1);
            }
            _ => {}
        }
        if !state.step.acknowledged.is_empty() {
            self.since = None;
        }
        let Some(since) = self.since else { return };
        let length = state.now.saturating_sub(since);
        // The RFC suggests ten packets or three probe timeouts. The bound here requires both, and
        // twice the time.
        if self.sent > MARKED && length > state.probe_timeout().saturating_mul(6) {
            self.found = Some((since, state.now, self.sent));
        }
    }

    fn finish(self: Box<Self>, _state: &State) -> Vec<Finding> {
        let Some((begin, end, sent)) = self.found else { return Vec::new() };
        vec![Finding {
            id: FindingId::EcnBlackHole,
            severity: end.saturating_sub(begin).as_secs_f64(),
            begin,
            end,
            headline: format!(
                "No ECN-marked packet acknowledged for {} ({} sent)",
                text::time(end.saturating_sub(begin)),
                text::count(sent)
            ),
            metrics: vec![
                ("duration", text::time(end.saturating_sub(begin))),
                ("marked packets sent", text::count(sent)),
                ("acknowledged", text::count(0)),
            ],
        }]
    }
}
