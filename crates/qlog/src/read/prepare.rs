//! Reads a part of a file independently of the parts before it.

use super::early::{self, early_event};
use super::envelope::{Content, PreparedEvent, Record, read_in_order};
use super::layout::Layout;
use super::number::Decimal;
use super::part::Part;

/// A part, read as far as possible without the parts before it.
#[derive(Debug)]
pub(super) enum Prepared<T> {
    Event(PreparedEvent<T>),
    /// A record without a name: not an event, but possibly the beginning of another log.
    Nameless(Box<[u8]>),
    /// Members of the file or of the current trace other than the events.
    Header {
        of_trace: bool,
        json: Box<[u8]>,
    },
    /// The beginning of a contained trace.
    Trace,
    /// A record that is too long.
    TooLong,
    /// A part without any content.
    Nothing,
    /// A damaged part, with a description of the damage.
    Broken(String),
}

pub(super) fn prepare<T: Content>(part: Part<'_>) -> Prepared<T> {
    match part {
        Part::Event { json, layout } => {
            record(json, layout.as_deref()).unwrap_or(Prepared::Nothing)
        }
        Part::Record { json, layout } => {
            record(json, layout.as_deref()).unwrap_or_else(|| Prepared::Nameless(json.into()))
        }
        Part::Trace => Prepared::Trace,
        Part::Header { of_trace, json } => Prepared::Header { of_trace, json: json.into() },
        Part::TooLong => Prepared::TooLong,
    }
}

/// Reads a record, in one pass if its members have the usual order. Returns `None` if it has no
/// name.
fn record<T: Content>(json: &[u8], layout: Option<&Layout>) -> Option<Prepared<T>> {
    match layout {
        Some(layout) => early(json, layout),
        None if early::is_array(json) => early(json, &Layout::default()),
        None => read_in_order(json).map(Prepared::Event).or_else(|| in_any_order(json)),
    }
}

/// Reads an event of the drafts before 0.3.
fn early<T: Content>(json: &[u8], layout: &Layout) -> Option<Prepared<T>> {
    let event = match early_event(json, layout) {
        Ok(event) => event?,
        Err(error) => return Some(broken(&error)),
    };
    let data = event.data.to_string();
    let content = T::read(&event.name, &mut serde_json::Deserializer::from_str(&data));
    Some(Prepared::Event(PreparedEvent {
        time: event.time,
        time_format: event.is_since_previous.then(|| "delta".into()),
        group: event.group,
        content: content.unwrap_or_else(|_| T::of_name(&event.name)),
    }))
}

fn broken<T>(error: &serde_json::Error) -> Prepared<T> {
    Prepared::Broken(match error.is_eof() {
        true => "the last record is truncated".to_owned(),
        false => format!("unexpected record: {error}"),
    })
}

/// Reads a record whose members are in any order, and reports the error in a damaged one.
fn in_any_order<T: Content>(json: &[u8]) -> Option<Prepared<T>> {
    let record: Record<'_> = match serde_json::from_slice(json) {
        Ok(record) => record,
        Err(error) => return Some(broken(&error)),
    };
    let Some(name) = record.name.as_deref() else {
        // The record may have a category and a type instead of a name.
        return early(json, &Layout::default());
    };
    let data = record.data.map_or("{}", |data| data.get());
    let content = T::read(name, &mut serde_json::Deserializer::from_str(data));
    Some(Prepared::Event(PreparedEvent {
        time: record.time.unwrap_or(Decimal(0.0)),
        time_format: record.time_format.as_deref().map(Into::into),
        group: record.group_id.map(|group| group.0),
        content: content.unwrap_or_else(|_| T::of_name(name)),
    }))
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
