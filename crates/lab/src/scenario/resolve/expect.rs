//! Resolves the expectations.

use core::time::Duration;

use crate::scenario::error::Fault;
use crate::scenario::file::expect::{BoundSettings, ExpectSettings, ShareSettings};
use crate::scenario::value::Portion;
use crate::scenario::{Expectations, ShareBound};
use crate::setup::Setup;

impl ExpectSettings {
    /// Returns the bounds that apply to a controller.
    pub(super) fn of(&self, controller: &str) -> BoundSettings {
        match controller {
            "reno" => self.reno(),
            "cubic" => self.cubic(),
            "bbr" => self.bbr(),
            _ => BoundSettings::default(),
        }
    }
}

pub(super) fn expectations(bounds: &BoundSettings, setup: &Setup) -> Result<Expectations, Fault> {
    let portion = |portion: &Option<Portion>| portion.map(|portion| portion.0.get());
    let shares = bounds.shares.as_deref().unwrap_or_default();
    Ok(Expectations {
        finished: bounds.finished.unwrap_or(true),
        within: bounds.within.map(|time| time.0),
        median_within: bounds.median_within.map(|time| time.0),
        p99_within: bounds.p99_within.map(|time| time.0),
        goodput_at_least: bounds.goodput_at_least.map(|rate| rate.0),
        goodput_at_most: bounds.goodput_at_most.map(|rate| rate.0),
        mean_goodput_at_least: bounds.mean_goodput_at_least.map(|rate| rate.0),
        mean_goodput_at_most: bounds.mean_goodput_at_most.map(|rate| rate.0),
        utilisation_at_least: portion(&bounds.utilisation_at_least),
        floor_reached: portion(&bounds.floor_reached),
        loss_at_most: portion(&bounds.loss_at_most),
        mean_queue_delay_at_most: bounds.mean_queue_delay_at_most.map(|time| time.0),
        jain_at_least: portion(&bounds.jain_at_least),
        shares: shares.iter().map(|share| share_bound(share, setup)).collect::<Result<_, _>>()?,
        settled_after: bounds.settled_after.map_or(Duration::ZERO, |time| time.0),
    })
}

fn share_bound(share: &ShareSettings, setup: &Setup) -> Result<ShareBound, Fault> {
    let group = share.flow.get_ref();
    let mut groups: Vec<_> = setup.flows.iter().map(|flow| flow.group.as_str()).collect();
    groups.dedup();
    if !groups.contains(&group.as_str()) {
        return Err(Fault::unknown(share.flow.span(), "flow", group, &groups));
    }
    let or = |portion: Option<Portion>, default| portion.map_or(default, |portion| portion.0.get());
    let bound = ShareBound {
        group: group.clone(),
        at_least: or(share.at_least, 0.0),
        at_most: or(share.at_most, 1.0),
        mean_at_least: or(share.mean_at_least, 0.0),
        mean_at_most: or(share.mean_at_most, 1.0),
    };
    if bound.at_least > bound.at_most {
        return Err(Fault::new(share.flow.span(), "at_least is larger than at_most"));
    }
    if bound.mean_at_least > bound.mean_at_most {
        return Err(Fault::new(share.flow.span(), "mean_at_least is larger than mean_at_most"));
    }
    Ok(bound)
}
