//! Fuzzes truncated packet numbers: the decoded number is in range, and ends with the received
//! bytes.
#![no_main]

use clearway_wire::{PacketNumber, Reader, VarInt};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    let largest = VarInt::decode(&mut reader, "Fuzz").ok().and_then(|v| PacketNumber::new(v.get()));
    let rest = reader.rest();
    let bytes = rest.get(..4).unwrap_or(rest);
    let decoded = PacketNumber::decode_truncated(bytes, largest);
    assert!(decoded <= PacketNumber::MAX);
    let mut space = [0; 4];
    let space = &mut space[..bytes.len()];
    decoded.encode_truncated(space);
    assert_eq!(space, bytes);
});
