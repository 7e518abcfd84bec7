//! Tests that apply to every controller built on `base`.

#[path = "base_tests/growth.rs"]
mod growth;
#[path = "base_tests/loss.rs"]
mod loss;
#[path = "base_tests/random.rs"]
mod random;
#[path = "base_tests/recovery.rs"]
mod recovery;
#[path = "base_tests/response.rs"]
mod response;
