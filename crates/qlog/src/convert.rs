//! Converts files of any dialect to qlog 0.3, the version that qvis reads.
//!
//! qvis checks `qlog_version`, and requires the event names of drafts 00 to 04
//! (`transport:packet_sent`, `recovery:metrics_updated`) and times relative to the beginning of the
//! trace. The module `names` maps the names of events, and `members` maps the layout of their data.
//! Events that version 0.3 does not define are left out and counted.

mod members;
mod names;

use core::fmt;
use std::io::{self, Write};
use std::path::Path;

use clearway_units::foreign::escaped;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::{Map, Value, json};

use crate::read::{Content, OpenError, Reading, Record, Records, VantagePoint};

/// Maximum size in bytes of the events that are buffered until the first packet, which shows which
/// endpoint wrote the trace if the file does not say.
const MAX_WAITING: usize = 1 << 16;

/// The reason that a file cannot be converted.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConvertError {
    /// The file cannot be read.
    Open(OpenError),
    /// The output cannot be written.
    Write(io::Error),
    /// The trace has no event that version 0.3 can represent. Nothing was written.
    NoEvents {
        /// The information about the trace that was read; `unused` contains the events that version
        /// 0.3 does not define.
        reading: Box<Reading>,
    },
}

impl fmt::Display for ConvertError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(formatter),
            Self::Write(error) => error.fmt(formatter),
            Self::NoEvents { reading } => no_events(reading, formatter),
        }
    }
}

impl std::error::Error for ConvertError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => error.source(),
            Self::Write(error) => error.source(),
            Self::NoEvents { .. } => None,
        }
    }
}

/// The maximum number of event names that an error message lists.
const MAX_NAMES: usize = 3;

/// Describes what was recognized in a file without events to convert.
fn no_events(reading: &Reading, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let dialect = match reading.dialect.as_str() {
        "" => "a file without a qlog version",
        dialect => dialect,
    };
    let left_out: u64 = reading.unused.values().sum();
    if left_out == 0 {
        write!(formatter, "the file contains no events (read as {dialect})")?;
    } else {
        let mut names: Vec<_> = reading.unused.iter().collect();
        names.sort_by_key(|(name, count)| (core::cmp::Reverse(**count), *name));
        let names = names.iter().take(MAX_NAMES).map(|(name, _)| name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        write!(
            formatter,
            "no events that qlog 0.3 defines (read as {dialect}); other events: {left_out} ({names})"
        )?;
    }
    match &reading.damage {
        Some(damage) => write!(formatter, "; the file is damaged: {damage}"),
        None => Ok(()),
    }
}

/// The result of a conversion.
#[derive(Clone, PartialEq, Debug)]
pub struct Conversion {
    /// The information about the trace that was read; `unused` contains the events that were left
    /// out.
    pub reading: Reading,
    /// The number of events that were written.
    pub written: u64,
    /// Whether the file has traces besides the first one. Only the first one is converted, since a
    /// sequence contains only one trace.
    pub has_more_traces: bool,
}

/// Converts the first trace of the file at `path` to a JSON text sequence of qlog 0.3.
///
/// # Errors
/// Returns an error if the file is not qlog or has no event that version 0.3 defines, or if writing
/// to `output` fails.
pub fn to_0_3(path: &Path, output: &mut dyn Write) -> Result<Conversion, ConvertError> {
    convert(Records::open(path).map_err(ConvertError::Open)?, output)
}

/// Like [`to_0_3`], but reads from bytes.
#[cfg(fuzzing)]
pub(crate) fn bytes_to_0_3(
    bytes: Vec<u8>,
    output: &mut dyn Write,
) -> Result<Conversion, ConvertError> {
    convert(Records::new(std::io::Cursor::new(bytes)).map_err(ConvertError::Open)?, output)
}

fn convert(
    mut reader: Records<OldEvent>,
    output: &mut dyn Write,
) -> Result<Conversion, ConvertError> {
    let mut sequence = Sequence { output, waiting: Vec::new(), has_begun: false, written: 0 };
    let mut has_more_traces = false;
    while let Some(record) = reader.next() {
        let Record::Event { at, content } = record else {
            has_more_traces = true;
            break;
        };
        let reading = &mut reader.state.reading;
        match content.0 {
            Ok((name, data)) => {
                // Times are whole nanoseconds, as far as a JSON number can represent them exactly.
                let time = at.as_nanos() as f64 / 1e6;
                let event = json!({ "time": time, "name": name, "data": data });
                sequence.event(&event, reading).map_err(ConvertError::Write)?;
            }
            Err(name) => reading.count_unused(&name),
        }
    }
    let written = sequence.written;
    let finished = reader.state.finished.take().filter(|_| has_more_traces);
    let reading = finished.unwrap_or_else(|| reader.state.reading.clone());
    if written == 0 {
        return Err(ConvertError::NoEvents { reading: Box::new(reading) });
    }
    sequence.begin(&reading, reading.vantage_point).map_err(ConvertError::Write)?;
    sequence.output.flush().map_err(ConvertError::Write)?;
    Ok(Conversion { reading, written, has_more_traces })
}

/// An event's name and data in version 0.3. The error is the original name of an event that version
/// 0.3 does not define, or whose data is not an object.
#[derive(Debug)]
struct OldEvent(Result<(&'static str, Value), Box<str>>);

impl Content for OldEvent {
    fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        let Some(old_name) = names::old_name(name) else {
            IgnoredAny::deserialize(data)?;
            return Ok(Self::of_name(name));
        };
        let Value::Object(data) = Value::deserialize(data)? else { return Ok(Self::of_name(name)) };
        let data = members::old_data(old_name, data).map(|data| (old_name, data.into()));
        Ok(Self(data.ok_or_else(|| name.into())))
    }

    fn of_name(name: &str) -> Self {
        Self(Err(name.into()))
    }
}

/// The output file.
struct Sequence<'a> {
    output: &'a mut dyn Write,
    /// Events buffered until the contents of the header are known.
    waiting: Vec<u8>,
    has_begun: bool,
    written: u64,
}

impl Sequence<'_> {
    fn event(&mut self, event: &Value, reading: &Reading) -> io::Result<()> {
        self.written = self.written.saturating_add(1);
        record(&mut self.waiting, event);
        let own = match event.get("name").and_then(Value::as_str) {
            Some("transport:packet_sent") => Some(VantagePoint::Client),
            Some("transport:packet_received") => Some(VantagePoint::Server),
            _ => None,
        };
        let vantage_point = match reading.vantage_point {
            VantagePoint::Unknown => own,
            known => Some(known),
        };
        if let Some(vantage_point) = vantage_point {
            self.begin(reading, vantage_point)
        } else if self.waiting.len() > MAX_WAITING {
            self.begin(reading, VantagePoint::Unknown)
        } else {
            Ok(())
        }
    }

    /// Writes the header, if it has not been written yet, and the buffered events.
    fn begin(&mut self, reading: &Reading, vantage_point: VantagePoint) -> io::Result<()> {
        if !self.has_begun {
            self.has_begun = true;
            let mut header = Vec::new();
            record(&mut header, &self::header(reading, vantage_point));
            self.output.write_all(&header)?;
        }
        self.output.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// Appends a record of a JSON text sequence (RFC 7464 §2.2).
fn record(output: &mut Vec<u8>, value: &Value) {
    output.push(0x1e);
    // Strings come from another program, and the output may go to a terminal.
    output.extend_from_slice(escaped(&value.to_string()).as_bytes());
    output.push(b'\n');
}

fn header(reading: &Reading, vantage_point: VantagePoint) -> Value {
    let mut vantage = Map::new();
    if let Some(writer) = &reading.writer {
        vantage.insert("name".to_owned(), json!(writer));
    }
    vantage.insert("type".to_owned(), json!(vantage_point.name()));
    let began = reading.began.unwrap_or_default();
    let mut fields = Map::new();
    if let Some(original) = &reading.original_destination_id {
        fields.insert("ODCID".to_owned(), json!(original));
    }
    if let Some(group) = &reading.group {
        fields.insert("group_id".to_owned(), json!(group));
    }
    fields.insert("time_format".to_owned(), json!("relative"));
    // Times are relative to the first event.
    fields.insert("reference_time".to_owned(), json!(began.as_micros() as f64 / 1e3));
    json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": reading.title,
        "trace": { "vantage_point": vantage, "common_fields": fields },
    })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
