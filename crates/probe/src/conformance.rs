//! Conformance checks: scripts that each violate one rule or exercise one right, and the results
//! that the RFCs allow.
//!
//! RFC 9000 §11 lets an endpoint use PROTOCOL_VIOLATION or INTERNAL_ERROR in place of a specific code, RFC 9001 §4.8
//! the alert handshake_failure, and RFC 9114 §8.1 H3_GENERAL_PROTOCOL_ERROR: the checks allow these as well.

mod allowed;
mod client;
mod server;
mod suite;

use core::fmt;
use core::time::Duration;

use serde::Serialize;

use crate::script::{Condition, Script, Step};
pub use client::checks as client_checks;
pub use server::checks as server_checks;
pub use suite::{Suite, Summary, check_client, check_server};

/// What the peer must support for a check to apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Need {
    /// Only QUIC.
    Quic,
    /// HTTP/3.
    Http3,
    /// No support for DATAGRAM frames (RFC 9221).
    NoDatagrams,
    /// Active migration.
    Migration,
    /// Compatible version negotiation (RFC 9368).
    VersionInformation,
}

/// A conformance check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The name, unique among the checks for a role.
    pub name: &'static str,
    /// The RFC and the section with the rule.
    pub reference: &'static str,
    /// What the probe sends.
    pub sends: &'static str,
    /// What the peer must support.
    pub need: Need,
    /// Whether h3spec has the same check.
    pub is_in_h3spec: bool,
    script: fn() -> Script,
}

impl Check {
    const fn new(
        name: &'static str,
        reference: &'static str,
        need: Need,
        sends: &'static str,
        script: fn() -> Script,
    ) -> Self {
        Self { name, reference, sends, need, is_in_h3spec: false, script }
    }

    /// Marks the check as one that h3spec has as well.
    const fn h3spec(self) -> Self {
        Self { is_in_h3spec: true, ..self }
    }

    /// Returns the script that the check runs.
    pub fn script(&self) -> Script {
        (self.script)()
    }

    /// Returns the results with which the check passes.
    pub fn allowed(&self) -> Vec<Condition> {
        let steps = self.script().steps;
        let mut expectations = steps.into_iter().rev().filter_map(|step| match step {
            Step::Expect { any, .. } => Some(any),
            _ => None,
        });
        expectations.next().unwrap_or_default()
    }
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The peer did what the RFC allows.
    Passed,
    /// The peer did something else.
    Failed,
    /// The peer does not support what the check needs.
    NotApplicable,
}

/// A check and its result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckResult {
    /// The check's name.
    pub name: &'static str,
    /// The RFC and the section with the rule.
    pub reference: &'static str,
    /// What the probe sent.
    pub sends: &'static str,
    /// The results with which the check passes.
    pub allowed: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What happened, or why the check does not apply.
    pub detail: String,
    /// The duration in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "crate::quic::milliseconds")]
    pub duration: Duration,
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::NotApplicable => "n/a   ",
        };
        write!(f, "{mark} {} ({}): {}", self.name, self.reference, self.detail)?;
        if self.verdict == Verdict::Failed {
            write!(
                f,
                "\n       sent: {}\n       allowed: {}",
                self.sends,
                self.allowed.join("; ")
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "conformance_tests.rs"]
mod tests;
