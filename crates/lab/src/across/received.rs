//! How much each flow's receiver received, and when.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_transport::{Observation, Observer};
use clearway_units::Timestamp;

use crate::run::{Candidate, Extras, Outcome, RunError, run};
use crate::setup::Setup;
use crate::world::{EndId, Side};

/// How far apart the points of a series are.
const INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of packets that each flow's receiver could use, over time.
#[derive(Clone, Debug, Default)]
pub struct Received {
    series: AllSeries,
    receivers: Vec<EndId>,
}

/// Shared with observers, which may be anywhere.
type AllSeries = Arc<Mutex<BTreeMap<EndId, Series>>>;

fn lock(series: &AllSeries) -> MutexGuard<'_, BTreeMap<EndId, Series>> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Series {
    total: u64,
    points: Vec<(Timestamp, u64)>,
}

impl Series {
    fn add(&mut self, now: Timestamp, bytes: u64) {
        if self.points.last().is_none_or(|(at, _)| *at + INTERVAL <= now) {
            self.points.push((now, self.total));
        }
        self.total += bytes;
    }

    /// What had been received before `at`.
    fn before(&self, at: Timestamp) -> u64 {
        let next = self.points.partition_point(|(point, _)| *point < at);
        self.points.get(next).map_or(self.total, |(_, total)| *total)
    }
}

/// Simulates `setup` and notes what its flows receive.
///
/// # Errors
/// Those of [`run`].
pub fn run_noting(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
) -> Result<(Outcome, Received), RunError> {
    let receivers = setup.flows.iter().enumerate().map(|(flow, it)| EndId {
        flow,
        side: if it.traffic.is_upload() { Side::Server } else { Side::Client },
    });
    let received = Received { series: Arc::default(), receivers: receivers.collect() };
    let noted = received.clone();
    let observers = move |end| noted.receivers.contains(&end).then(|| noted.note(end));
    let extras = Extras { observers: Some(Box::new(observers)), ..Extras::default() };
    Ok((run(setup, candidate, seed, extras)?, received))
}

impl Received {
    fn note(&self, end: EndId) -> Box<dyn Observer> {
        Box::new(Note { series: self.series.clone(), end })
    }

    /// Bytes that each flow received between two points in time, in the order of the setup.
    pub fn between(&self, from: Duration, until: Duration) -> Vec<u64> {
        let series = lock(&self.series);
        let [from, until] = [from, until].map(Timestamp::from_origin);
        let of = |series: &Series| series.before(until).saturating_sub(series.before(from));
        self.receivers.iter().map(|end| series.get(end).map_or(0, of)).collect()
    }
}

struct Note {
    series: AllSeries,
    end: EndId,
}

impl Observer for Note {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Observation::PacketReceived(packet) = observation {
            let mut series = lock(&self.series);
            series.entry(self.end).or_default().add(now, packet.size as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_came_before_a_point_in_time() {
        let mut series = Series::default();
        let at = |milliseconds| Timestamp::from_origin(Duration::from_millis(milliseconds));
        for (milliseconds, bytes) in [(5, 1), (7, 2), (15, 4), (40, 8)] {
            series.add(at(milliseconds), bytes);
        }
        assert_eq!(series.before(at(5)), 0);
        assert_eq!(series.before(at(15)), 3);
        assert_eq!(series.before(at(16)), 7);
        assert_eq!(series.before(at(41)), 15);
    }
}
