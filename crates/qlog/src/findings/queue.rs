//! Detects a standing queue at the bottleneck that the sender itself causes.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{Blocked, Event};

/// The minimum ratio of the round-trip time to the minimum round-trip time for a finding. A queue
/// of ten bandwidth-delay products, which loss-based controllers fill, causes a ratio of slightly
/// more than ten. The queueing delay must also reach the time below.
const ROUND_TRIPS: u32 = 12;
const DELAY: Duration = Duration::from_secs(1);
/// The minimum total time with a standing queue for a finding.
const TOTAL: Duration = Duration::from_secs(2);

/// Detects round-trip times far above the minimum while the sender sends as much as it is allowed
/// to send.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingQueue {
    since: Option<Duration>,
    begin: Option<Duration>,
    end: Duration,
    total: Duration,
    longest_rtt: Duration,
    most_in_flight: u64,
}

impl StandingQueue {
    fn leave(&mut self, now: Duration) {
        if let Some(since) = self.since.take() {
            self.total = self.total.saturating_add(now.saturating_sub(since));
            self.end = now;
        }
    }
}

/// Returns the queueing delay, if it is too long and this sender's packets are in the queue.
fn delay(state: &State) -> Option<Duration> {
    let is_own = match state.knows_blocked {
        true => matches!(state.blocked, Some(Blocked::CongestionControl | Blocked::Pacing)),
        false => state.window_is_full(),
    };
    let in_flight = state.metrics.bytes_in_flight.or(state.ledger.bytes()).unwrap_or_default();
    // If few packets are in flight, other traffic fills the queue, or the path is slow for another
    // reason.
    if !is_own || in_flight < state.datagram().saturating_mul(32) || state.is_closed {
        return None;
    }
    let least = state.minimum_rtt().filter(|least| !least.is_zero())?;
    let rtt = state.rtt()?.min(state.metrics.latest_rtt?);
    let is_long = rtt >= least.saturating_mul(ROUND_TRIPS) && rtt.saturating_sub(least) >= DELAY;
    is_long.then(|| rtt.saturating_sub(least))
}

impl Detector for StandingQueue {
    fn on_event(&mut self, _event: &Event, state: &State) {
        if delay(state).is_none() {
            self.leave(state.now);
            return;
        }
        self.since.get_or_insert(state.now);
        self.begin.get_or_insert(state.now);
        self.longest_rtt = self.longest_rtt.max(state.rtt().unwrap_or_default());
        let in_flight = state.metrics.bytes_in_flight.or(state.ledger.bytes()).unwrap_or_default();
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.leave(state.now);
        let (Some(begin), Some(least)) = (self.begin, state.minimum_rtt()) else {
            return Vec::new();
        };
        if self.total < TOTAL {
            return Vec::new();
        }
        vec![Finding {
            id: FindingId::StandingQueue,
            // Data still arrives at the path's rate, so the delay mostly affects other traffic.
            severity: self.total.as_secs_f64() / 4.0,
            begin,
            end: self.end,
            headline: format!(
                "Sender's own queue delays packets: round-trip time {} (minimum {})",
                text::time(self.longest_rtt),
                text::time(least)
            ),
            metrics: vec![
                ("longest smoothed round-trip time", text::time(self.longest_rtt)),
                ("minimum round-trip time", text::time(least)),
                ("total time", text::time(self.total)),
                ("most bytes in flight", text::bytes(self.most_in_flight)),
            ],
        }]
    }
}
