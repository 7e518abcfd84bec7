//! Fuzzes the payload of an HTTP/3 SETTINGS frame.
#![no_main]

use clearway_http3::fuzzing::check_settings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_settings(data));
