//! Running the checks against a server, and what happened in each.

use serde_json::Value;

use crate::support::{self, Peer, Server, Workspace};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    Passed,
    Failed,
    NotApplicable,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CheckResult {
    pub(super) name: String,
    /// The RFC and the section with the rule.
    pub(super) reference: String,
    /// What the probe sent.
    pub(super) sends: String,
    pub(super) verdict: Verdict,
    /// What happened, in a few words.
    pub(super) what: String,
}

impl CheckResult {
    fn parse(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let verdict = match value["verdict"].as_str() {
            Some("passed") => Verdict::Passed,
            Some("failed") => Verdict::Failed,
            Some("not-applicable") => Verdict::NotApplicable,
            _ => panic!("a verdict is missing: {value}"),
        };
        let allowed = value["allowed"][0].as_str().unwrap_or_default();
        let detail = text("detail");
        let what = match verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::Failed => describe(&detail, allowed),
            Verdict::NotApplicable => "n/a".to_owned(),
        };
        let (name, reference, sends) = (text("name"), text("reference"), text("sends"));
        Self { name, reference, sends, verdict, what }
    }
}

/// Shortens the probe's description of what happened. `allowed` is the first allowed result.
fn describe(detail: &str, allowed: &str) -> String {
    if let Some(close) = detail.strip_prefix("connection closed: ") {
        let code = close.split(": ").next().unwrap_or_default();
        return format!("closed with {}", code.split(" (frame type").next().unwrap_or_default());
    }
    if detail.starts_with("stream ") {
        return detail.replace("stream 0", "request stream").replace(": ", " with ");
    }
    if detail.starts_with("cannot connect") {
        return "no answer".to_owned();
    }
    assert_eq!(detail, "accepted silently", "the result needs a short description");
    let needs_answer = [" frame", "handshake", "response"].iter().any(|it| allowed.contains(it));
    match allowed {
        "no packet" => "answered",
        _ if needs_answer => "no answer",
        _ => "no error",
    }
    .to_owned()
}

/// A running server.
pub(super) struct Endpoint {
    server: Server,
    workspace: Workspace,
}

impl Endpoint {
    pub(super) fn clearway() -> Self {
        let workspace = Workspace::new("conformance-clearway", 6);
        Self { server: support::clearway_serve(&workspace), workspace }
    }

    pub(super) fn of_peer(name: &str, peer: &Peer) -> Self {
        let workspace = Workspace::new(&format!("conformance-{name}"), 6);
        Self { server: peer.serve_quietly(&workspace), workspace }
    }

    /// Runs the checks whose names contain `only`, or all checks.
    pub(super) fn check(&self, only: Option<&str>) -> Vec<CheckResult> {
        let port = self.server.address.rsplit_once(':').map_or("", |(_, port)| port);
        let mut command = support::clearway();
        command.args(["probe", "conformance", &format!("https://localhost:{port}"), "--json"]);
        command.args(["--ca", &self.workspace.text("cert.pem")]);
        command.args(only.into_iter().flat_map(|name| ["--only", name]));
        // The exit status is 1 if a check has failed.
        let output = support::output(command);
        let summary: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("no results: {error}: {output:?}"));
        let checks = summary["checks"].as_array().expect("results");
        checks.iter().map(CheckResult::parse).collect()
    }

    /// Runs one check again.
    pub(super) fn check_again(&self, result: &CheckResult) -> CheckResult {
        let mut results = self.check(Some(&result.name)).into_iter();
        results.find(|it| it.name == result.name).expect("the check's result")
    }
}

/// Describes how many checks have each verdict.
pub(super) fn totals(results: &[CheckResult]) -> String {
    let count = |verdict| results.iter().filter(|it| it.verdict == verdict).count();
    let [passed, failed, other] =
        [Verdict::Passed, Verdict::Failed, Verdict::NotApplicable].map(count);
    format!("{passed} passed, {failed} failed, {other} not applicable")
}
