//! The data that a page gets as JSON, besides columns.
//!
//! `viewer/src/protocol.ts` declares the same types; the tests here generate it. `viewer/README.md` explains the fields.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use super::series::milliseconds;
use crate::findings::Finding;
use crate::read::{Reading, VantagePoint};

/// The version of the layout; a page refuses others.
pub(super) const VERSION: u32 = 1;

/// A trace without its columns. While it is being written, its series, lanes and marks have no columns, and it has no
/// packets.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct Header {
    /// The version of this layout.
    pub version: u32,
    /// What the trace is called.
    pub title: String,
    /// The Original Destination Connection ID (RFC 9000, section 7.2) in lower-case hexadecimal, which is the same at
    /// both ends; null: unknown.
    pub connection: Option<String>,
    /// The end that wrote the trace.
    pub vantage: VantagePoint,
    /// The qlog version or schemas that the file names.
    pub dialect: String,
    /// Its length in ms.
    pub duration_ms: f64,
    /// How many events were read.
    pub events: u64,
    /// Names of events that are not shown, and how many there were.
    pub unused: Vec<(String, u64)>,
    /// Where the file is damaged, if it is.
    pub damage: Option<DamageHeader>,
    /// Whether samples or packets were left out to keep the page small.
    pub thinned: bool,
    /// The median smoothed RTT in ms, the unit of the axis in round trips; null: unknown.
    pub round_trip_ms: Option<f64>,
    /// Quantities over time.
    pub series: Vec<SeriesHeader>,
    /// States over time.
    pub lanes: Vec<LaneHeader>,
    /// Points in time at which something happened.
    pub marks: Vec<MarksHeader>,
    /// The table of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub packets: Option<PacketsHeader>,
    /// The frames of all packets as text in UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub text: Option<ColumnPlace>,
    /// What is wrong, worst first.
    pub findings: Vec<FindingHeader>,
}

/// Where a file is damaged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Damage"))]
pub struct DamageHeader {
    /// How many bytes were read, after decompression.
    pub offset: u64,
    /// What is wrong there.
    pub why: String,
}

/// Where a column lies in the block of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ColumnPlace {
    /// Its first byte, a multiple of 8.
    pub offset: usize,
    /// How many elements it has.
    pub length: usize,
    /// What they are.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// The type of a column's elements, which are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum ColumnType {
    F64,
    U32,
    U16,
    U8,
}

/// The unit of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes per second; a page shows bits per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
}

/// A quantity over time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SeriesHeader {
    /// Its name in the protocol.
    pub id: String,
    /// Its name on the page.
    pub title: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether a value holds until the next; otherwise samples are joined by straight lines.
    pub step: bool,
    /// Whether it is hidden until it is asked for.
    pub detail: bool,
    /// Times in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub time: Option<ColumnPlace>,
    /// Values; NaN: unknown from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub value: Option<ColumnPlace>,
}

/// States over time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LaneHeader {
    /// Its name in the protocol.
    pub id: String,
    /// Its name on the page.
    pub title: String,
    /// The names of its states.
    pub names: Vec<String>,
    /// When each segment begins, in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub begin: Option<ColumnPlace>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub end: Option<ColumnPlace>,
    /// Its state, an index into `names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub state: Option<ColumnPlace>,
}

/// Points in time at which something happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MarksHeader {
    /// Their name in the protocol.
    pub id: String,
    /// Their name on the page.
    pub title: String,
    /// Times in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub time: Option<ColumnPlace>,
    /// The row of the packet that each concerns, or `NO_PACKET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub packet: Option<ColumnPlace>,
    /// How many packets each stands for; without this column, one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub count: Option<ColumnPlace>,
}

/// The table of packets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PacketsHeader {
    /// Times in ms, ascending.
    pub time: ColumnPlace,
    /// What happened to each, an index into `KINDS`.
    pub kind: ColumnPlace,
    /// The type of each, an index into `spaces`.
    pub space: ColumnPlace,
    /// The names of packet types.
    pub spaces: Vec<String>,
    /// Packet numbers; NaN: none.
    pub number: ColumnPlace,
    /// Sizes in bytes; 0: unknown.
    pub size: ColumnPlace,
    /// Where the frames of each begin in `text`, and a last one where those of the last packet end.
    pub frames: ColumnPlace,
}

/// Something that a trace shows to be wrong.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Finding"))]
pub struct FindingHeader {
    /// Its name in the catalogue.
    pub id: String,
    /// What was found, in twelve words at most.
    pub headline: String,
    /// About how many seconds it cost; findings are ordered by it.
    pub severity: f64,
    /// When it began.
    pub begin_ms: f64,
    /// When it ended.
    pub end_ms: f64,
    /// What was measured: names, and values with their units.
    pub metrics: Vec<(String, String)>,
    /// What it means.
    pub meaning: String,
    /// What usually causes it.
    pub causes: String,
}

/// What is new of a trace that is still being written.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Rows {
    /// Series that the header did not declare.
    pub declared: Vec<SeriesHeader>,
    /// Of each series: time, and value; null: unknown from here on.
    pub series: BTreeMap<String, Vec<(f64, Option<f64>)>>,
    /// Of each lane: begin, end and name of segments; null: it has not ended.
    pub lanes: BTreeMap<String, Vec<(f64, Option<f64>, String)>>,
    /// Of all marks of a name: time, and how many packets each stands for; null: one.
    pub marks: BTreeMap<String, Vec<(f64, Option<f64>)>>,
    /// All findings so far, worst first.
    pub findings: Vec<FindingHeader>,
}

/// A trace in the list of those that a program serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TraceName {
    /// What it is called.
    pub name: String,
}

impl Header {
    /// The header of a trace of this `length`, from `reading`; it has nothing to draw yet.
    pub(super) fn new(reading: &Reading, length: Duration) -> Self {
        let damage = reading.damage.as_ref();
        Self {
            version: VERSION,
            title: reading.title.clone().unwrap_or_default(),
            connection: reading.connection.clone(),
            vantage: reading.vantage_point,
            dialect: reading.dialect.clone(),
            duration_ms: milliseconds(length),
            events: reading.events,
            unused: reading.unused.iter().map(|(name, count)| (name.clone(), *count)).collect(),
            damage: damage
                .map(|damage| DamageHeader { offset: damage.offset, why: damage.why.clone() }),
            thinned: false,
            round_trip_ms: None,
            series: Vec::new(),
            lanes: Vec::new(),
            marks: Vec::new(),
            packets: None,
            text: None,
            findings: Vec::new(),
        }
    }
}

impl From<&Finding> for FindingHeader {
    fn from(finding: &Finding) -> Self {
        let entry = finding.id.entry();
        let metrics = finding.metrics.iter();
        Self {
            id: entry.name.to_owned(),
            headline: finding.headline.clone(),
            severity: finding.severity,
            begin_ms: milliseconds(finding.begin),
            end_ms: milliseconds(finding.end),
            metrics: metrics.map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            meaning: entry.meaning.to_owned(),
            causes: entry.causes.to_owned(),
        }
    }
}
