use core::fmt;
use core::ops::Range;
use std::io;
use std::path::PathBuf;

use super::nearest::nearest;

/// The reason why a scenario could not be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file's contents cannot be parsed or are inconsistent.
    Invalid {
        /// The path of the file, as the caller gave it.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The column, in characters, counted from 1.
        column: usize,
        /// The message: what is wrong, what is expected, and what was probably meant.
        message: String,
    },
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(formatter, "cannot read {}: {error}", path.display())
            }
            Self::Invalid { file, line, column, message } => {
                write!(formatter, "{file}:{line}:{column}: {message}")
            }
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Invalid { .. } => None,
        }
    }
}

/// An error in a file: what is wrong, and where in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    /// The location in the text, as byte positions.
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// Creates the error for `word` not being one of `candidates`.
    pub(super) fn unknown(span: Range<usize>, what: &str, word: &str, candidates: &[&str]) -> Self {
        Self::new(span, unknown(what, word, candidates))
    }

    /// Creates an error from an error of the TOML parser.
    pub(super) fn from_toml(error: &toml::de::Error) -> Self {
        Self::new(error.span().unwrap_or(0..0), in_our_words(error.message()))
    }

    /// Converts the location from byte positions to a line and a column.
    pub(super) fn locate(self, file: &str, text: &str) -> ScenarioError {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ScenarioError::Invalid {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: self.message,
        }
    }
}

fn unknown(what: &str, word: &str, candidates: &[&str]) -> String {
    let hint = match nearest(word, candidates.iter().copied()) {
        Some(candidate) => format!("; did you mean {candidate}?"),
        None => String::new(),
    };
    match candidates {
        [] => format!("unknown {what} {word}: no {what} is allowed here"),
        _ => format!("unknown {what} {word}{hint} (known: {})", candidates.join(", ")),
    }
}

/// Rewrites serde's message about an unknown key or name. The original message lists all known
/// names, but the closest one should come first. The TOML parser provides only the message, so the
/// names are extracted from it.
fn in_our_words(message: &str) -> String {
    let rewritten = [("unknown field `", "key"), ("unknown variant `", "name")]
        .into_iter()
        .filter(|(start, _)| message.starts_with(start))
        .map(|(_, what)| {
            let mut words = message.split('`').skip(1).step_by(2);
            let word = words.next().unwrap_or_default();
            unknown(what, word, &words.collect::<Vec<_>>())
        })
        .next();
    rewritten.unwrap_or_else(|| message.replace("missing field", "missing key"))
}
