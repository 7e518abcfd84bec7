//! Rewrites events of the drafts before 0.3 in the layout of version 0.3.
//!
//! Versions 0.1, draft-00 and draft-01 write each event as an array of columns, with names in upper
//! case at first, and times in milliseconds or microseconds. draft-02 and 0.3 allow a category and
//! a type in place of a name. Everything that distinguishes these events from those of version 0.3
//! is in this module: `names` maps their names, and `values` maps the layout of their data, so that
//! a single vocabulary is sufficient for all of them.

mod names;
mod values;

use serde_json::{Map, Value};

use super::any_text::MAX_TEXT;
use super::layout::{Column, Layout};
use super::number::Decimal;

/// An event in the layout of version 0.3.
#[derive(PartialEq, Debug)]
pub(super) struct EarlyEvent {
    pub(super) time: Decimal,
    pub(super) is_since_previous: bool,
    pub(super) group: Option<Box<str>>,
    pub(super) name: String,
    /// The data, with times in milliseconds.
    pub(super) data: Value,
}

/// Returns whether a record can only be an event of the early drafts.
pub(super) fn is_array(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'[')
}

/// Rewrites an event. Returns `None` if it is empty or has no name, like the last event in traces
/// whose writer appends a comma to each event.
///
/// # Errors
/// Returns an error if the event is not JSON.
pub(super) fn early_event(
    json: &[u8],
    layout: &Layout,
) -> Result<Option<EarlyEvent>, serde_json::Error> {
    let columns = match serde_json::from_slice(json)? {
        Value::Array(values) if layout.columns.is_empty() => guess(values),
        Value::Array(values) => layout.columns.iter().copied().zip(values).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (Column::of_name(&name), value)).collect()
        }
        _ => Vec::new(),
    };
    Ok(Columns::of(columns).event(layout))
}

/// Assigns columns to an array whose header does not name them: first the time, last the data, and
/// between them the category, the event and possibly a trigger.
fn guess(values: Vec<Value>) -> Vec<(Column, Value)> {
    let last = values.len().saturating_sub(1);
    let words = last.saturating_sub(1);
    let column = |place: usize| match place {
        0 => Column::Time,
        place if place == last => Column::Data,
        1 if words > 1 => Column::Category,
        1 | 2 => Column::Event,
        3 => Column::Trigger,
        _ => Column::Other,
    };
    values.into_iter().enumerate().map(|(place, value)| (column(place), value)).collect()
}

/// The columns of an event that the reader uses.
#[derive(Default)]
struct Columns {
    time: f64,
    is_since_previous: bool,
    category: String,
    event: String,
    trigger: Option<String>,
    group: Option<Box<str>>,
    data: Map<String, Value>,
}

impl Columns {
    fn of(columns: Vec<(Column, Value)>) -> Self {
        let mut known = Self::default();
        for (column, value) in columns {
            match column {
                Column::Time => known.time = values::decimal(&value).unwrap_or_default(),
                Column::TimeSincePrevious => {
                    known.time = values::decimal(&value).unwrap_or_default();
                    known.is_since_previous = true;
                }
                // An object may have both a complete name and a type.
                Column::Event => {
                    let name = value.as_str().unwrap_or_default();
                    if !known.event.contains(':') {
                        name.clone_into(&mut known.event);
                    }
                }
                Column::Category => {
                    value.as_str().unwrap_or_default().clone_into(&mut known.category);
                }
                Column::Trigger => known.trigger = value.as_str().map(str::to_owned),
                Column::Group => known.group = Some(text(&value)),
                Column::Data => {
                    if let Value::Object(data) = value {
                        known.data = data;
                    }
                }
                Column::Other => {}
            }
        }
        known
    }

    fn event(self, layout: &Layout) -> Option<EarlyEvent> {
        let (category, event) = match self.event.split_once(':') {
            Some(both) => both,
            None => (self.category.as_str(), self.event.as_str()),
        };
        if event.is_empty() {
            return None;
        }
        let scale = if layout.is_in_microseconds { 1e-3 } else { 1.0 };
        let name = names::modern(category, event);
        let data = values::modern(&name, event, self.data, self.trigger.as_deref(), scale);
        Some(EarlyEvent {
            time: Decimal(self.time * scale),
            is_since_previous: self.is_since_previous,
            group: self.group,
            name,
            data: data.into(),
        })
    }
}

/// Returns a value as a string, without quotation marks.
fn text(value: &Value) -> Box<str> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
#[path = "early_tests.rs"]
mod tests;
