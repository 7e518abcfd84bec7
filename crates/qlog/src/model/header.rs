//! The JSON that a page receives in addition to the columns.
//!
//! `viewer/src/protocol.ts` declares the same types and is generated from them by a test. `viewer/README.md` explains
//! the fields.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::findings::{Ending, Finding};
use crate::read::{Reading, VantagePoint};

/// The version of the layout. A page rejects any other version.
pub(super) const VERSION: u32 = 1;

/// A trace without its columns. While it is being written, its series, lanes and marks have no columns, and it has no
/// packets.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct Header {
    /// The version of this layout.
    pub version: u32,
    /// The title of the trace.
    pub title: String,
    /// The Original Destination Connection ID (RFC 9000, section 7.2) in lower-case hexadecimal, which is the same at
    /// both ends; null: unknown.
    pub connection: Option<String>,
    /// Where the trace was written.
    pub vantage: VantagePoint,
    /// The qlog version or schemas that the file names.
    pub dialect: String,
    /// The duration of the trace in ms.
    pub duration_ms: f64,
    /// The number of events that were read.
    pub events: u64,
    /// The names of events that are not shown, and the number of each.
    pub unused: Vec<(String, u64)>,
    /// Where the file is damaged, if it is.
    pub damage: Option<DamageHeader>,
    /// Whether samples, states or packets were left out to keep the page small.
    pub thinned: bool,
    /// The median smoothed RTT in ms, which is the unit of the axis in round trips; null: unknown.
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
    /// How the connection ended; null if it is still open.
    pub ending: Option<EndingHeader>,
    /// The detected problems, worst first.
    pub findings: Vec<FindingHeader>,
}

/// How a connection ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Ending"))]
pub struct EndingHeader {
    /// One line: which endpoint closed it, when, and why. It may contain text from the peer.
    pub text: String,
    /// Whether it failed: it ended with an error, or before the handshake was complete.
    pub failed: bool,
}

/// Damage in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Damage"))]
pub struct DamageHeader {
    /// The number of bytes that were read, after decompression.
    pub offset: u64,
    /// A description of the damage.
    pub why: String,
}

/// The location of a column in the block of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ColumnPlace {
    /// The offset of its first byte, a multiple of 8.
    pub offset: usize,
    /// The number of its elements.
    pub length: usize,
    /// The type of its elements.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// The type of a column's elements, which are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
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
    /// Its identifier in the protocol.
    pub id: String,
    /// Its name on the page.
    pub title: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether a value holds until the next one; otherwise samples are joined by straight lines.
    pub step: bool,
    /// Whether it is hidden until the user selects it.
    pub detail: bool,
    /// Times in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub time: Option<ColumnPlace>,
    /// The values; NaN: unknown from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub value: Option<ColumnPlace>,
}

/// States over time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LaneHeader {
    /// Its identifier in the protocol.
    pub id: String,
    /// Its name on the page.
    pub title: String,
    /// The names of its states.
    pub names: Vec<String>,
    /// When each segment begins, in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub begin: Option<ColumnPlace>,
    /// When each segment ends, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub end: Option<ColumnPlace>,
    /// The state of each segment, an index into `names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub state: Option<ColumnPlace>,
}

/// Points in time at which something happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MarksHeader {
    /// Their identifier in the protocol.
    pub id: String,
    /// Their name on the page.
    pub title: String,
    /// Times in ms, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub time: Option<ColumnPlace>,
    /// The row of the packet that each mark refers to, or `NO_PACKET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub packet: Option<ColumnPlace>,
    /// The number of packets that each mark represents; without this column, one.
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
    /// The kind of event of each row, an index into `KINDS`.
    pub kind: ColumnPlace,
    /// The packet type of each row, an index into `spaces`.
    pub space: ColumnPlace,
    /// The names of packet types.
    pub spaces: Vec<String>,
    /// Packet numbers; NaN: none.
    pub number: ColumnPlace,
    /// Sizes in bytes; 0: unknown.
    pub size: ColumnPlace,
    /// The offset in `text` at which the frames of each packet begin, followed by the offset at
    /// which those of the last packet end.
    pub frames: ColumnPlace,
}

/// A problem that a trace shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Finding"))]
pub struct FindingHeader {
    /// Its identifier in the catalog.
    pub id: String,
    /// A summary, in twelve words at most.
    pub headline: String,
    /// The approximate time that the problem cost, in seconds; findings are ordered by it.
    pub severity: f64,
    /// The time at which the problem began.
    pub begin_ms: f64,
    /// The time at which the problem ended.
    pub end_ms: f64,
    /// The measurements: the name, and the value with its unit.
    pub metrics: Vec<(String, String)>,
    /// An explanation of what the finding means.
    pub meaning: String,
    /// The usual causes.
    pub causes: String,
}

/// The additions to a trace that is still being written.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Rows {
    /// Series that the header did not declare.
    pub declared: Vec<SeriesHeader>,
    /// For each series, new points: time and value; null: unknown from here on.
    pub series: BTreeMap<String, Vec<(f64, Option<f64>)>>,
    /// For each lane, new segments: begin, end and state; end null: it has not ended.
    pub lanes: BTreeMap<String, Vec<(f64, Option<f64>, String)>>,
    /// For each kind of mark, new marks: time, and the number of packets that each represents;
    /// null: one.
    pub marks: BTreeMap<String, Vec<(f64, Option<f64>)>>,
    /// How the connection ended; null if it is still open.
    pub ending: Option<EndingHeader>,
    /// All findings so far, worst first.
    pub findings: Vec<FindingHeader>,
}

/// A trace in the list of traces that a program serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TraceName {
    /// The name of the trace.
    pub name: String,
}

impl Header {
    /// Creates the header of a trace that is `length` long and has no data yet, with the
    /// information in `reading`.
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
            ending: None,
            findings: Vec::new(),
        }
    }
}

impl From<&Ending> for EndingHeader {
    fn from(ending: &Ending) -> Self {
        Self { text: ending.to_string(), failed: ending.is_failure() }
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

/// Converts a time to the unit of the page.
pub(super) fn milliseconds(at: Duration) -> f64 {
    at.as_secs_f64() * 1e3
}
