//! An encoded field section: what was decoded can be encoded, and means the same.
#![no_main]

use clearway_http3::fuzzing::check_field_section;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_field_section(data));
