//! Tests each finding with a trace that has it, and with a similar one that does not.

#[path = "findings_tests/catalogue.rs"]
mod catalogue;
#[path = "findings_tests/delivery.rs"]
mod delivery;
#[path = "findings_tests/outcome.rs"]
mod outcome;
#[path = "findings_tests/overlap.rs"]
mod overlap;
#[path = "findings_tests/peer.rs"]
mod peer;
#[path = "findings_tests/story.rs"]
mod story;
#[path = "findings_tests/window.rs"]
mod window;

#[test]
fn the_first_of_the_worst_is_kept() {
    let mut worst = None;
    for one in [(1, 'a'), (3, 'b'), (2, 'c'), (3, 'd')] {
        super::keep_worst(&mut worst, one, |(size, _)| *size);
    }
    assert_eq!(worst, Some((3, 'b')));
}
