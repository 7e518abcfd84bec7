//! Conditional requests (RFC 9110 §13) and range requests (§14).

use std::ops::Range;
use std::time::SystemTime;

use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, Method};

use super::identity::Identity;

/// The validators of a file, which distinguish its versions (RFC 9110 §8.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Validators {
    /// The entity tag, including its quotes, and `W/` if it is weak.
    pub(super) entity_tag: String,
    /// The modification time in whole seconds, as in HTTP.
    pub(super) modified: Option<SystemTime>,
}

impl Validators {
    /// Returns the validators of a file at the time `now`.
    pub(super) fn of(identity: &Identity, now: SystemTime) -> Self {
        // A time in the future is not sent (RFC 9110 §8.8.2.1).
        let modified = identity.modified().map(|modified| modified.min(now));
        let modified = modified.and_then(|modified| {
            httpdate::parse_http_date(&httpdate::fmt_http_date(modified)).ok()
        });
        Self { entity_tag: identity.entity_tag(now), modified }
    }

    fn matches_weakly(&self, tag: &str) -> bool {
        opaque(tag) == opaque(&self.entity_tag)
    }

    fn matches_strongly(&self, tag: &str) -> bool {
        !tag.starts_with("W/") && tag == self.entity_tag
    }
}

/// Returns an entity tag without the weakness indicator.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// How to respond to a conditional or range request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Send the entire file.
    Whole,
    /// Send this part of the file (206).
    Part(Range<u64>),
    /// The requested range is outside the file (416).
    Unsatisfiable,
    /// The client already has this version (304).
    NotModified,
    /// A precondition is false: the file is not the version that the client expects (412).
    Failed,
}

/// Evaluates the preconditions and the range in `headers`, for a file of `length` bytes, in the order of RFC 9110
/// §13.2.2.
pub(super) fn judge(
    method: &Method,
    headers: &HeaderMap,
    validators: &Validators,
    length: u64,
) -> Verdict {
    if let Some(tags) = field(headers, &IF_MATCH) {
        if !any(&tags, |tag| validators.matches_strongly(tag)) {
            return Verdict::Failed;
        }
    } else if let Some(date) = date(headers, &IF_UNMODIFIED_SINCE)
        && validators.modified.is_some_and(|modified| modified > date)
    {
        return Verdict::Failed;
    }
    if let Some(tags) = field(headers, &IF_NONE_MATCH) {
        if any(&tags, |tag| validators.matches_weakly(tag)) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = date(headers, &IF_MODIFIED_SINCE)
        && validators.modified.is_some_and(|modified| modified <= date)
    {
        return Verdict::NotModified;
    }
    let range = field(headers, &RANGE).filter(|_| method == Method::GET);
    match field(headers, &IF_RANGE) {
        // A date is not a strong validator here: a file may change twice within a second (RFC 9110
        // §8.8.2.2, §13.1.5).
        Some(tag) if !validators.matches_strongly(tag.trim()) => Verdict::Whole,
        _ => part(range.as_deref(), length),
    }
}

/// Returns the value of a field; several field lines are combined into one list (RFC 9110 §5.3).
fn field(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
    match values.is_empty() {
        true => None,
        // A field value that is not text matches nothing.
        false => Some(values.into_iter().flatten().collect::<Vec<_>>().join(", ")),
    }
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Returns whether any of the entity tags in a list matches, or whether the list is `*`.
fn any(list: &str, matches: impl Fn(&str) -> bool) -> bool {
    list.trim() == "*" || tags(list).any(matches)
}

/// Returns the entity tags in a list; they may contain commas inside their quotes (RFC 9110
/// §8.8.3).
fn tags(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let (prefix, quoted) = rest.split_once('"')?;
        let (inside, _) = quoted.split_once('"')?;
        let (tag, more) = rest.split_at_checked(prefix.len() + inside.len() + 2)?;
        rest = more;
        Some(tag)
    })
}

/// Returns the part of a file of `length` bytes that a Range field requests (RFC 9110 §14.1.2). A
/// field that is invalid or has several ranges may be ignored.
fn part(range: Option<&str>, length: u64) -> Verdict {
    let Some((unit, bytes)) = range.and_then(|range| range.split_once('=')) else {
        return Verdict::Whole;
    };
    let Some((first, last)) = bytes.split_once('-').filter(|_| unit.eq_ignore_ascii_case("bytes"))
    else {
        return Verdict::Whole;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => within(first..last.saturating_add(1).min(length)),
        (Ok(first), Err(_)) if last.trim().is_empty() => within(first..length),
        (Err(_), Ok(suffix)) if first.trim().is_empty() => {
            within(length.saturating_sub(suffix)..length)
        }
        _ => Verdict::Whole,
    }
}

fn within(range: Range<u64>) -> Verdict {
    match range.is_empty() {
        true => Verdict::Unsatisfiable,
        false => Verdict::Part(range),
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
