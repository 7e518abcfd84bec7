//! Runs checks and collects their results.

use core::fmt;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde::Serialize;

use super::{Check, CheckResult, Need, Verdict, client_checks, server_checks};
use crate::quic::Parameters;
use crate::report::Report;
use crate::run::{self, Listener, Options, RunError, Target};
use crate::script::{Condition, Script, Step};

/// Settings of a conformance run.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Runs only checks whose names contain this text.
    pub only: Option<String>,
    /// Maximum number of checks that run concurrently against a server.
    pub concurrency: NonZeroUsize,
    /// The settings of each run.
    pub options: Options,
}

impl Default for Suite {
    fn default() -> Self {
        const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);
        Self { only: None, concurrency: CONCURRENCY, options: Options::default() }
    }
}

impl Suite {
    /// Returns the subset of `checks` that this suite runs.
    pub fn select(&self, checks: Vec<Check>) -> Vec<Check> {
        let is_selected = |check: &Check| {
            self.only.as_ref().is_none_or(|part| check.name.contains(part.as_str()))
        };
        checks.into_iter().filter(is_selected).collect()
    }
}

/// The results of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The number of checks that passed.
    pub passed: usize,
    /// The number of checks that failed.
    pub failed: usize,
    /// The number of checks that do not apply.
    pub not_applicable: usize,
    /// The results, in the order of the checks.
    pub checks: Vec<CheckResult>,
}

impl Summary {
    fn new(checks: Vec<CheckResult>) -> Self {
        let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
        Self {
            passed: count(Verdict::Passed),
            failed: count(Verdict::Failed),
            not_applicable: count(Verdict::NotApplicable),
            checks,
        }
    }

    /// Returns the summary as JSON in one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        f.write_str(&self.totals())
    }
}

impl Summary {
    /// Returns the totals in one line.
    pub fn totals(&self) -> String {
        let Self { passed, failed, not_applicable, .. } = self;
        format!("{passed} passed, {failed} failed, {not_applicable} not applicable")
    }
}

/// What must be known about a peer to determine which checks apply.
#[derive(Clone, Copy, Debug)]
struct Facts {
    has_http3: bool,
    has_datagrams: bool,
    allows_migration: bool,
    has_version_information: bool,
}

impl Facts {
    fn of(report: &Report) -> Self {
        let find = |id| report.peer_parameters.iter().find(|parameter| parameter.id == id);
        let datagrams = find(Parameters::MAX_DATAGRAM_FRAME_SIZE);
        Self {
            has_http3: report.alpn.as_ref().is_some_and(|alpn| alpn.bytes() == b"h3"),
            has_datagrams: datagrams.is_some_and(|parameter| parameter.value.bytes() != [0]),
            allows_migration: find(Parameters::DISABLE_ACTIVE_MIGRATION).is_none(),
            has_version_information: find(Parameters::VERSION_INFORMATION).is_some(),
        }
    }

    /// Returns the reason why a check does not apply, if it does not.
    fn lacks(self, need: Need) -> Option<&'static str> {
        match need {
            Need::Http3 if !self.has_http3 => Some("the peer does not speak HTTP/3"),
            Need::NoDatagrams if self.has_datagrams => Some("the peer accepts DATAGRAM frames"),
            Need::Migration if !self.allows_migration => Some("the server disables migration"),
            Need::VersionInformation if !self.has_version_information => {
                Some("the peer does not send version_information")
            }
            _ => None,
        }
    }
}

/// Runs the checks against a server. `on_result` is called whenever a check has finished.
///
/// # Errors
/// If the server cannot be reached, or does not complete a handshake.
pub fn check_server(
    target: &Target,
    suite: &Suite,
    on_result: impl Fn(&CheckResult) + Sync,
) -> Result<Summary, RunError> {
    let confirm = Step::Wait { until: Some(Condition::Acknowledged {}), milliseconds: 500 };
    let first = run::connect(target, &Script::quic().step(confirm), &suite.options)?;
    if first.progress < crate::quic::Progress::Complete {
        let close = first.close.map_or_else(
            || "the handshake does not complete".to_owned(),
            |close| close.to_string(),
        );
        return Err(RunError::CannotConnect { address: target.address, why: close });
    }
    let facts = Facts::of(&first);
    let checks = suite.select(server_checks());
    let results: Vec<Mutex<Option<CheckResult>>> =
        checks.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..suite.concurrency.get().min(checks.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(check), Some(slot)) = (checks.get(index), results.get(index)) else {
                        break;
                    };
                    let result =
                        one(check, facts, || run::connect(target, &check.script(), &suite.options));
                    on_result(&result);
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten());
    Ok(Summary::new(results.collect()))
}

/// Runs the checks against a client. `start` is called once for each check to start the client, and
/// `on_result` is called whenever a check has finished.
pub fn check_client(
    listener: &Listener,
    suite: &Suite,
    mut start: impl FnMut(&Check),
    on_result: impl Fn(&CheckResult),
) -> Summary {
    // Nothing is known about a client before its check.
    let facts = Facts {
        has_http3: suite.options.alpn.is_empty(),
        has_datagrams: false,
        allows_migration: true,
        has_version_information: true,
    };
    let mut results = Vec::new();
    for check in suite.select(client_checks()) {
        let result = one(&check, facts, || {
            start(&check);
            listener.accept(&check.script(), &suite.options)
        });
        on_result(&result);
        results.push(result);
    }
    Summary::new(results)
}

fn one(check: &Check, facts: Facts, run: impl FnOnce() -> Result<Report, RunError>) -> CheckResult {
    let start = Instant::now();
    let (verdict, detail) = match facts.lacks(check.need) {
        Some(why) => (Verdict::NotApplicable, why.to_owned()),
        None => judge(run()),
    };
    CheckResult {
        name: check.name,
        reference: check.reference,
        sends: check.sends,
        allowed: check.allowed().iter().map(ToString::to_string).collect(),
        verdict,
        detail,
        duration: start.elapsed(),
    }
}

fn judge(result: Result<Report, RunError>) -> (Verdict, String) {
    let report = match result {
        Ok(report) => report,
        Err(RunError::NotApplicable { why }) => return (Verdict::NotApplicable, why),
        Err(error) => return (Verdict::Failed, error.to_string()),
    };
    match report.steps.iter().find(|step| !step.is_ok) {
        // Without another connection ID of the peer there is no migration.
        Some(step) if step.action == "migrate" => (Verdict::NotApplicable, step.detail.clone()),
        Some(step) => (Verdict::Failed, step.detail.clone()),
        None => {
            let last = report.steps.into_iter().rev().find(|step| step.action == "expect");
            (Verdict::Passed, last.map(|step| step.detail).unwrap_or_default())
        }
    }
}
