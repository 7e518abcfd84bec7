//! Reads the parts of a file and of a trace that precede the events, in all drafts.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::any_text::AnyText;
use super::clock::{self, Clock};
use super::number::Decimal;
use super::reading::{Reading, VantagePoint};

/// The members of a file's first record, or all members of a contained file except its traces.
#[derive(Deserialize, Default)]
pub(super) struct FileHeader<'a> {
    #[serde(borrow)]
    qlog_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    file_schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    trace: Option<TraceHeader<'a>>,
    #[serde(flatten, borrow)]
    own: FirstVersion<'a>,
}

/// The members of a trace except its events.
#[derive(Deserialize, Default)]
pub(super) struct TraceHeader<'a> {
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    common_fields: Option<CommonFields<'a>>,
    #[serde(borrow)]
    vantage_point: Option<VantagePointText<'a>>,
    #[serde(borrow)]
    event_schemas: Option<Vec<Cow<'a, str>>>,
    /// The reason that a tool could not read the trace.
    error_description: Option<AnyText>,
    #[serde(flatten, borrow)]
    own: FirstVersion<'a>,
}

/// The members of a trace in version 0.1, which may also be members of the file.
#[derive(Deserialize, Default)]
struct FirstVersion<'a> {
    #[serde(borrow)]
    vantagepoint: Option<Cow<'a, str>>,
    #[serde(borrow)]
    connectionid: Option<Cow<'a, str>>,
    /// The start time, in seconds since the Unix epoch.
    starttime: Option<Decimal>,
}

#[derive(Deserialize, Default)]
struct CommonFields<'a> {
    #[serde(borrow)]
    time_format: Option<Cow<'a, str>>,
    /// The client's first Destination Connection ID. Version 0.3 had a different name for it.
    group_id: Option<AnyText>,
    #[serde(rename = "ODCID")]
    original_destination_id: Option<AnyText>,
    /// The reference time: a number, a number in a string, or an object.
    #[serde(borrow)]
    reference_time: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct VantagePointText<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// A reference time of the drafts from main-schema-10 on.
#[derive(Deserialize, Default)]
struct ReferenceTime<'a> {
    #[serde(borrow)]
    epoch: Option<Cow<'a, str>>,
    #[serde(borrow)]
    wall_clock_time: Option<Cow<'a, str>>,
}

impl FileHeader<'_> {
    /// Returns whether this is the header of a qlog file, which names a version or a schema.
    pub(super) const fn is_qlog(&self) -> bool {
        self.qlog_version.is_some() || self.file_schema.is_some()
    }

    pub(super) fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        if let Some(version) = self.qlog_version.as_ref().or(self.file_schema.as_ref()) {
            reading.dialect = version.clone().into_owned();
        }
        if let Some(title) = &self.title {
            reading.title.get_or_insert_with(|| title.clone().into_owned());
        }
        self.own.apply(reading, clock);
        if let Some(trace) = &self.trace {
            trace.apply(reading, clock);
        }
    }
}

impl TraceHeader<'_> {
    /// Returns the reason that a tool wrote this instead of a trace, if it did (main schema,
    /// `TraceError`).
    pub(super) fn error(&self) -> Option<&str> {
        self.error_description.as_ref().map(|error| &*error.0)
    }

    pub(super) fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        if let Some(title) = self.title.as_ref().filter(|title| !title.is_empty()) {
            reading.title = Some(title.clone().into_owned());
        }
        if let Some(vantage) = &self.vantage_point {
            let kind = vantage.kind.as_deref().unwrap_or_default();
            reading.vantage_point = VantagePoint::of_name(kind);
            reading.writer = vantage.name.as_ref().map(|name| name.clone().into_owned());
        }
        if let Some(schemas) = &self.event_schemas {
            let names = schemas.iter().filter_map(|schema| schema.rsplit([':', '/']).next());
            let names: Vec<&str> = names.collect();
            if !names.is_empty() {
                reading.dialect = names.join(", ");
            }
        }
        self.own.apply(reading, clock);
        if let Some(fields) = &self.common_fields {
            fields.apply(reading, clock);
        }
    }
}

impl FirstVersion<'_> {
    fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        if let Some(kind) = &self.vantagepoint {
            reading.vantage_point = VantagePoint::of_name(kind);
        }
        if let Some(connection) = &self.connectionid {
            reading.group = Some(connection.clone().into_owned());
            reading.connection = Some(connection.to_lowercase());
        }
        if let Some(start) = self.starttime {
            clock.reference = clock::reference(start.0);
        }
    }
}

impl CommonFields<'_> {
    fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        clock.is_incremental = self.time_format.as_deref().is_some_and(clock::is_incremental);
        clock.reference = self.reference_time.and_then(|json| reference(json.get()));
        let text = |text: &Option<AnyText>| text.as_ref().map(|text| String::from(&*text.0));
        reading.group = text(&self.group_id);
        reading.original_destination_id = text(&self.original_destination_id);
        let connection = reading.original_destination_id.as_ref().or(reading.group.as_ref());
        reading.connection = connection.map(|connection| connection.to_lowercase());
    }
}

/// Returns a reference time in milliseconds since the Unix epoch.
fn reference(json: &str) -> Option<f64> {
    if let Ok(Decimal(number)) = serde_json::from_str(json) {
        return clock::reference(number);
    }
    let time: ReferenceTime<'_> = serde_json::from_str(json).ok()?;
    // A monotonic clock has an unknown epoch, and possibly the corresponding wall clock time.
    let epoch = time.epoch.as_deref().and_then(clock::rfc_3339);
    epoch.or_else(|| time.wall_clock_time.as_deref().and_then(clock::rfc_3339))
}
