//! The run that nothing disturbs, from which moments and bounds are taken.

use core::time::Duration;

use clearway_network::{Moment, Way};

use crate::run::{Candidate, Extras, Outcome, RunError, run};
use crate::samples::Sample;
use crate::setup::Setup;

/// What the run without a disturbance was like.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// What came of it.
    pub outcome: Outcome,
    /// What was sent and received until when.
    samples: Vec<Sample>,
}

/// Between two samples. The moments of a run that are times lie as far apart.
const INTERVAL: Duration = Duration::from_millis(1);
/// Not more samples than that in the longest run that the setup permits.
const MOST_SAMPLES: u32 = 100_000;

impl Baseline {
    /// Runs `setup` undisturbed.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn measure(setup: &Setup, candidate: &Candidate, seed: u64) -> Result<Self, RunError> {
        let interval = INTERVAL.max(setup.limit / MOST_SAMPLES);
        let extras = Extras { check: true, sample_every: Some(interval), ..Extras::default() };
        let mut outcome = run(setup, candidate, seed, extras)?;
        let samples = core::mem::take(&mut outcome.samples);
        Ok(Self { outcome, samples })
    }

    /// How many datagrams were sent in the direction `way`.
    pub fn datagrams(&self, way: Way) -> u64 {
        self.outcome.network.of(way).received
    }

    /// A time before `moment`, and close to it.
    pub(super) fn time_before(&self, moment: Moment) -> Duration {
        match moment {
            Moment::After(after) => after,
            Moment::Datagram { way, number } => {
                let later = self.samples.partition_point(|sample| sample.sent(way) < number);
                self.sample(later).map_or(Duration::ZERO, |sample| sample.at.since_origin())
            }
        }
    }

    /// Bytes of content that had been received at `time`, by all flows, at least.
    pub(super) fn received(&self, time: Duration) -> u64 {
        let later = self.samples.partition_point(|sample| sample.at.since_origin() <= time);
        self.sample(later).map_or(0, |sample| sample.received.iter().sum())
    }

    /// The last sample before the one at `later`.
    fn sample(&self, later: usize) -> Option<&Sample> {
        self.samples.get(later.checked_sub(1)?)
    }
}
