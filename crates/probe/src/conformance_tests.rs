use std::collections::BTreeSet;

use super::*;

#[test]
fn there_are_enough_checks_with_distinct_names() {
    for (checks, least) in [(server_checks(), 120), (client_checks(), 40)] {
        let names: BTreeSet<_> = checks.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), checks.len());
        assert!(checks.len() >= least, "{}", checks.len());
    }
    // Some of h3spec's conditions are several checks here.
    let of_h3spec = server_checks().iter().filter(|check| check.is_in_h3spec).count();
    assert!(of_h3spec >= 50, "{of_h3spec}");
}

#[test]
fn every_check_expects_something_and_has_a_toml_form() {
    for check in server_checks().iter().chain(&client_checks()) {
        assert!(!check.allowed().is_empty(), "{}", check.name);
        assert!(check.reference.starts_with("RFC "), "{}: {}", check.name, check.reference);
        let is_name = check
            .name
            .chars()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-');
        assert!(is_name, "{}", check.name);
        let script = check.script();
        let text = script.to_toml().unwrap();
        assert_eq!(Script::from_toml(&text).unwrap(), script, "{}", check.name);
        for condition in check.allowed() {
            let (Condition::Close { codes, .. } | Condition::Reset { codes, .. }) = condition
            else {
                continue;
            };
            for code in codes {
                assert!(crate::error_codes::number(&code).is_some(), "{}: {code}", check.name);
            }
        }
    }
}
