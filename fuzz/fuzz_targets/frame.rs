//! Fuzzes a packet's payload: every frame that can be decoded can be re-encoded, and then decodes
//! to the same frame.
#![no_main]

use clearway_wire::{Frame, Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    while !reader.is_empty() {
        let before = reader.remaining();
        let Ok(frame) = Frame::decode(&mut reader) else { break };
        assert!(reader.remaining() < before);
        let mut buffer = vec![0; frame.encoded_len()];
        let mut writer = Writer::new(&mut buffer);
        frame.encode(&mut writer).unwrap();
        assert_eq!(writer.remaining(), 0);
        assert_eq!(Frame::decode(&mut Reader::new(&buffer)), Ok(frame));
    }
});
