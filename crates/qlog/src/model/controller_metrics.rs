//! Time series of the congestion controller's internal variables. The trace determines which of
//! them exist.

use core::time::Duration;

use super::MAX_POINTS;
use super::header::{SeriesHeader, Unit};
use super::series::Series;
use crate::read::{Metric, MetricUnit};

/// The maximum number of distinct metrics that are kept; additional metrics are not shown.
const MAX_METRICS: usize = 16;
/// The maximum number of points of a metric. Fewer are enough because metrics are shown in addition
/// to other series.
const MAX_METRIC_POINTS: usize = MAX_POINTS / 4;
/// The length at which names are truncated.
const MAX_NAME: usize = 64;

/// A metric over time.
#[derive(Debug)]
pub(super) struct MetricSeries {
    name: String,
    unit: MetricUnit,
    pub(super) series: Series,
}

impl MetricSeries {
    /// Returns the ID of the series, which is unique among all series.
    pub(super) fn id(&self) -> String {
        format!("controller.{}", self.name)
    }

    /// Returns the header of the series. The page shows it only if the user selects it.
    pub(super) fn declaration(&self) -> SeriesHeader {
        let unit = match self.unit {
            MetricUnit::Bytes => Unit::Bytes,
            MetricUnit::Milliseconds => Unit::Milliseconds,
            MetricUnit::BitsPerSecond => Unit::BytesPerSecond,
        };
        SeriesHeader {
            id: self.id(),
            title: self.name.clone(),
            unit,
            step: true,
            detail: true,
            time: None,
            value: None,
        }
    }

    /// Converts a value to the unit that the page uses.
    fn value(&self, metric: &Metric) -> f64 {
        let value = metric.value.unwrap_or(f64::NAN);
        if self.unit == MetricUnit::BitsPerSecond { value / 8.0 } else { value }
    }
}

/// All metrics, in the order in which they first occurred.
#[derive(Default, Debug)]
pub(super) struct ControllerMetrics(Vec<MetricSeries>);

impl ControllerMetrics {
    pub(super) fn push(&mut self, at: Duration, metrics: &[Metric]) {
        for metric in metrics {
            if let Some(known) = self.known(metric) {
                let value = known.value(metric);
                known.series.push(at, value);
            }
        }
    }

    fn known(&mut self, metric: &Metric) -> Option<&mut MetricSeries> {
        let is_it = |known: &MetricSeries| {
            known.unit == metric.unit && metric.name.chars().take(MAX_NAME).eq(known.name.chars())
        };
        let index = self.0.iter().position(is_it).unwrap_or(self.0.len());
        if index == self.0.len() && index < MAX_METRICS {
            let name = metric.name.chars().take(MAX_NAME).collect();
            let series = Series::new(MAX_METRIC_POINTS);
            self.0.push(MetricSeries { name, unit: metric.unit, series });
        }
        self.0.get_mut(index)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, MetricSeries> {
        self.0.iter()
    }
}
