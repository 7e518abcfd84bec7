//! The layout of events in the drafts before 0.3: events are arrays whose columns are named in the
//! trace's header, with times in the unit that the header states.

use std::borrow::Cow;

use serde::Deserialize;

/// The maximum number of columns of an event that are read.
const MAX_COLUMNS: usize = 64;

/// The layout of a trace's events.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Layout {
    /// The columns of array events. Empty if the header does not name them; the columns are then
    /// guessed.
    pub(super) columns: Vec<Column>,
    /// Whether times and durations are in microseconds rather than milliseconds.
    pub(super) is_in_microseconds: bool,
}

/// The meaning of a column (main schema, draft-marx-01 §3.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    /// `time` or `relative_time`.
    Time,
    /// `delta_time`: the time since the previous event.
    TimeSincePrevious,
    Category,
    Event,
    Trigger,
    Data,
    /// `group_id`: the connection.
    Group,
    Other,
}

impl Column {
    /// Returns the column with this name, which early drafts write in upper case.
    pub(super) fn of_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "time" | "relative_time" => Self::Time,
            "delta_time" => Self::TimeSincePrevious,
            "category" => Self::Category,
            "event" | "event_type" | "type" | "name" => Self::Event,
            "trigger" => Self::Trigger,
            "data" => Self::Data,
            "group_id" => Self::Group,
            _ => Self::Other,
        }
    }
}

/// The members of a trace's header that state the layout.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Members<'a> {
    #[serde(borrow)]
    event_fields: Option<Vec<Cow<'a, str>>>,
    /// The columns, under the name that version 0.1 uses for `event_fields`.
    #[serde(borrow)]
    fields: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    configuration: Option<Configuration<'a>>,
    /// The header of the trace, which the header of a sequence contains.
    #[serde(borrow)]
    trace: Option<Box<Members<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Configuration<'a> {
    #[serde(borrow)]
    time_units: Option<Cow<'a, str>>,
}

impl Layout {
    /// Returns the layout that a header states. `None` if it states no layout, which is the case
    /// from version 0.3 on.
    pub(super) fn of_header(json: &[u8]) -> Option<Self> {
        let members: Members<'_> = serde_json::from_slice(json).ok()?;
        members.trace.as_deref().and_then(Members::layout).or_else(|| members.layout())
    }
}

impl Members<'_> {
    fn layout(&self) -> Option<Layout> {
        let names = self.event_fields.as_ref().or(self.fields.as_ref());
        let unit = self.configuration.as_ref().and_then(|it| it.time_units.as_deref());
        if names.is_none() && unit.is_none() {
            return None;
        }
        let names = names.into_iter().flatten().take(MAX_COLUMNS);
        Some(Layout {
            columns: names.map(|name| Column::of_name(name)).collect(),
            is_in_microseconds: unit.is_some_and(|unit| unit.eq_ignore_ascii_case("us")),
        })
    }
}
