//! Errors in TOML files, with their positions.

use std::ops::Range;
use std::path::Path;

use crate::failure::Failure;

/// An error at a position in the text: what is wrong, and how to fix it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The position, as a range of bytes.
    span: Range<usize>,
    message: String,
}

impl Fault {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// Converts an error of the TOML parser.
    pub(crate) fn of_toml(error: &toml::de::Error) -> Self {
        Self::new(error.span().unwrap_or_default(), in_our_words(error.message()))
    }

    /// Returns the failure, with its line and column in `text`; columns are in characters, and both
    /// are counted from 1.
    pub(crate) fn in_file(&self, file: &Path, text: &str) -> Failure {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Failure::new(format!("{}:{line}:{column}: {}", file.display(), self.message))
    }
}

/// Rewrites serde's messages about unknown and missing keys. The parser provides only the message,
/// so the names are extracted from it.
fn in_our_words(message: &str) -> String {
    let names: Vec<_> = message.split('`').skip(1).step_by(2).collect();
    match &names[..] {
        [name, known @ ..] if message.starts_with("unknown field `") => {
            format!("unknown key {name}; use one of {}", known.join(", "))
        }
        [name] if message.starts_with("missing field `") => {
            format!("the key {name} is missing; add it")
        }
        _ => message.to_owned(),
    }
}
