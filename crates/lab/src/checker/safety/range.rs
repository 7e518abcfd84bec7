//! S3: the congestion window, the slow start threshold and the pacing rate are within their ranges.

use clearway_units::Rate;

use crate::checker::properties::Property;
use crate::checker::records::{EndpointRecords, Report};
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Range;

impl Rule for Range {
    const PROPERTY: Property = Property::S3;

    fn on_report(&mut self, records: &EndpointRecords, report: &Report<'_>) -> Verdict {
        let (congestion, floor) = (&report.after.congestion, records.floor());
        let window = congestion.window;
        if window < floor.max(congestion.minimum_window) {
            return Err(format!("the window of {window} bytes is below the minimum of {floor}"));
        }
        if window > records.config.maximum_window {
            return Err(format!("the window of {window} bytes is above the configured maximum"));
        }
        if let Some(threshold) = congestion.slow_start_threshold.filter(|bytes| *bytes < floor) {
            return Err(format!("the slow start threshold of {threshold} bytes is below {floor}"));
        }
        match report.after.pacing_rate {
            Some(Rate::ZERO) => Err("the pacing rate is zero".to_owned()),
            Some(Rate::MAX) => Err("the pacing rate is unbounded".to_owned()),
            _ => Ok(()),
        }
    }
}
