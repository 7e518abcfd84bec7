use core::time::Duration;

use clearway_units::Rate;

/// The expectations for the runs of one variant with one controller. A limit that is `None` is not
/// checked.
///
/// A *run* lasts from virtual time zero until every flow that is not optional has finished. Times
/// are durations of runs. Only flows that are not optional are considered, except for
/// `utilisation`, `loss`, `queue delay`, Jain's index and shares, which describe the link and all
/// flows that use it.
#[derive(Clone, PartialEq, Debug)]
pub struct Expectations {
    /// Whether every run must finish before the limit.
    pub finished: bool,
    /// The maximum duration of a run.
    pub within: Option<Duration>,
    /// The maximum median duration of the runs.
    pub median_within: Option<Duration>,
    /// The maximum 99th percentile of the runs' durations.
    pub p99_within: Option<Duration>,
    /// The minimum goodput of each flow in every run: the bytes that the application received,
    /// divided by the time from the flow's start to its end.
    pub goodput_at_least: Option<Rate>,
    /// The maximum goodput of each flow in every run; see `goodput_at_least`.
    pub goodput_at_most: Option<Rate>,
    /// The minimum mean goodput over all runs and flows.
    pub mean_goodput_at_least: Option<Rate>,
    /// The maximum mean goodput over all runs and flows.
    pub mean_goodput_at_most: Option<Rate>,
    /// The minimum utilization in every run, 0 to 1: the fraction of the capacity in the data
    /// direction that was used between the first flow's start and the end of the run. Requires a
    /// rate or a trace.
    pub utilisation_at_least: Option<f64>,
    /// The minimum share of runs, 0 to 1, in which the congestion window of some flow's sender
    /// reached its minimum.
    pub floor_reached: Option<f64>,
    /// The maximum loss in every run, 0 to 1: the fraction of datagrams sent in the data direction
    /// that were dropped, for any reason.
    pub loss_at_most: Option<f64>,
    /// The maximum mean queueing delay at the bottleneck in the data direction, in every run, after
    /// `settled_after`.
    pub mean_queue_delay_at_most: Option<Duration>,
    /// The minimum Jain's fairness index in every run, 0 to 1, computed over the bytes that the
    /// flows received between `settled_after` and the end of the flow that ends first.
    pub jain_at_least: Option<f64>,
    /// Limits for each flow's (or each group of copies') share of the bytes that all flows received
    /// in the period that `jain_at_least` covers.
    pub shares: Vec<ShareBound>,
    /// The time, counted from the start of the run, after which queueing delay, Jain's index and
    /// shares are measured.
    pub settled_after: Duration,
}

impl Expectations {
    /// Returns the expectations that apply to each run on its own, without those about all runs
    /// together: the median, the 99th percentile, means, and how often the floor is reached.
    pub fn of_one_run(&self) -> Self {
        let share = |share: &ShareBound| {
            let ShareBound { group, at_least, at_most, .. } = share.clone();
            ShareBound { group, at_least, at_most, mean_at_least: 0.0, mean_at_most: 1.0 }
        };
        Self {
            median_within: None,
            p99_within: None,
            mean_goodput_at_least: None,
            mean_goodput_at_most: None,
            floor_reached: None,
            shares: self.shares.iter().map(share).collect(),
            ..self.clone()
        }
    }
}

impl Default for Expectations {
    /// Expects only that every run finishes.
    fn default() -> Self {
        Self {
            finished: true,
            within: None,
            median_within: None,
            p99_within: None,
            goodput_at_least: None,
            goodput_at_most: None,
            mean_goodput_at_least: None,
            mean_goodput_at_most: None,
            utilisation_at_least: None,
            floor_reached: None,
            loss_at_most: None,
            mean_queue_delay_at_most: None,
            jain_at_least: None,
            shares: Vec::new(),
            settled_after: Duration::ZERO,
        }
    }
}

/// Limits for the share of all received bytes that one flow, or one group of copies, receives.
#[derive(Clone, PartialEq, Debug)]
pub struct ShareBound {
    /// The flow's [`group`](crate::setup::Flow::group).
    pub group: String,
    /// The minimum share, 0 to 1.
    pub at_least: f64,
    /// The maximum share, 0 to 1.
    pub at_most: f64,
    /// The minimum mean of the shares of all runs, 0 to 1.
    pub mean_at_least: f64,
    /// The maximum mean of the shares of all runs, 0 to 1.
    pub mean_at_most: f64,
}
