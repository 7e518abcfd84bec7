//! Reads the members that all events have in addition to their data.

use core::fmt;
use core::marker::PhantomData;
use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::any_text::AnyText;
use super::number::Decimal;

/// A type into which an event's data can be parsed.
pub(crate) trait Content: Sized + Send + 'static {
    /// Reads all the data of the event `name`.
    ///
    /// # Errors
    /// Returns an error if the data does not match any draft.
    fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error>;

    /// Creates the value for an event whose data cannot be read.
    fn of_name(name: &str) -> Self;
}

/// An event whose data has been read.
#[derive(Debug)]
pub(super) struct PreparedEvent<T> {
    pub(super) time: Decimal,
    /// The event's own time format, if it has one.
    pub(super) time_format: Option<Box<str>>,
    pub(super) group: Option<Box<str>>,
    pub(super) content: T,
}

/// An event whose data is read later.
#[derive(Deserialize)]
pub(super) struct Record<'a> {
    pub(super) time: Option<Decimal>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    pub(super) group_id: Option<AnyText>,
    #[serde(borrow)]
    pub(super) time_format: Option<Cow<'a, str>>,
}

/// Reads an event in one pass, if it has the usual form: its name before its data, each member
/// once. Returns `None` if it has another form or is invalid; it is then read as a [`Record`].
pub(super) fn read_in_order<T: Content>(json: &[u8]) -> Option<PreparedEvent<T>> {
    let json = core::str::from_utf8(json).ok()?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let event = deserializer.deserialize_map(EventVisitor(PhantomData)).ok()?;
    deserializer.end().ok()?;
    Some(event)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Time,
    Name,
    Data,
    GroupId,
    TimeFormat,
    #[serde(other)]
    Other,
}

struct EventVisitor<T>(PhantomData<T>);

impl<'de, T: Content> Visitor<'de> for EventVisitor<T> {
    type Value = PreparedEvent<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut time = None;
        let mut name: Option<Cow<'de, str>> = None;
        let mut content = None;
        let mut group: Option<AnyText> = None;
        let mut time_format: Option<Box<str>> = None;
        while let Some(member) = map.next_key()? {
            match member {
                Member::Time if time.is_none() => time = Some(map.next_value()?),
                Member::Name if name.is_none() => name = Some(map.next_value()?),
                Member::Data if content.is_none() => {
                    let name = name.as_deref().ok_or_else(|| A::Error::missing_field("name"))?;
                    content = Some(map.next_value_seed(Data(name, PhantomData))?);
                }
                Member::GroupId if group.is_none() => group = Some(map.next_value()?),
                Member::TimeFormat if time_format.is_none() => {
                    time_format = Some(map.next_value()?);
                }
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => return Err(A::Error::duplicate_field("a member")),
            }
        }
        let content = content.ok_or_else(|| A::Error::missing_field("data"))?;
        let group = group.map(|group| group.0);
        Ok(PreparedEvent { time: time.unwrap_or_default(), time_format, group, content })
    }
}

/// The data of the event with this name.
struct Data<'a, T>(&'a str, PhantomData<T>);

impl<'de, T: Content> DeserializeSeed<'de> for Data<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(self.0, deserializer)
    }
}
