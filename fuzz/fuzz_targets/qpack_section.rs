//! Fuzzes encoded field sections: decoded fields can be re-encoded, and then decode to the same
//! fields.
#![no_main]

use clearway_http3::fuzzing::check_field_section;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_field_section(data));
