//! S3: ranges.

use clearway_units::Rate;

use crate::checker::books::{Books, Report};
use crate::checker::properties::Property;
use crate::checker::rule::{Rule, Verdict};

#[derive(Debug, Default)]
pub(in crate::checker) struct Range;

impl Rule for Range {
    const PROPERTY: Property = Property::S3;

    fn on_report(&mut self, books: &Books, report: &Report<'_>) -> Verdict {
        let (congestion, floor) = (&report.after.congestion, books.floor());
        let window = congestion.window;
        if window < floor.max(congestion.minimum_window) {
            return Err(format!("a window of {window} is below the least, {floor}"));
        }
        if window > books.terms.maximum_window {
            return Err(format!("a window of {window} is above the configured maximum"));
        }
        if let Some(threshold) = congestion.slow_start_threshold.filter(|bytes| *bytes < floor) {
            return Err(format!("a slow start threshold of {threshold} is below {floor}"));
        }
        match report.after.pacing_rate {
            Some(Rate::ZERO) => Err("a pacing rate of zero".to_owned()),
            Some(Rate::MAX) => Err("a pacing rate without bound".to_owned()),
            _ => Ok(()),
        }
    }
}
