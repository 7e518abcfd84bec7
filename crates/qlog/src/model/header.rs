//! What is known of a trace beside its columns.

use core::time::Duration;

use serde_json::{Value, json};

use super::Remark;
use super::series::milliseconds;
use crate::read::Reading;

/// The version of the layout; a page refuses others.
const VERSION: u32 = 1;

pub(super) fn header(
    reading: &Reading,
    last: Duration,
    round_trip: Option<f64>,
    is_thinned: bool,
) -> Value {
    let damage = reading.damage.as_ref();
    let damage = damage.map(|damage| json!({ "offset": damage.offset, "why": damage.why }));
    let unused: Vec<(&String, &u64)> = reading.unused.iter().collect();
    json!({
        "version": VERSION,
        "title": reading.title.as_deref().unwrap_or_default(),
        "connection": reading.connection,
        "vantage": reading.vantage_point.name(),
        "dialect": reading.dialect,
        "duration_ms": milliseconds(last),
        "events": reading.events,
        "unused": unused,
        "damage": damage,
        "thinned": is_thinned,
        "round_trip_ms": round_trip,
    })
}

pub(super) fn remark(remark: &Remark) -> Value {
    json!({
        "id": remark.id,
        "title": remark.title,
        "severity": remark.severity,
        "begin_ms": milliseconds(remark.begin),
        "end_ms": milliseconds(remark.end),
        "figures": remark.figures,
        "meaning": remark.meaning,
        "causes": remark.causes,
        "explanation": remark.explanation,
    })
}
