//! Limits on the memory and work that a source can cause, no matter who responds in its name.

use std::fmt;
use std::time::Duration;

use clearway_balancer::Pool;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use tokio::time::Instant;

/// Maximum number of entries of a source: a balancer cannot have more servers.
pub(super) const MAX_ENTRIES: usize = Pool::MAX_SERVERS;

/// Minimum interval between two requests of the same kind, and between two published changes to the
/// servers. Changes in between are combined.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// Limits the rate of requests.
#[derive(Debug)]
pub(super) struct Pace {
    next: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() }
    }

    /// Waits until the next request is allowed.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep_until(self.next).await;
        self.next = Instant::now() + PAUSE;
    }
}

/// A JSON list of at most `MOST` elements.
#[derive(Debug)]
pub(super) struct Bounded<T, const MOST: usize>(pub(super) Vec<T>);

impl<T, const MOST: usize> Default for Bounded<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T, const MOST: usize>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Reader<T, MOST> {
            type Value = Bounded<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MOST} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == MOST {
                        return Err(A::Error::custom(format_args!(
                            "a list has more than {MOST} elements"
                        )));
                    }
                    elements.push(element);
                }
                Ok(Bounded(elements))
            }
        }

        deserializer.deserialize_seq(Reader(std::marker::PhantomData))
    }
}

/// The first element of a JSON list, if there is one.
#[derive(Debug)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }

        deserializer.deserialize_seq(Reader(std::marker::PhantomData))
    }
}

/// A JSON string of at most 253 octets, the maximum length of Kubernetes names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Short(pub(super) String);

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const MOST: usize = 253;
        let text = String::deserialize(deserializer)?;
        match text.len() {
            0..=MOST => Ok(Self(text)),
            length => {
                let message =
                    format!("a string has {length} octets, but at most {MOST} are allowed");
                Err(D::Error::custom(message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_texts_are_bounded() {
        let list = |text: &str| serde_json::from_str::<Bounded<u8, 3>>(text).map(|it| it.0);
        assert_eq!(list("[1, 2, 3]").unwrap(), [1, 2, 3]);
        let why = list("[1, 2, 3, 4").unwrap_err().to_string();
        assert!(why.starts_with("a list has more than 3 elements"), "{why}");
        let first = |text: &str| serde_json::from_str::<First<u8>>(text).map(|it| it.0);
        assert_eq!(first("[7, {\"a\": []}]").unwrap(), Some(7));
        assert_eq!(first("[]").unwrap(), None);
        let short = |length| serde_json::from_value::<Short>("x".repeat(length).into());
        assert_eq!(short(253).unwrap().0.len(), 253);
        assert!(short(254).unwrap_err().to_string().starts_with("a string has 254 octets"));
    }

    #[test]
    fn an_error_says_what_type_was_expected() {
        let why = serde_json::from_str::<Bounded<u8, 3>>("7").unwrap_err().to_string();
        assert!(why.contains("expected a list of at most 3 elements"), "{why}");
        let why = serde_json::from_str::<First<u8>>("{}").unwrap_err().to_string();
        assert!(why.contains("expected a list"), "{why}");
    }
}
