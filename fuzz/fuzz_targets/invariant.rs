//! Fuzzes the version-independent header: all decoded fields are within the datagram.
#![no_main]

use clearway_wire::header::Invariant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((length, datagram)) = data.split_first() else { return };
    if let Ok(header) = Invariant::decode(datagram, usize::from(*length)) {
        let id = header.destination_connection_id();
        assert!(id.len() <= 255 && id.len() < datagram.len());
    }
});
