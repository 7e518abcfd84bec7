use std::path::Path;

use super::{Judge, TestTarget, parse};

const HEADER: &str = "\
Row: 1 [S]
Bug: idle time
  that was none
Whose: somebody, 2026
Does: counts it
Property: L1, S5
Scenario: collapse
Controller: cubic

--- a/file
+++ b/file
";

#[test]
fn a_header_is_parsed() {
    let patch = parse(Path::new("gallery/001-idle.patch"), HEADER).unwrap();
    assert_eq!((patch.name.as_str(), patch.row, patch.is_marked), ("001-idle", 1, true));
    assert_eq!(patch.bug, "idle time that was none");
    assert_eq!(patch.properties, ["L1", "S5"]);
    assert_eq!(patch.describe_judges(), "collapse, cubic");
}

#[test]
fn a_test_needs_no_property() {
    let text = HEADER.replace("Property: L1, S5\nScenario: collapse", "Test: wire frame::tests");
    let patch = parse(Path::new("x.patch"), &text).unwrap();
    let (package, name) = ("wire".to_owned(), "frame::tests".to_owned());
    let target = TestTarget::Library;
    assert_eq!(patch.judges, [Judge::Test { package, target, name }]);
    let text = HEADER.replace("Property: L1, S5\nScenario: collapse", "Test: wire/frames all");
    let patch = parse(Path::new("x.patch"), &text).unwrap();
    let (package, name) = ("wire".to_owned(), "all".to_owned());
    let target = TestTarget::File("frames".to_owned());
    assert_eq!(patch.judges, [Judge::Test { package, target, name }]);
}

#[test]
fn the_search_may_be_a_second_judge() {
    let text = HEADER.replace("Scenario: collapse", "Scenario: collapse\nExplore: 9");
    let patch = parse(Path::new("x.patch"), &text).unwrap();
    assert_eq!(patch.describe_judges(), "collapse, cubic; explore: cubic, 9 moves");
    let text = HEADER.replace("Scenario: collapse", "Explore: 1");
    let patch = parse(Path::new("x.patch"), &text).unwrap();
    assert_eq!(patch.describe_judges(), "explore: cubic, 1 move");
    let text = HEADER.replace("Scenario: collapse", "Explore: 2");
    assert_eq!(parse(Path::new("x.patch"), &text).unwrap().judges.len(), 1);
}

#[test]
fn fleets_are_a_judge() {
    let text = HEADER.replace("Scenario: collapse", "Fleet: 30");
    let patch = parse(Path::new("x.patch"), &text).unwrap();
    assert_eq!(patch.judges, [Judge::Fleet { seeds: 30 }]);
    assert_eq!(patch.describe_judges(), "fleet: 30 seeds");
}

#[test]
fn errors_name_the_missing_or_unknown_key() {
    for (from, to, complaint) in [
        ("Row: 1 [S]\n", "", "lacks Row"),
        ("Row: 1", "Row: one", "Row must be a number"),
        ("Property: L1, S5\n", "", "lacks Property"),
        ("Scenario: collapse\n", "", "needs one of Scenario"),
        ("Scenario: collapse\n", "Explore: deep\n", "a number of moves"),
        ("Scenario: collapse\n", "Scenario: collapse\nTest: wire x\n", "are mutually exclusive"),
        ("Scenario: collapse\n", "Across: M5\nExplore: 2\n", "cannot be combined"),
        ("Scenario: collapse\n", "Fleet: all\n", "Fleet must be a number"),
        ("Does", "Dose", "without a known key: Dose"),
    ] {
        let error = parse(Path::new("x.patch"), &HEADER.replace(from, to)).unwrap_err();
        assert!(error.contains(complaint) && error.starts_with("x: "), "{error}");
    }
}
