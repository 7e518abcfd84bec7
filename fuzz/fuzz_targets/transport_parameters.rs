//! Fuzzes transport parameters: accepted parameters can be re-encoded, and then decode to the same
//! parameters.
#![no_main]

use clearway_wire::{Initiator, TransportParameters};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for from in [Initiator::Client, Initiator::Server] {
        if let Ok(parameters) = TransportParameters::decode(data, from) {
            let mut encoded = Vec::new();
            parameters.encode(&mut encoded, None);
            assert_eq!(TransportParameters::decode(&encoded, from), Ok(parameters));
        }
    }
});
