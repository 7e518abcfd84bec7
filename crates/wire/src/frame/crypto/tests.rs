use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
use crate::strategies::{bytes, hex, varint};

#[test]
fn on_the_wire() {
    let frame = Crypto { offset: number(0x40), data: b"abc" };
    check_bytes(Frame::Crypto(frame), &hex("06 4040 03 616263"));
    check_bytes(Frame::Crypto(Crypto { offset: VarInt::ZERO, data: b"" }), &hex("06 00 00"));
}

#[test]
fn data_beyond_the_last_offset() {
    let last = Crypto { offset: number(VarInt::MAX.get() - 1), data: b"a" };
    check_round_trip(Frame::Crypto(last));
    let beyond = DecodeError::invalid("Offset", "and the length reach beyond 2^62-1");
    assert_eq!(decode(&hex("06 ffffffffffffffff 01 61")), Err(beyond));
    let mut buffer = [0; 20];
    let mut writer = Writer::new(&mut buffer);
    let result = Crypto::encode_in_place(&mut writer, VarInt::MAX, 1);
    assert_eq!(result, Err(EncodeError));
    assert_eq!(writer.written(), 0);
}

#[test]
fn a_length_beyond_the_packet() {
    let cut = DecodeError::Truncated { field: "Crypto Data" };
    assert_eq!(decode(&hex("06 00 04 616263")), Err(cut));
    assert_eq!(decode(&hex("06 00 ffffffffffffffff 616263")), Err(cut));
}

proptest! {
    #[test]
    fn round_trip(offset in varint(), data in bytes(100)) {
        prop_assume!(check_end(offset, data.len()));
        check_round_trip(Frame::Crypto(Crypto { offset, data: &data }));
    }

    #[test]
    fn in_place(offset in varint(), data in bytes(100)) {
        prop_assume!(check_end(offset, data.len()));
        let mut buffer = [0; 200];
        let mut writer = Writer::new(&mut buffer);
        let space = Crypto::encode_in_place(&mut writer, offset, data.len()).unwrap();
        space.copy_from_slice(&data);
        prop_assert_eq!(writer.written(), Crypto::header_len(offset, data.len()) + data.len());
        prop_assert_eq!(decode(writer.filled()), Ok(Frame::Crypto(Crypto { offset, data: &data })));
    }
}
