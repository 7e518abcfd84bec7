//! What is wrong in a file, and where.

use std::fmt;
use std::ops::Range;

/// A fault at a place in the text: what is wrong and what can be done about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::balance) struct Fault {
    /// The place, as byte positions.
    span: Range<usize>,
    message: String,
}

/// A fault in a file, with its line and column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LocatedFault {
    file: String,
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// What the TOML parser found.
    pub(super) fn from_toml(error: &toml::de::Error) -> Self {
        Self::new(error.span().unwrap_or_default(), in_our_words(error.message()))
    }

    /// Finds the line and the column in the text.
    pub(super) fn locate(self, file: &str, text: &str) -> LocatedFault {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        LocatedFault {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: self.message,
        }
    }
}

impl fmt::Display for LocatedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

/// Rewrites serde's messages about unknown and missing keys. The parser passes on nothing but the message, so the names are
/// extracted from it.
fn in_our_words(message: &str) -> String {
    let names: Vec<_> = message.split('`').skip(1).step_by(2).collect();
    let starts = |start: &str| message.starts_with(start);
    match &names[..] {
        [name, known @ ..] if starts("unknown field `") => {
            format!("there is no key {name} here; use one of {}", known.join(", "))
        }
        [name] if starts("missing field `") => format!("the key {name} is missing here; add it"),
        [name] if starts("duplicate field `") => {
            format!("the key {name} is here twice; remove one of them")
        }
        _ => message.to_owned(),
    }
}
