//! Fuzzes Huffman-coded strings: every string has exactly one encoding.
#![no_main]

use clearway_http3::fuzzing::check_huffman;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_huffman(data));
