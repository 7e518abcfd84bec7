//! Fuzzes the content of MASQUE tunnels: the results are the same regardless of how the stream is
//! split into pieces, and decoded capsules can be encoded again.
#![no_main]

use clearway_masque::fuzzing::check_capsules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_capsules(data));
