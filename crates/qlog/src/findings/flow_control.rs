//! Detects stalls caused by the peer's flow control limits.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{Blocked, Event, EventKind, Frame};

/// If a peer does not raise a limit for this long although all data has arrived, its application
/// has stopped reading.
const STOPPED: Duration = Duration::from_secs(2);
/// The peer has stopped reading only if at least this many packets were received from it after all
/// data had arrived.
const HEARD: u64 = 2;
/// A stall of at least this duration, and of this many round trips, is reported regardless of the
/// peer's behavior.
const STALL: Duration = Duration::from_secs(1);
const STALL_ROUND_TRIPS: u32 = 16;
/// The minimum total duration of shorter stalls for a finding, and their minimum share of the time.
const TOGETHER: Duration = Duration::from_secs(2);
const SHARE: f64 = 0.5;

/// A period in which flow control blocked data.
#[derive(Clone, Copy, Debug)]
struct Stall {
    begin: Duration,
    end: Duration,
    /// When all sent data had been acknowledged, if no stream data has been sent since.
    all_arrived: Option<Duration>,
    /// The number of packets received from the peer since all data was acknowledged.
    heard: u64,
    limit: Option<u64>,
    /// Whether the stall has cost no time so far, because data is in flight and a standing queue
    /// keeps the path fully used.
    is_free: bool,
}

impl Stall {
    fn length(&self) -> Duration {
        self.end.saturating_sub(self.begin)
    }

    /// Returns how long the peer has had all data.
    fn waited(&self) -> Duration {
        self.all_arrived.map_or(Duration::ZERO, |since| self.end.saturating_sub(since))
    }
}

/// Checks how long flow control blocks data, and whether the data is sent after the limit is raised
/// (L4).
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    present: Option<Stall>,
    /// The period since a limit was raised, if no data has been sent since then.
    raised: Option<(Duration, Duration)>,
    /// The longest stall in which the peer has not stopped reading.
    longest: Option<Stall>,
    /// The longest stall in which the peer has stopped reading, which is a separate finding.
    stopped: Option<Stall>,
    stopped_total: Duration,
    stopped_count: u64,
    not_woken: Option<(Duration, Duration)>,
    total: Duration,
    count: u64,
    begin: Option<Duration>,
    rtt: Duration,
}

impl Stalls {
    fn begin(&mut self, state: &State, limit: Option<u64>) {
        let all_arrived = (state.ledger.count() == 0).then_some(state.now);
        self.present.get_or_insert(Stall {
            begin: state.now,
            end: state.now,
            all_arrived,
            heard: 0,
            limit,
            is_free: true,
        });
    }

    fn end(&mut self, now: Duration) {
        let Some(mut stall) = self.present.take().filter(|stall| !stall.is_free) else { return };
        stall.end = now;
        let patience = STOPPED.max(self.rtt.saturating_mul(8));
        // If nothing is received from the peer, its new limits may have been lost.
        if stall.waited() >= patience && stall.heard >= HEARD {
            self.stopped_total = self.stopped_total.saturating_add(stall.waited());
            self.stopped_count = self.stopped_count.saturating_add(1);
            if self.stopped.is_none_or(|stopped| stopped.waited() < stall.waited()) {
                self.stopped = Some(stall);
            }
            return;
        }
        self.total = self.total.saturating_add(stall.length());
        self.count = self.count.saturating_add(1);
        if self.longest.is_none_or(|longest| longest.length() < stall.length()) {
            self.longest = Some(stall);
        }
    }

    fn on_frame(&mut self, frame: &Frame, state: &State) {
        match frame {
            Frame::MaxData { maximum } | Frame::MaxStreamData { maximum, .. } => {
                let is_raised = self
                    .present
                    .is_some_and(|stall| stall.limit.is_none_or(|limit| *maximum > limit));
                if is_raised && !matches!(state.blocked, Some(Blocked::StreamFlowControl)) {
                    self.end(state.now);
                    self.raised = Some((state.now, state.patience()));
                }
            }
            _ => {}
        }
    }

    fn is_blocked(state: &State) -> bool {
        matches!(state.blocked, Some(Blocked::ConnectionFlowControl | Blocked::StreamFlowControl))
    }

    fn oversleep(&mut self, now: Duration) {
        let Some((raised, patience)) = self.raised.take() else { return };
        let length = now.saturating_sub(raised);
        let is_worse = self.not_woken.is_none_or(|(begin, end)| end.saturating_sub(begin) < length);
        if length > patience && is_worse {
            self.not_woken = Some((raised, now));
        }
    }

    fn stall_findings(&self, state: &State) -> Vec<Finding> {
        let Some(longest) = self.longest else { return Vec::new() };
        let all = state.now.saturating_sub(self.begin.unwrap_or_default());
        let patience = STALL.max(self.rtt.saturating_mul(STALL_ROUND_TRIPS));
        let is_long = longest.length() >= patience;
        let total = self.total.as_secs_f64();
        let is_much = self.total >= TOGETHER && total >= all.as_secs_f64() * SHARE;
        if !is_long && !is_much {
            return Vec::new();
        }
        let mut metrics = vec![("longest stall", text::time(longest.length()))];
        metrics.extend(longest.limit.map(|limit| ("limit", text::bytes(limit))));
        metrics.extend([
            ("stalls", text::count(self.count)),
            ("total duration", text::time(self.total)),
            ("out of", text::time(all)),
        ]);
        vec![Finding {
            id: FindingId::FlowControlStall,
            severity: total,
            begin: longest.begin,
            end: longest.end,
            headline: format!(
                "Peer's flow control blocked sending for {}",
                text::time(longest.length())
            ),
            metrics,
        }]
    }
}

fn carries_stream_data(event: &Event) -> bool {
    let EventKind::PacketSent(packet) = &event.kind else { return false };
    packet.frames.iter().flatten().any(|frame| matches!(frame, Frame::Stream { .. }))
}

impl Detector for Stalls {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.rtt = state.rtt().unwrap_or(self.rtt);
        match &event.kind {
            EventKind::Blocked(update) if update.stream.is_none() => {
                if Self::is_blocked(state) {
                    self.begin.get_or_insert(state.now);
                    self.begin(state, state.flow.reached_limit());
                } else {
                    self.end(state.now);
                    // There is no data to send, or something else blocks sending, so no wake-up was
                    // missed.
                    self.raised = None;
                }
            }
            EventKind::PacketSent(packet) => {
                self.begin.get_or_insert(state.now);
                for frame in packet.frames.iter().flatten() {
                    match frame {
                        Frame::DataBlocked { limit } | Frame::StreamDataBlocked { limit, .. }
                            if !state.knows_blocked =>
                        {
                            self.begin(state, Some(*limit));
                        }
                        Frame::Stream { .. } => {
                            self.oversleep(state.now);
                            if !state.knows_blocked
                                && state.flow.reached_limit().is_none()
                                && self.present.is_some_and(|stall| stall.begin < state.now)
                            {
                                self.end(state.now);
                            }
                        }
                        _ => {}
                    }
                }
            }
            EventKind::PacketReceived(packet) => {
                for frame in packet.frames.iter().flatten() {
                    self.on_frame(frame, state);
                }
            }
            _ => {}
        }
        if let Some(stall) = &mut self.present {
            stall.is_free &= state.ledger.count() > 0 && state.has_standing_queue();
            // The peer still has all the data if only DATA_BLOCKED or PING frames are sent.
            if carries_stream_data(event) {
                (stall.all_arrived, stall.heard) = (None, 0);
            } else if state.ledger.count() == 0 {
                stall.all_arrived.get_or_insert(state.now);
            }
            if matches!(event.kind, EventKind::PacketReceived(_)) && stall.all_arrived.is_some() {
                stall.heard = stall.heard.saturating_add(1);
            }
        }
        if state.is_closed {
            self.end(state.now);
            self.raised = None;
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.end(state.now);
        let mut findings = self.stall_findings(state);
        if let Some(stopped) = self.stopped {
            findings.push(Finding {
                id: FindingId::PeerStoppedReading,
                severity: self.stopped_total.as_secs_f64(),
                begin: stopped.begin,
                end: stopped.end,
                headline: format!(
                    "Peer acknowledges everything but does not raise its limits for {}",
                    text::time(stopped.waited())
                ),
                metrics: vec![
                    ("longest wait", text::time(stopped.waited())),
                    ("waits", text::count(self.stopped_count)),
                    ("total duration", text::time(self.stopped_total)),
                ],
            });
        }
        // This is reported only if the application is known to have written more than was sent.
        // Otherwise, it may have had no data.
        if let Some((begin, end)) = self.not_woken.filter(|_| state.flow.has_data().is_some()) {
            findings.push(Finding {
                id: FindingId::NotWoken,
                severity: end.saturating_sub(begin).as_secs_f64(),
                begin,
                end,
                headline: format!(
                    "No data sent for {} after the peer raised its limit",
                    text::time(end.saturating_sub(begin))
                ),
                metrics: vec![(
                    "time until stream data was sent",
                    text::time(end.saturating_sub(begin)),
                )],
            });
        }
        findings
    }
}
