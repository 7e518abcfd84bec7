//! Fuzzes variable-length integers: a decoded value can be re-encoded in at most as many bytes.
#![no_main]

use clearway_wire::{Reader, VarInt, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    if let Ok(value) = VarInt::decode(&mut reader, "Fuzz") {
        assert!(value.encoded_len() <= data.len() - reader.remaining());
        let mut buffer = [0; 8];
        let mut writer = Writer::new(&mut buffer);
        value.encode(&mut writer).unwrap();
        assert_eq!(writer.written(), value.encoded_len());
        assert_eq!(VarInt::decode(&mut Reader::new(writer.filled()), "Fuzz"), Ok(value));
    }
});
