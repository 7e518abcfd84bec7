//! An encoded field section: decoded fields can be encoded, and decode to the same fields.
#![no_main]

use clearway_http3::fuzzing::check_field_section;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_field_section(data));
