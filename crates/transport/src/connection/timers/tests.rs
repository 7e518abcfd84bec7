use super::*;

/// The order in which timers expire, and that no kind is missing or in the table twice.
#[test]
fn every_kind_has_its_row() {
    for (place, timer) in TIMERS.iter().enumerate() {
        assert_eq!(timer.kind as usize, place, "{:?}", timer.kind);
    }
}
