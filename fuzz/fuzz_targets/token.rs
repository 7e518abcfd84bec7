//! Fuzzes tokens in Initial packets, and the contents that a token can encode.
#![no_main]

use clearway_transport::fuzzing::check_token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_token(data));
