use core::fmt;

use http::{HeaderMap, HeaderName};

use crate::structured::{self, Value};

/// The priority of a response (RFC 9218 §4). A received request contains it as an
/// [extension](http::Request::extensions).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority {
    /// The urgency, from 0 (most urgent) to 7; the default is 3 (§4.1).
    pub urgency: u8,
    /// Whether partial responses are useful, so that the response may be interleaved with other
    /// responses (§4.2).
    pub is_incremental: bool,
}

/// The lowest urgency, which has the highest number.
const LEAST_URGENT: u8 = 7;

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// Creates a priority with this urgency, which is capped at 7.
    pub const fn new(urgency: u8, is_incremental: bool) -> Self {
        let urgency = if urgency > LEAST_URGENT { LEAST_URGENT } else { urgency };
        Self { urgency, is_incremental }
    }

    /// Parses a Priority Field Value. Parameters that are missing or have invalid values get their
    /// defaults (§4). Returns `None` if the field cannot be parsed.
    pub fn parse(field: &[u8]) -> Option<Self> {
        Some(Parameters::parse(field)?.over(Self::default()))
    }

    /// Returns the priority in the `priority` fields of a request (§5), if they are valid.
    pub fn of_request(headers: &HeaderMap) -> Option<Self> {
        Some(Parameters::of(headers)?.over(Self::default()))
    }

    /// Returns this request priority, as overridden by the `priority` fields of its response (§8).
    pub fn merged(self, response: &HeaderMap) -> Self {
        Parameters::of(response).map_or(self, |parameters| parameters.over(self))
    }

    /// Returns the transport priority; streams with higher values are sent first. Streams without a
    /// priority have 0, the same as urgency 3.
    pub(crate) fn level(self) -> i32 {
        3i32.saturating_sub(i32::from(self.urgency.min(LEAST_URGENT)))
    }
}

/// The name of the priority field (RFC 9218 §5), which the `http` crate does not define.
static PRIORITY: HeaderName = HeaderName::from_static("priority");

/// Formats the Priority Field Value: the urgency, and `i` if the response is incremental.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u={}", self.urgency.min(LEAST_URGENT))?;
        if self.is_incremental { f.write_str(", i") } else { Ok(()) }
    }
}

/// The priority parameters in a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parameters {
    urgency: Option<u8>,
    is_incremental: Option<bool>,
}

/// Sets all parameters of a priority.
impl From<Priority> for Parameters {
    fn from(priority: Priority) -> Self {
        Self {
            urgency: Some(priority.urgency.min(LEAST_URGENT)),
            is_incremental: Some(priority.is_incremental),
        }
    }
}

impl Parameters {
    fn parse(field: &[u8]) -> Option<Self> {
        let mut parameters = Self::default();
        // A value that is out of range or of the wrong type is ignored (§4), but still replaces an
        // earlier one with the same key.
        let parsed = structured::dictionary(field, |key, value| match (key, value) {
            (b"u", Value::Integer(urgency)) => {
                let urgency = u8::try_from(urgency).ok();
                parameters.urgency = urgency.filter(|urgency| *urgency <= LEAST_URGENT);
            }
            (b"u", _) => parameters.urgency = None,
            (b"i", Value::Boolean(is_incremental)) => {
                parameters.is_incremental = Some(is_incremental);
            }
            (b"i", _) => parameters.is_incremental = None,
            _ => {}
        });
        parsed.ok().map(|()| parameters)
    }

    /// Returns the parameters in all `priority` fields, joined according to RFC 9110 §5.3.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        if headers.is_empty() {
            return None;
        }
        let mut fields = headers.get_all(&PRIORITY).iter().map(|value| value.as_bytes());
        let first = fields.next()?;
        let Some(second) = fields.next() else { return Self::parse(first) };
        let mut joined = first.to_vec();
        for field in core::iter::once(second).chain(fields) {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(field);
        }
        Self::parse(&joined)
    }

    pub(crate) fn over(self, priority: Priority) -> Priority {
        Priority {
            urgency: self.urgency.unwrap_or(priority.urgency),
            is_incremental: self.is_incremental.unwrap_or(priority.is_incremental),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("priority", value.parse().unwrap());
        }
        headers
    }

    /// Missing parameters have defaults, and unknown parameters, wrong types and values out of
    /// range are ignored (RFC 9218 §4).
    #[test]
    fn section_4_parameters() {
        let priority = |urgency, is_incremental| Some(Priority { urgency, is_incremental });
        for (field, expected) in [
            ("", priority(3, false)),
            ("u=0", priority(0, false)),
            ("u=5, i", priority(5, true)),
            ("i=?0, u=7", priority(7, false)),
            ("u=8", priority(3, false)),
            ("u=-1, i", priority(3, true)),
            ("u=1.0", priority(3, false)),
            ("u=high;x, i=1, visible, x=(a b)", priority(3, false)),
            ("u=1, u=2", priority(2, false)),
            ("u=1, u=9", priority(3, false)),
            ("u=", None),
            ("u=1,,i", None),
            ("urgent!", None),
        ] {
            assert_eq!(Priority::parse(field.as_bytes()), expected, "{field}");
        }
    }

    #[test]
    fn fields_are_joined() {
        let request = headers(&["u=1", "i"]);
        assert_eq!(Priority::of_request(&request), Some(Priority::new(1, true)));
        assert_eq!(Priority::of_request(&headers(&["u=1", "="])), None);
        assert_eq!(Priority::of_request(&HeaderMap::new()), None);
    }

    /// Parameters that a response omits do not change (RFC 9218 §8).
    #[test]
    fn section_8_merging() {
        let request = Priority::new(5, true);
        assert_eq!(request.merged(&headers(&["u=1"])), Priority::new(1, true));
        assert_eq!(request.merged(&headers(&["i=?0"])), Priority::new(5, false));
        assert_eq!(request.merged(&headers(&["?"])), request);
        assert_eq!(request.merged(&HeaderMap::new()), request);
    }

    #[test]
    fn what_is_written_is_parsed() {
        for urgency in 0..=7 {
            for is_incremental in [false, true] {
                let priority = Priority::new(urgency, is_incremental);
                assert_eq!(Priority::parse(priority.to_string().as_bytes()), Some(priority));
            }
        }
        assert_eq!(Priority::new(200, false).urgency, 7);
        assert!(Priority::new(0, false).level() > Priority::new(7, false).level());
        assert_eq!(Priority::default().level(), 0);
    }
}
