//! The additions to a trace that is still being written.

use std::collections::BTreeMap;

use super::controller_metrics::MetricSeries;
use super::header::{EndingHeader, FindingHeader, Header, LaneHeader, MarksHeader, Rows};
use super::series::Series;
use super::{LOST_COUNTED, MARKS, ModelBuilder, SERIES, declaration};
use crate::findings::{Ending, EndingKind, Finding};
use crate::read::Reading;

/// Tracks how much of a trace was sent to a page.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Follower {
    series: [usize; SERIES.len()],
    /// The number of points that were sent for each declared controller metric.
    controller_metrics: Vec<usize>,
    lanes: [usize; 3],
    marks: [usize; MARKS.len()],
}

impl Follower {
    /// Returns the header of a trace of which only `reading` is known so far. It declares, by ID,
    /// all series, lanes and marks that may follow.
    pub fn header(builder: &ModelBuilder, reading: &Reading) -> Header {
        let lanes = builder.lanes().map(|lane| LaneHeader {
            id: lane.id().to_owned(),
            title: lane.title().to_owned(),
            names: Vec::new(),
            begin: None,
            end: None,
            state: None,
        });
        let marks = MARKS.map(|(id, title)| MarksHeader {
            id: id.to_owned(),
            title: title.to_owned(),
            time: None,
            packet: None,
            count: None,
        });
        Header {
            series: SERIES.iter().map(declaration).collect(),
            lanes: lanes.to_vec(),
            marks: marks.to_vec(),
            ..Header::new(reading, builder.last)
        }
    }

    /// Returns whether some of the points that were sent no longer exist because a series was
    /// thinned. The page then has to start over with a header and a new follower.
    pub fn is_outrun(&self, builder: &ModelBuilder) -> bool {
        let series =
            self.series.iter().enumerate().any(|(index, sent)| {
                builder.known(index).is_some_and(|series| series.len() < *sent)
            });
        let metrics = self.controller_metrics.iter().zip(builder.controller_metrics.iter());
        let metrics = metrics.into_iter().any(|(sent, metric)| metric.series.len() < *sent);
        series
            || metrics
            || self.marks.iter().zip(builder.marks()).any(|(sent, marks)| marks.len() < *sent)
    }

    /// Returns the additions since the last call, how the connection ended (if it has), and all
    /// findings so far.
    pub fn rows(
        &mut self,
        builder: &ModelBuilder,
        ending: Option<&Ending>,
        findings: &[Finding],
    ) -> Rows {
        let ending = ending.filter(|ending| ending.kind != EndingKind::Open);
        let mut rows = Rows {
            declared: builder
                .controller_metrics
                .iter()
                .skip(self.controller_metrics.len())
                .map(MetricSeries::declaration)
                .collect(),
            ending: ending.map(EndingHeader::from),
            findings: findings.iter().map(FindingHeader::from).collect(),
            ..Rows::default()
        };
        for (index, ((id, ..), sent)) in SERIES.iter().zip(&mut self.series).enumerate() {
            insert(&mut rows.series, id, points(builder.known(index), sent));
        }
        self.controller_metrics.resize(builder.controller_metrics.len(), 0);
        for (metric, sent) in builder.controller_metrics.iter().zip(&mut self.controller_metrics) {
            insert(&mut rows.series, &metric.id(), points(Some(&metric.series), sent));
        }
        for (lane, sent) in builder.lanes().into_iter().zip(&mut self.lanes) {
            let spans = lane.since(*sent).map(|(begin, end, name)| (begin, end, name.to_owned()));
            insert(&mut rows.lanes, lane.id(), spans.collect());
            *sent = lane.len();
        }
        for (((id, _), known), sent) in MARKS.iter().zip(builder.marks()).zip(&mut self.marks) {
            let new = points(Some(known), sent).into_iter();
            let marks = new.map(|(time, count)| (time, count.filter(|_| *id == LOST_COUNTED)));
            insert(&mut rows.marks, id, marks.collect());
        }
        rows
    }
}

/// Returns the points that were not sent yet.
fn points(series: Option<&Series>, sent: &mut usize) -> Vec<(f64, Option<f64>)> {
    let Some(series) = series else { return Vec::new() };
    let new = series.since(*sent).iter();
    let new = new.map(|(time, value)| (*time, Some(*value).filter(|value| !value.is_nan())));
    *sent = series.len();
    new.collect()
}

/// Inserts `rows`, unless there are none.
fn insert<T>(map: &mut BTreeMap<String, Vec<T>>, id: &str, rows: Vec<T>) {
    if !rows.is_empty() {
        map.insert(id.to_owned(), rows);
    }
}
