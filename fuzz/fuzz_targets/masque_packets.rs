//! Fuzzes IP packets in MASQUE tunnels: checksums stay valid, ICMP errors are valid packets, and
//! packets with a source address that is not assigned do not pass.
#![no_main]

use clearway_masque::fuzzing::check_packets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| check_packets(data));
