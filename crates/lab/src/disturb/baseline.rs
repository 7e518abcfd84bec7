//! The undisturbed run, from which injection points and time limits are derived.

use core::time::Duration;

use clearway_network::{Moment, Way};

use crate::run::{Candidate, Extras, Outcome, RunError, run};
use crate::samples::Sample;
use crate::setup::Setup;

/// The undisturbed run of a setup.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The outcome of the undisturbed run.
    pub outcome: Outcome,
    /// The data sent and received at regular points in time.
    samples: Vec<Sample>,
}

/// The time between two samples, and between two injection points that are given as times.
const INTERVAL: Duration = Duration::from_millis(1);
/// The maximum number of samples in the longest run that the setup allows.
const MOST_SAMPLES: u32 = 100_000;

impl Baseline {
    /// Runs `setup` without a disturbance.
    ///
    /// # Errors
    /// Returns an error if the setup cannot be run.
    pub fn measure(setup: &Setup, candidate: &Candidate, seed: u64) -> Result<Self, RunError> {
        let interval = INTERVAL.max(setup.limit / MOST_SAMPLES);
        let extras = Extras { check: true, sample_every: Some(interval), ..Extras::default() };
        let mut outcome = run(setup, candidate, seed, extras)?;
        let samples = core::mem::take(&mut outcome.samples);
        Ok(Self { outcome, samples })
    }

    /// Returns how many datagrams were sent in the direction `way`.
    pub fn datagrams(&self, way: Way) -> u64 {
        self.outcome.network.of(way).received
    }

    /// Returns a time shortly before the injection point `moment`.
    pub(super) fn time_before(&self, moment: Moment) -> Duration {
        match moment {
            Moment::After(after) => after,
            Moment::Datagram { way, number } => {
                let later = self.samples.partition_point(|sample| sample.sent(way) < number);
                self.sample(later).map_or(Duration::ZERO, |sample| sample.at.since_origin())
            }
        }
    }

    /// Returns a lower bound for the total bytes of content that the flows had received at `time`.
    pub(super) fn received(&self, time: Duration) -> u64 {
        let later = self.samples.partition_point(|sample| sample.at.since_origin() <= time);
        self.sample(later).map_or(0, |sample| sample.received.iter().sum())
    }

    /// Returns the last sample before the one at `later`.
    fn sample(&self, later: usize) -> Option<&Sample> {
        self.samples.get(later.checked_sub(1)?)
    }
}
