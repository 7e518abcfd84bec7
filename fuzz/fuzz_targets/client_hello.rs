//! Fuzzes the first bytes from a client: its transport parameters, server name and application
//! protocols are found only within these bytes, and additional bytes do not change the parameters.
#![no_main]

use clearway_transport::fuzzing::check_client_hello;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_client_hello(data));
