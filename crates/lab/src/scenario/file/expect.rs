//! The `[expect]` section of a scenario file.

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::settings::settings;
use crate::scenario::value::{Portion, Speed, Time};

settings! {
    /// `[expect.reno]` and so on: the expectations for the runs of one controller.
    struct BoundSettings {
        finished: Option<bool>,
        within: Option<Time>,
        median_within: Option<Time>,
        p99_within: Option<Time>,
        goodput_at_least: Option<Speed>,
        goodput_at_most: Option<Speed>,
        mean_goodput_at_least: Option<Speed>,
        mean_goodput_at_most: Option<Speed>,
        utilisation_at_least: Option<Portion>,
        floor_reached: Option<Portion>,
        loss_at_most: Option<Portion>,
        mean_queue_delay_at_most: Option<Time>,
        jain_at_least: Option<Portion>,
        shares: Option<Vec<ShareSettings>>,
        settled_after: Option<Time>,
    }
    /// `[expect]`: the expectations for all runs, unless a controller's table overrides them.
    for all in ExpectSettings { reno, cubic, bbr }
}

/// The expected share of a flow in all delivered bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct ShareSettings {
    pub(in crate::scenario) flow: Spanned<String>,
    pub(in crate::scenario) at_least: Option<Portion>,
    pub(in crate::scenario) at_most: Option<Portion>,
    pub(in crate::scenario) mean_at_least: Option<Portion>,
    pub(in crate::scenario) mean_at_most: Option<Portion>,
}
