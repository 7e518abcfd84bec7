//! Series of what the controller computes with: which there are, only the trace knows.

use core::time::Duration;

use super::MAX_POINTS;
use super::header::{SeriesHeader, Unit};
use super::series::Series;
use crate::read::{Metric, MetricUnit};

/// Distinct metrics that are kept; of others nothing is shown.
const MAX_FIGURES: usize = 16;
/// These series are secondary, so fewer points suffice.
const MAX_FIGURE_POINTS: usize = MAX_POINTS / 4;
/// A longer name is cut.
const MAX_NAME: usize = 64;

/// A metric over time.
#[derive(Debug)]
pub(super) struct MetricSeries {
    name: String,
    unit: MetricUnit,
    pub(super) series: Series,
}

impl MetricSeries {
    /// Its ID: no other series has one like it.
    pub(super) fn id(&self) -> String {
        format!("controller.{}", self.name)
    }

    /// As the header names it; the page shows it if it is asked to.
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

    /// A value in the unit of the page.
    fn value(&self, metric: &Metric) -> f64 {
        let value = metric.value.unwrap_or(f64::NAN);
        if self.unit == MetricUnit::BitsPerSecond { value / 8.0 } else { value }
    }
}

/// All of them, in the order in which they came up.
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
        if index == self.0.len() && index < MAX_FIGURES {
            let name = metric.name.chars().take(MAX_NAME).collect();
            let series = Series::new(MAX_FIGURE_POINTS);
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
