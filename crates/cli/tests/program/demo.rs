//! Tests `clearway demo` with small parameters.

use crate::support::{Scratch, succeed};

#[test]
fn every_controller_finishes_and_is_reported() {
    let scratch = Scratch::new("demo");
    let qlog = scratch.path("qlog");
    let arguments = ["--size", "300kB", "--loss-for", "150ms", "--seed", "5", "--json"];
    let output = succeed(&[&["demo", "--qlog", &qlog][..], &arguments[..]].concat());
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let controllers: Vec<_> =
        lines.iter().map(|line| line["controller"].as_str().unwrap()).collect();
    assert_eq!(controllers, ["reno", "cubic", "bbr"]);
    for line in &lines {
        assert_eq!((&line["finished"], &line["bytes"]), (&true.into(), &300_000.into()));
        assert!(line["lost"].as_u64().unwrap() > 0, "{line}");
        assert!(line["congestion_events"].as_u64().unwrap() > 0, "{line}");
        assert!(line["seconds"].as_f64().unwrap() > 0.05, "{line}");
        for key in ["goodput_bps", "min_window", "floor_seconds", "spurious"] {
            assert!(line[key].is_number(), "{key}: {line}");
        }
        assert!(line["floor_reached"].is_boolean(), "{line}");
    }
    for controller in controllers {
        let log = std::fs::read(scratch.path(&format!("qlog/{controller}-1.sqlog"))).unwrap();
        assert!(log.starts_with(b"\x1e{") && log.ends_with(b"\n"), "{controller}");
    }
}

#[test]
fn a_run_that_does_not_finish_is_a_failure() {
    let scratch = Scratch::new("demo-unfinished");
    let qlog = scratch.path("qlog");
    let hopeless = ["--loss", "100%", "--loss-for", "60s", "--limit", "300ms", "--json"];
    let arguments = [&["demo", "--qlog", &qlog, "--controller", "reno"][..], &hopeless].concat();
    let output = crate::support::clearway(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["finished"], false);
    let errors = String::from_utf8(output.stderr).unwrap();
    let last = errors.lines().last().unwrap();
    assert!(last.contains("1 of 1 runs did not finish") && last.contains("300ms"), "{last}");
}
