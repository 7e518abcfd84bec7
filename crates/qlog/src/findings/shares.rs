use core::time::Duration;

use super::state::State;
use crate::read::Blocked;

/// The share of time during which each limit applied to sending, from the end of the handshake to
/// the end of the connection.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shares {
    /// Each limit that occurred, with its share from zero to one, the largest share first.
    pub limits: Vec<(&'static str, f64)>,
}

/// Measures how long each limit applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    times: [Duration; LIMITS.len()],
    last: Duration,
}

const LIMITS: [&str; 7] = [
    "congestion window",
    "pacing",
    "application",
    "flow control",
    "amplification limit",
    "something else",
    "nothing known",
];

fn limit(state: &State) -> usize {
    if state.knows_blocked {
        return match state.blocked {
            Some(Blocked::CongestionControl) => 0,
            Some(Blocked::Pacing) => 1,
            Some(Blocked::Application) => 2,
            Some(Blocked::ConnectionFlowControl | Blocked::StreamFlowControl) => 3,
            Some(Blocked::Amplification) => 4,
            Some(Blocked::Other) => 5,
            None => 6,
        };
    }
    if state.window_is_full() {
        0
    } else if state.flow.reached_limit().is_some() {
        3
    } else {
        match state.flow.has_data() {
            Some(false) => 2,
            Some(true) | None => 6,
        }
    }
}

impl Clocks {
    /// Adds the time until `now`, during which the state did not change.
    pub(super) fn until(&mut self, now: Duration, state: &State) {
        let passed = now.saturating_sub(self.last);
        self.last = now;
        if state.rtt().is_some()
            && !state.is_closed
            && let Some(time) = self.times.get_mut(limit(state))
        {
            *time = time.saturating_add(passed);
        }
    }

    pub(super) fn shares(&self) -> Shares {
        let all: f64 = self.times.iter().map(Duration::as_secs_f64).sum();
        if all <= 0.0 {
            return Shares::default();
        }
        let shares = LIMITS.into_iter().zip(&self.times);
        let shares = shares.map(|(name, time)| (name, time.as_secs_f64() / all));
        let mut limits: Vec<_> = shares.filter(|(_, share)| *share >= 0.001).collect();
        limits.sort_by(|one, other| other.1.total_cmp(&one.1));
        Shares { limits }
    }
}
