//! Fuzzes the QPACK encoder and decoder streams: the result is the same regardless of how they are
//! split into pieces.
#![no_main]

use clearway_http3::fuzzing::check_instructions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_instructions(data));
