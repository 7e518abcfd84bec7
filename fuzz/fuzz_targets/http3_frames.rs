//! Fuzzes HTTP/3 frame headers: the decoded frames are the same regardless of how the stream is
//! split into pieces.
#![no_main]

use clearway_http3::fuzzing::check_frames;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_frames(data));
