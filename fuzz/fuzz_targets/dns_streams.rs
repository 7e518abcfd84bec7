//! Fuzzes how DNS messages are separated on QUIC and TCP streams: the messages are the same
//! regardless of how a stream is split into pieces. Also fuzzes the parameter of DoH requests.
#![no_main]

use clearway_dns::fuzzing::check_streams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_streams(data));
