//! Tests the findings in recorded traces.
//!
//! `gallery-001` is from `lab replay collapse --controller cubic --seed 2` with the gallery's first patch;
//! `quiche-0.30-*` are from a quiche 0.30 server with its published bug switched on and off; the small ones are
//! from servers of `interop/peers/`.

use std::path::Path;

use clearway_qlog::convert::to_0_3;
use clearway_qlog::findings::{Finding, FindingId, Report, find};
use clearway_qlog::read::{QlogReader, VantagePoint};

fn report(name: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let mut reports = find(QlogReader::open(&path).unwrap(), |_| {});
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

/// Asserts that a finding has these metrics, among others.
fn assert_metrics(finding: &Finding, metrics: &[(&str, &str)]) {
    for (name, value) in metrics {
        let known = finding.metrics.iter().find(|(known, _)| known == name);
        assert_eq!(known.map(|(_, value)| value.as_str()), Some(*value), "{name}: {finding:?}");
    }
}

#[test]
fn the_published_bug_in_clearway() {
    let report = report("gallery-001.sqlog.gz");
    assert_eq!(report.reading.damage, None);
    let first = &report.findings[0];
    assert_eq!(first.id, FindingId::WindowAtFloor);
    let headline = "Congestion window pinned at its floor (2 datagrams) for 7.9 s without loss";
    assert_eq!(first.headline, headline);
    let metrics = [
        ("floor", "2,700 bytes"),
        ("packets lost", "0"),
        ("bytes in flight fall to 0 every", "10.1 ms (one round trip)"),
    ];
    assert_metrics(first, &metrics);
}

#[test]
fn the_published_bug_in_quiche() {
    let report = report("quiche-0.30-idle-fix-off-pinned.sqlog.gz");
    // The process was killed while it was writing the trace.
    assert_eq!(report.reading.damage.as_ref().unwrap().why, "the last record is truncated");
    assert_eq!(report.reading.vantage_point, VantagePoint::Server);
    let first = &report.findings[0];
    assert_eq!(first.id, FindingId::WindowAtFloor);
    let headline = "Congestion window pinned at its floor (2 datagrams) for 7.7 s without loss";
    assert_eq!(first.headline, headline);
    let metrics = [
        ("floor", "2,700 bytes"),
        ("round trips", "480"),
        ("mean round-trip time", "16.0 ms"),
        ("packets lost", "0"),
        ("enters and leaves recovery every", "16.0 ms (one round trip)"),
    ];
    assert_metrics(first, &metrics);
    let ids: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids[1..], [FindingId::StateFlapping, FindingId::RecoveryWithoutLoss]);
}

#[test]
fn the_published_bug_when_jitter_ends_it() {
    let report = report("quiche-0.30-idle-fix-off-slow.sqlog.gz");
    let first = &report.findings[0];
    assert_eq!(first.id, FindingId::WindowAtFloor);
    assert_metrics(first, &[("total time exactly at the floor", "2.2 s")]);
    let periods = first.metrics.iter().filter(|(_, value)| value.ends_with("(one round trip)"));
    assert_eq!(periods.count(), 1, "{first:?}");
}

#[test]
fn no_findings_in_healthy_traces_of_other_stacks() {
    let files = ["quiche-0.30-healthy.sqlog.gz", "quic-go-small.sqlog.gz", "quinn-small.sqlog.gz"];
    for name in files {
        let report = report(name);
        assert_eq!(report.findings, [], "{name}");
        assert_eq!(report.reading.vantage_point, VantagePoint::Server, "{name}");
        let misread = report.reading.unused.keys().find(|name| name.contains("(unexpected data)"));
        assert_eq!(misread, None, "{name}");
    }
}

/// The aioquic process did not run for a second in the middle of a burst, and therefore sent no
/// probe.
#[test]
fn a_process_that_was_not_scheduled_sends_its_probe_late() {
    let report = report("aioquic-small.qlog.gz");
    let ids: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [FindingId::ProbeOverdue]);
    let finding = &report.findings[0];
    assert_eq!(finding.headline, "No probe sent for 1.1 s while packets were unacknowledged");
    assert_eq!((finding.begin.as_millis(), finding.end.as_millis()), (952, 2045));
    assert_eq!(report.reading.dialect, "0.3");
    assert_eq!(report.reading.vantage_point, VantagePoint::Server);
}

#[test]
fn a_converted_trace_has_the_same_findings() {
    for name in [
        "gallery-001.sqlog.gz",
        "quiche-0.30-idle-fix-off-pinned.sqlog.gz",
        "aioquic-small.qlog.gz",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let mut output = Vec::new();
        to_0_3(&path, &mut output).unwrap();
        let reader = QlogReader::new(std::io::Cursor::new(output)).unwrap();
        let after = find(reader, |_| {}).remove(0);
        assert_eq!(after.reading.dialect, "0.3");
        let first =
            |report: &Report| report.findings.first().map(|finding| (finding.id, finding.begin));
        assert_eq!(first(&after), first(&report(name)), "{name}");
    }
}
