//! The congestion control metrics of the server's connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clearway::transport::{LostPacket, Metrics};
use clearway::{Observation, Observer, Statistics, Timestamp};

/// The metrics of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// The current congestion window, in bytes; 0 before the first metrics.
    pub(super) window: u64,
    /// The smallest window so far, in bytes.
    pub(super) smallest_window: u64,
    /// The minimum window of the controller, in bytes.
    pub(super) floor: u64,
    /// Total time that the window has spent at its floor, excluding the current period.
    pub(super) at_floor: Duration,
    pub(super) congestion_events: u64,
    /// Number of packets declared lost.
    pub(super) lost: u64,
    /// Number of packets declared lost that had in fact arrived.
    pub(super) spurious: u64,
    /// Start of the current period at the floor; `None` if the window is not at its floor.
    pub(super) floor_since: Option<Timestamp>,
}

impl Watched {
    /// Returns whether the window fell to its floor.
    pub(super) const fn floor_reached(&self) -> bool {
        self.floor > 0 && self.smallest_window <= self.floor
    }

    fn on_metrics(&mut self, now: Timestamp, metrics: &Metrics) {
        let congestion = &metrics.congestion;
        self.smallest_window = match self.floor {
            0 => congestion.window,
            _ => self.smallest_window.min(congestion.window),
        };
        self.floor = congestion.minimum_window;
        self.window = congestion.window;
        self.congestion_events = congestion.congestion_events;
        self.leave_floor(now);
        if congestion.window <= congestion.minimum_window {
            self.floor_since = Some(now);
        }
    }

    fn leave_floor(&mut self, now: Timestamp) {
        if let Some(since) = self.floor_since.take() {
            self.at_floor += now.saturating_since(since);
        }
    }

    fn on_lost(&mut self, _packet: &LostPacket) {
        self.lost += 1;
    }

    /// Records the last metrics of a connection that was discarded.
    fn on_gone(&mut self, statistics: &Statistics) {
        self.congestion_events = statistics.congestion_events;
        self.lost = statistics.packets_lost;
        self.spurious = statistics.packets_spuriously_lost;
    }
}

/// The metrics of a run's connection, shared between its observer and the display.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Mutex<Watched>>);

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current metrics.
    pub(super) fn metrics(&self) -> Watched {
        self.lock().clone()
    }

    pub(super) fn on_gone(&self, statistics: &Statistics) {
        self.lock().on_gone(statistics);
    }
}

impl Observer for Watch {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        match observation {
            Observation::Metrics(metrics) => self.lock().on_metrics(now, metrics),
            Observation::PacketLost(packet) => self.lock().on_lost(packet),
            Observation::Closed(_) => self.lock().leave_floor(now),
            _ => {}
        }
    }
}
