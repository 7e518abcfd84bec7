use std::collections::BTreeSet;

use crate::findings::CATALOGUE;

#[test]
fn every_finding_has_its_entry() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
    let ids: BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.id).collect();
    assert_eq!((names.len(), ids.len()), (CATALOGUE.len(), CATALOGUE.len()));
    for entry in &CATALOGUE {
        assert_eq!(entry.id.entry(), entry);
        assert!(entry.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        for text in [entry.title, entry.meaning, entry.causes, entry.bound] {
            assert!(!text.is_empty() && !text.contains("  "), "{}: {text:?}", entry.name);
        }
    }
}

#[test]
fn a_headline_has_at_most_twelve_words() {
    for entry in &CATALOGUE {
        let words = entry.title.split_whitespace().count();
        assert!(words <= 12, "{} has {words} words", entry.name);
    }
}
