use clearway_probe::conformance::{Suite, Verdict, check_server};

use crate::support::target;

#[test]
fn clearway_passes_every_check_for_servers() {
    let summary = check_server(&target(), &Suite::default(), |_| {}).unwrap();
    assert_eq!(summary.failed, 0, "{summary}");
    let passed = summary.checks.iter().filter(|check| check.verdict == Verdict::Passed).count();
    assert!(passed > 120, "{summary}");
}
