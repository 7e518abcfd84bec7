use core::ops::Range;
use core::time::Duration;

use crate::run::Candidate;
use crate::setup::{Setup, Traffic};

/// The runs of one setup with one controller.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The setup of the runs.
    pub setup: &'a Setup,
    /// The controller under test.
    pub candidate: &'a Candidate,
    /// The seeds, one for each run.
    pub seeds: Range<u64>,
    /// The interval at which the flows' progress is sampled; `None` takes no samples.
    pub sample_every: Option<Duration>,
    /// Whether the properties of single runs are checked.
    pub check: bool,
    /// Whether a run continues after a violation, so that its outcome includes both the violation
    /// and the duration.
    pub goes_on: bool,
}

/// The cost of a run that transfers nothing, as the number of bytes that can be transferred in the
/// same CPU time.
const FIXED_COST: u64 = 200_000;
/// The assumed rate of endless transfers where nothing limits the rate, in bytes per second.
const UNKNOWN_RATE: u64 = 10_000_000;

impl Job<'_> {
    /// Returns the number of runs in the job.
    pub fn count(&self) -> usize {
        usize::try_from(self.seeds.end.saturating_sub(self.seeds.start)).unwrap_or(usize::MAX)
    }

    /// Returns the estimated cost of one run of the job, relative to other jobs.
    pub fn cost(&self) -> u64 {
        let network = &self.setup.network;
        let rate = [network.to_client.rate, network.to_server.rate].into_iter().flatten().max();
        let rate = rate.map_or(UNKNOWN_RATE, |rate| rate.bytes_per_second());
        let bytes = |traffic: &Traffic| match traffic {
            Traffic::Bulk { length } => {
                let milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                (rate / 1000).saturating_mul(milliseconds) / self.setup.flows.len().max(1) as u64
            }
            other => other.bytes().unwrap_or(0),
        };
        let parts = self.setup.flows.iter().flat_map(|flow| flow.traffic.parts());
        let flows = parts.map(bytes);
        flows.fold(FIXED_COST, u64::saturating_add)
    }
}

/// Returns, for each job, the total number of runs in all jobs up to and including it.
pub(super) fn ends(jobs: &[Job<'_>]) -> Vec<usize> {
    let total = |sum: &mut usize, job: &Job<'_>| {
        *sum = sum.saturating_add(job.count());
        Some(*sum)
    };
    jobs.iter().scan(0, total).collect()
}

/// Returns the job and the seed of run `number`, counted from zero across all jobs.
pub(super) fn locate(jobs: &[Job<'_>], ends: &[usize], number: usize) -> Option<(usize, u64)> {
    let index = ends.partition_point(|end| *end <= number);
    let job = jobs.get(index)?;
    let before = ends[index] - job.count();
    Some((index, job.seeds.start + (number - before) as u64))
}
