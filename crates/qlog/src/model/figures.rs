//! Series of what the controller computes with: which there are, only the trace knows.

use core::time::Duration;

use super::MAX_POINTS;
use super::header::{SeriesHeader, Unit};
use super::series::Series;
use crate::read::{Figure, FigureUnit};

/// Distinct figures that are kept; of others nothing is shown.
const MAX_FIGURES: usize = 16;
/// Of what is looked at beside something else, less is enough.
const MAX_FIGURE_POINTS: usize = MAX_POINTS / 4;
/// A longer name is cut.
const MAX_NAME: usize = 64;

/// A figure over time.
#[derive(Debug)]
pub(super) struct FigureSeries {
    name: String,
    unit: FigureUnit,
    pub(super) series: Series,
}

impl FigureSeries {
    /// Its ID: no other series has one like it.
    pub(super) fn id(&self) -> String {
        format!("controller.{}", self.name)
    }

    /// As the header names it; the page shows it if it is asked to.
    pub(super) fn declaration(&self) -> SeriesHeader {
        let unit = match self.unit {
            FigureUnit::Bytes => Unit::Bytes,
            FigureUnit::Milliseconds => Unit::Milliseconds,
            FigureUnit::BitsPerSecond => Unit::BytesPerSecond,
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
    fn value(&self, figure: &Figure) -> f64 {
        let value = figure.value.unwrap_or(f64::NAN);
        if self.unit == FigureUnit::BitsPerSecond { value / 8.0 } else { value }
    }
}

/// All of them, in the order in which they came up.
#[derive(Default, Debug)]
pub(super) struct Figures(Vec<FigureSeries>);

impl Figures {
    pub(super) fn push(&mut self, at: Duration, figures: &[Figure]) {
        for figure in figures {
            if let Some(known) = self.known(figure) {
                let value = known.value(figure);
                known.series.push(at, value);
            }
        }
    }

    fn known(&mut self, figure: &Figure) -> Option<&mut FigureSeries> {
        let is_it = |known: &FigureSeries| {
            known.unit == figure.unit && figure.name.chars().take(MAX_NAME).eq(known.name.chars())
        };
        let index = self.0.iter().position(is_it).unwrap_or(self.0.len());
        if index == self.0.len() && index < MAX_FIGURES {
            let name = figure.name.chars().take(MAX_NAME).collect();
            let series = Series::new(MAX_FIGURE_POINTS);
            self.0.push(FigureSeries { name, unit: figure.unit, series });
        }
        self.0.get_mut(index)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, FigureSeries> {
        self.0.iter()
    }
}
