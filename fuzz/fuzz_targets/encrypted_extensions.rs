//! Fuzzes the first bytes from a server in Handshake packets: the ECH configurations are found only
//! within these bytes, and additional bytes do not change the result.
#![no_main]

use clearway_transport::fuzzing::check_encrypted_extensions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_encrypted_extensions(data));
