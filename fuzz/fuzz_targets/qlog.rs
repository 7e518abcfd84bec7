//! Fuzzes qlog files, plain or compressed: events, findings, columns and conversion.
#![no_main]

use clearway_qlog::fuzzing::check_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_file(data));
