//! Fuzzes a datagram of coalesced packets: iteration terminates, and every offset is within its
//! packet.
#![no_main]

use clearway_wire::header::ProtectedHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((length, mut datagram)) = data.split_first() else { return };
    while let Ok(header) = ProtectedHeader::decode(datagram, usize::from(*length)) {
        assert!(header.packet_len > 0);
        if let Some((_, packet_number_offset)) = header.packet_type() {
            assert!(packet_number_offset <= header.packet_len);
        }
        datagram = &datagram[header.packet_len..];
    }
});
