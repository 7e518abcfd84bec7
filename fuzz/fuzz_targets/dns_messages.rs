//! Fuzzes DNS messages as queries, and as responses of upstream servers: questions, responses and
//! Extended DNS Errors can be encoded again, within the limits of each protocol, and cached
//! responses differ only in their TTLs.
#![no_main]

use clearway_dns::fuzzing::check_messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_messages(data));
