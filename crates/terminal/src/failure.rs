//! The type for failures of commands.

use std::fmt;

use clearway_units::foreign::escaped;

/// The reason that a command failed, for the user: one line that states what happened, where, and
/// how to fix it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failure {
    what: String,
    advice: Option<String>,
    exit_status: u8,
}

impl Failure {
    /// Creates a failure; `what` states which action failed, on which object, and why.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), advice: None, exit_status: 1 }
    }

    /// Combines the failures of several attempts at the same action: the messages of all failures,
    /// with the advice and the exit status of the first. Returns `None` if there are no failures.
    pub fn of_all(failures: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut failures = failures.into_iter();
        let first = failures.next()?;
        let mut all = vec![first.what.clone()];
        for Self { what, .. } in failures {
            if !all.contains(&what) {
                all.push(what);
            }
        }
        Some(Self { what: all.join("; "), ..first })
    }

    /// Adds advice on how the user can fix the failure.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets an exit status other than 1.
    pub const fn with_exit_status(mut self, exit_status: u8) -> Self {
        self.exit_status = exit_status;
        self
    }

    /// Returns the exit status of the program.
    pub const fn exit_status(&self) -> u8 {
        self.exit_status
    }
}

impl fmt::Display for Failure {
    /// Writes one line, in which control and bidirectional characters from peers or file names are
    /// escaped.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.what.clone();
        if let Some(advice) = &self.advice {
            line.push_str("; ");
            line.push_str(advice);
        }
        formatter.write_str(&escaped(&line))
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn failures_of_several_attempts_are_one() {
        let silent = Failure::new("no response from ::1").advise("check it");
        let refused = Failure::new("refused by 127.0.0.1").advise("start it");
        let all = Failure::of_all([silent.clone(), refused, silent]).unwrap();
        assert_eq!(all.to_string(), "no response from ::1; refused by 127.0.0.1; check it");
        assert_eq!(Failure::of_all([]), None);
    }

    #[test]
    fn control_characters_are_escaped() {
        let failure = Failure::new("cannot read \"a\nb\u{1b}[2J\"").advise("check the name");
        assert_eq!(failure.to_string(), "cannot read \"a\\nb\\u001b[2J\"; check the name");
    }
}
