//! The reasons why a test does not pass.

/// The outcome of a test that did not pass.
#[derive(Debug)]
pub(crate) enum Problem {
    Failed(String),
    /// One of the endpoints does not support the tested feature, with the reason.
    Unsupported(&'static str),
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// Checks a condition, and fails with `text` if it does not hold.
///
/// # Errors
/// Returns an error with the text if the condition does not hold.
pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::Failed(text())) }
}
