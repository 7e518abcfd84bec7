//! Tests with peers that violate the RFCs: the peer is the probe itself, which accepts everything
//! and closes connections as its script requests.

use std::thread;
use std::time::Duration;

use clearway_probe::conformance::{Check, client_checks, server_checks};
use clearway_probe::quic::{CloseLayer, Identity, Trust};
use clearway_probe::report::Report;
use clearway_probe::run::{Listener, Options, Target, connect};
use clearway_probe::script::{Condition, Script, Step};

/// Runs a client's script and a server's script against each other. Returns the reports of both.
fn pair(client: &Script, server: &Script) -> (Report, Report) {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), identity).unwrap();
    let address = listener.local_address();
    let options = Options { expect_timeout: Duration::from_millis(300), ..Options::default() };
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(server, &options).unwrap());
        let target = Target {
            address,
            server_name: "localhost".to_owned(),
            authority: "localhost".to_owned(),
            trust: Trust::Anyone,
        };
        let report = connect(&target, client, &options).unwrap();
        (report, accepting.join().unwrap())
    })
}

fn find(checks: Vec<Check>, name: &str) -> Check {
    checks.into_iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}"))
}

/// Returns a script that does nothing until the peer closes the connection.
fn idle() -> Script {
    Script::http3().step(Step::Wait { until: None, milliseconds: 3000 })
}

#[test]
fn a_server_that_accepts_everything_fails() {
    for name in [
        "handshake-done-from-client",
        "stream-on-server-uni",
        "reserved-bits-one-rtt",
        "unknown-frame-one-rtt",
        "empty-packet-one-rtt",
        "bidi-stream-beyond-window",
        "new-connection-id-empty",
        "max-ack-delay-too-large",
        "missing-settings",
        "data-before-headers",
        "uppercase-name",
        "static-index-out-of-range",
        "table-capacity-too-large",
    ] {
        let check = find(server_checks(), name);
        let (report, _) = pair(&check.script(), &idle());
        let failed: Vec<_> = report.steps.iter().filter(|step| !step.is_ok).collect();
        assert_eq!(failed.len(), 1, "{name}: {report}");
        assert_eq!(failed[0].detail, "accepted silently", "{name}");
    }
}

#[test]
fn a_client_that_accepts_everything_fails() {
    for name in [
        "stream-on-client-uni",
        "ack-delay-exponent-too-large",
        "second-settings",
        "goaway-increasing",
    ] {
        let check = find(client_checks(), name);
        let client =
            Script::http3().get(0, "/").step(Step::Wait { until: None, milliseconds: 3000 });
        let (_, report) = pair(&client, &check.script());
        assert!(!report.is_passed(), "{name}: {report}");
    }
}

#[test]
fn a_server_that_closes_with_another_code_fails() {
    let check = find(server_checks(), "data-before-headers");
    let close =
        Step::Close { layer: CloseLayer::Application, code: 0x100.into(), reason: "fine".into() };
    let server = Script::http3().wait(Condition::Data { stream: 0, at_least: 1 }).step(close);
    let (report, _) = pair(&check.script(), &server.step(Step::Flush {}));
    let failed = report.steps.iter().find(|step| !step.is_ok).unwrap();
    assert_eq!(failed.detail, "connection closed: H3_NO_ERROR: fine");
}

#[test]
fn a_server_that_stops_a_stream_does_not_reset_it() {
    let check = find(server_checks(), "http2-ping-on-request");
    for (step, what) in [
        (Step::StopSending { stream: 0, code: 0x10c.into() }, "stopped"),
        (Step::ResetStream { stream: 0, code: 0x10c.into() }, "reset"),
    ] {
        let server = Script::http3().wait(Condition::Data { stream: 0, at_least: 1 }).step(step);
        let server = server.step(Step::Wait { until: None, milliseconds: 3000 });
        let (report, _) = pair(&check.script(), &server);
        let failed = report.steps.iter().find(|step| !step.is_ok).unwrap();
        assert_eq!(failed.detail, format!("stream 0 {what}: H3_REQUEST_CANCELLED"));
    }
}

#[test]
fn a_repeated_setting_may_be_accepted() {
    let (report, _) = pair(&find(server_checks(), "setting-twice").script(), &idle());
    assert!(report.is_passed(), "{report}");
    let client = Script::http3().get(0, "/").step(Step::Wait { until: None, milliseconds: 3000 });
    let (_, report) = pair(&client, &find(client_checks(), "setting-twice").script());
    assert!(report.is_passed(), "{report}");
}

#[test]
fn a_server_that_does_not_discard_fails() {
    // It resets the connection because of a packet that it should have discarded.
    let check = find(server_checks(), "bad-tag");
    let (report, _) = pair(
        &check.script(),
        &Script::http3().step(Step::StatelessReset { token: None }).step(Step::Flush {}),
    );
    assert!(!report.is_passed(), "{report}");
}
