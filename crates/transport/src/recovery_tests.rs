#[path = "recovery_tests/accounting.rs"]
mod accounting;
#[path = "recovery_tests/identity.rs"]
mod identity;
#[path = "recovery_tests/limits.rs"]
mod limits;
#[path = "recovery_tests/losses.rs"]
mod losses;
#[path = "recovery_tests/memory.rs"]
mod memory;
#[path = "recovery_tests/numbers.rs"]
mod numbers;
#[path = "recovery_tests/probes.rs"]
mod probes;
