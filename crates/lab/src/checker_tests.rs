//! Tests each property with hand-written event sequences: one that violates it, and the closest one
//! that does not.

#[path = "checker_tests/catalogue.rs"]
mod catalogue;
#[path = "checker_tests/cubic.rs"]
mod cubic;
#[path = "checker_tests/liveness.rs"]
mod liveness;
#[path = "checker_tests/marks.rs"]
mod marks;
#[path = "checker_tests/recovery.rs"]
mod recovery;
#[path = "checker_tests/safety.rs"]
mod safety;
#[path = "checker_tests/story.rs"]
mod story;
#[path = "checker_tests/windows.rs"]
mod windows;

pub(super) use story::Story;
