//! What is new of a trace that is still being written.

use serde_json::{Map, Value, json};

use super::figures::FigureSeries;
use super::series::Series;
use super::{LOST_COUNTED, MARKS, ModelBuilder, Remark, SERIES, declaration, header};
use crate::read::Reading;

/// How much of a trace a page has been told.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Follower {
    series: [usize; SERIES.len()],
    /// Of what the controller computes with: those that were declared.
    figures: Vec<usize>,
    lanes: [usize; 3],
    marks: [usize; MARKS.len()],
}

impl Follower {
    /// The header of a trace of which nothing is known yet but what `reading` says: everything that may come, by its ID.
    pub fn header(builder: &ModelBuilder, reading: &Reading) -> Value {
        let mut header = header::header(reading, builder.last, None, false);
        let series = SERIES.each_ref().map(declaration);
        let lanes = builder.lanes().map(|lane| json!({ "id": lane.id(), "title": lane.title() }));
        let marks = MARKS.map(|(id, title)| json!({ "id": id, "title": title }));
        if let Some(fields) = header.as_object_mut() {
            fields.insert("series".to_owned(), series.into());
            fields.insert("lanes".to_owned(), lanes.into());
            fields.insert("marks".to_owned(), marks.into());
            fields.insert("findings".to_owned(), json!([]));
        }
        header
    }

    /// Whether what was told is not all there any more: a series was thinned. Then a page has to begin anew, with a header
    /// and a new follower.
    pub fn is_outrun(&self, builder: &ModelBuilder) -> bool {
        let series =
            self.series.iter().enumerate().any(|(index, told)| {
                builder.known(index).is_some_and(|series| series.len() < *told)
            });
        let figures = self.figures.iter().zip(builder.figures.iter());
        let figures = figures.into_iter().any(|(told, figure)| figure.series.len() < *told);
        series
            || figures
            || self.marks.iter().zip(builder.marks()).any(|(told, marks)| marks.len() < *told)
    }

    /// What came since this was last asked, and what is wrong so far.
    pub fn rows(&mut self, builder: &ModelBuilder, remarks: &[Remark]) -> Value {
        let mut series = Map::new();
        for (index, ((id, ..), told)) in SERIES.iter().zip(&mut self.series).enumerate() {
            insert(&mut series, id, points(builder.known(index), told));
        }
        let declared: Vec<Value> = builder
            .figures
            .iter()
            .skip(self.figures.len())
            .map(FigureSeries::declaration)
            .collect();
        self.figures.resize(builder.figures.len(), 0);
        for (figure, told) in builder.figures.iter().zip(&mut self.figures) {
            let id = figure.id();
            insert(&mut series, &id, points(Some(&figure.series), told));
        }
        let mut lanes = Map::new();
        for (lane, told) in builder.lanes().into_iter().zip(&mut self.lanes) {
            let spans: Vec<_> = lane.since(*told).collect();
            *told = lane.len();
            insert(&mut lanes, lane.id(), spans);
        }
        let mut marks = Map::new();
        for (((id, _), known), told) in MARKS.iter().zip(builder.marks()).zip(&mut self.marks) {
            let new = points(Some(known), told);
            let times: Vec<Vec<f64>> = if *id == LOST_COUNTED {
                new.into_iter().map(|(time, count)| vec![time, count]).collect()
            } else {
                new.into_iter().map(|(time, _)| vec![time]).collect()
            };
            insert(&mut marks, id, times);
        }
        let findings: Vec<Value> = remarks.iter().map(header::remark).collect();
        json!({ "declared": declared, "series": series, "lanes": lanes, "marks": marks, "findings": findings })
    }
}

fn points(series: Option<&Series>, told: &mut usize) -> Vec<(f64, f64)> {
    let Some(series) = series else { return Vec::new() };
    let new = series.since(*told).to_vec();
    *told = series.len();
    new
}

/// Nothing new is not told.
fn insert<T: serde::Serialize>(map: &mut Map<String, Value>, id: &str, rows: Vec<T>) {
    if !rows.is_empty() {
        map.insert(id.to_owned(), json!(rows));
    }
}
