//! What a part of a file comes to by itself, before it is known what came before it.

use super::number::Decimal;
use super::record::Record;
use super::split::Part;

/// Makes something of an event's name and data.
pub(crate) type Understand<T> = fn(&str, &str) -> T;

/// A part that was read, as far as it can be read alone.
#[derive(Debug)]
pub(super) enum Prepared<T> {
    Event(PreparedEvent<T>),
    /// A record without a name: no event, but perhaps the beginning of another log.
    Nameless(Box<[u8]>),
    /// Members of the file or of the present trace that are not its events.
    Header {
        of_trace: bool,
        json: Box<[u8]>,
    },
    /// A contained trace begins.
    Trace,
    /// A record that is too long.
    TooLong,
    /// Nothing is to be said of it.
    Nothing,
    /// It is damaged: why.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct PreparedEvent<T> {
    pub(super) time: Decimal,
    /// The event's own format of time, if it has one.
    pub(super) time_format: Option<Box<str>>,
    pub(super) group: Option<Box<str>>,
    pub(super) content: T,
}

pub(super) fn prepare<T>(part: Part<'_>, understand: Understand<T>) -> Prepared<T> {
    match part {
        Part::Event(json) => record(json, understand).unwrap_or(Prepared::Nothing),
        Part::Record(json) => {
            record(json, understand).unwrap_or_else(|| Prepared::Nameless(json.into()))
        }
        Part::Trace => Prepared::Trace,
        Part::Header { of_trace, json } => Prepared::Header { of_trace, json: json.into() },
        Part::TooLong => Prepared::TooLong,
    }
}

/// `None` if it has no name.
fn record<T>(json: &[u8], understand: Understand<T>) -> Option<Prepared<T>> {
    let record: Record<'_> = match serde_json::from_slice(json) {
        Ok(record) => record,
        Err(error) if error.is_eof() => {
            return Some(Prepared::Broken("the last record ends early".to_owned()));
        }
        Err(error) => {
            return Some(Prepared::Broken(format!("a record is not as expected: {error}")));
        }
    };
    let name = record.name.as_deref()?;
    let data = record.data.map_or("{}", |data| data.get());
    Some(Prepared::Event(PreparedEvent {
        time: record.time.unwrap_or(Decimal(0.0)),
        time_format: record.time_format.as_deref().map(Into::into),
        group: record.group_id.as_deref().map(Into::into),
        content: understand(name, data),
    }))
}
