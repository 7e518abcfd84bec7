//! A token that a client shows, and what a token of ours can hold.
#![no_main]

use clearway_transport::fuzzing::check_token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_token(data));
