use core::time::Duration;

use clearway_units::Rate;

/// What is expected of the runs of one variant with one controller. `None`: nothing.
///
/// A *run* takes from its start (virtual time zero) until every flow that is not optional has
/// finished. Times are those of runs. Only flows that are not optional are judged, except by
/// `utilisation`, `loss`, `queue delay`, Jain's index and shares, which are about the link and all who
/// use it.
#[derive(Clone, PartialEq, Debug)]
pub struct Expectations {
    /// Every run finishes before the limit.
    pub finished: bool,
    /// The longest time of a run.
    pub within: Option<Duration>,
    /// The median of the runs' times.
    pub median_within: Option<Duration>,
    /// The 99th percentile of the runs' times.
    pub p99_within: Option<Duration>,
    /// Bytes that the application received, divided by the time from the flow's start to its end: of
    /// each flow in every run.
    pub goodput_at_least: Option<Rate>,
    /// See `goodput_at_least`.
    pub goodput_at_most: Option<Rate>,
    /// The same, as the mean over all runs and flows.
    pub mean_goodput_at_least: Option<Rate>,
    /// See `mean_goodput_at_least`.
    pub mean_goodput_at_most: Option<Rate>,
    /// What part of the capacity of the way that the data takes was used between the first flow's
    /// start and the end of the run, 0 to 1, in every run. Needs a rate or a trace.
    pub utilisation_at_least: Option<f64>,
    /// In what part of the runs, 0 to 1, the window of some flow's sender was at its smallest
    /// allowed value at some time.
    pub floor_reached: Option<f64>,
    /// What part of all datagrams that were sent on the way that the data takes was dropped, for
    /// whatever reason, 0 to 1, in every run.
    pub loss_at_most: Option<f64>,
    /// The mean time that datagrams waited for the bottleneck on the way that the data takes, in
    /// every run, from `settled_after` on.
    pub mean_queue_delay_at_most: Option<Duration>,
    /// Jain's index of what the flows received from `settled_after` to the end of the first one that
    /// ends, 0 to 1, in every run.
    pub jain_at_least: Option<f64>,
    /// What part each flow (or each group of copies) has of what all flows received in that time.
    pub shares: Vec<ShareBound>,
    /// From when on queue delay, Jain's index and shares are measured, counted from the start of the
    /// run.
    pub settled_after: Duration,
}

impl Default for Expectations {
    /// Every run finishes, nothing else.
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

/// The bounds of what one flow, or one group of copies together, has of what all flows received.
#[derive(Clone, PartialEq, Debug)]
pub struct ShareBound {
    /// The flow's [`group`](crate::setup::Flow::group).
    pub group: String,
    /// The least part, 0 to 1.
    pub at_least: f64,
    /// The largest part, 0 to 1.
    pub at_most: f64,
}
