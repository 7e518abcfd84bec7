use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The maximum number of characters of a string that are kept.
pub(super) const MAX_TEXT: usize = 1000;

/// A value of any type as a string: a string without its quotation marks, otherwise its JSON. The
/// drafts allow connection identifiers to be strings, numbers or objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnyText(pub(super) Box<str>);

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
        Ok(Self(text.chars().take(MAX_TEXT).collect()))
    }
}
