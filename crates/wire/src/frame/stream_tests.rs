use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
use crate::strategies::{bytes, hex, stream_id, varint};

fn stream(offset: u64, fin: bool, data: &[u8]) -> Stream<'_> {
    let stream_id = StreamId::from_varint(number(4));
    Stream { stream_id, offset: number(offset), fin, data }
}

#[test]
fn on_the_wire() {
    check_bytes(Frame::Stream(stream(0, false, b"abc")), &hex("0a 04 03 616263"));
    check_bytes(Frame::Stream(stream(0, true, b"abc")), &hex("0b 04 03 616263"));
    check_bytes(Frame::Stream(stream(0x40, false, b"abc")), &hex("0e 04 4040 03 616263"));
    check_bytes(Frame::Stream(stream(0x40, true, b"")), &hex("0f 04 4040 00"));
}

#[test]
fn without_length_the_data_ends_with_the_packet() {
    assert_eq!(decode(&hex("08 04 616263")), Ok(Frame::Stream(stream(0, false, b"abc"))));
    assert_eq!(decode(&hex("09 04 616263")), Ok(Frame::Stream(stream(0, true, b"abc"))));
    assert_eq!(decode(&hex("0c 04 05 616263")), Ok(Frame::Stream(stream(5, false, b"abc"))));
    assert_eq!(decode(&hex("0d 04 05")), Ok(Frame::Stream(stream(5, true, b""))));
}

#[test]
fn data_beyond_the_last_offset() {
    check_round_trip(Frame::Stream(stream(VarInt::MAX.get() - 3, false, b"abc")));
    let beyond = DecodeError::invalid("Offset", "plus the length exceeds 2^62-1");
    assert_eq!(decode(&hex("0e 04 fffffffffffffffd 03 616263")), Err(beyond));
    assert_eq!(decode(&hex("0c 04 fffffffffffffffd 616263")), Err(beyond));
    let mut buffer = [0; 40];
    let mut writer = Writer::new(&mut buffer);
    let id = StreamId::from_varint(VarInt::ZERO);
    let result = Stream::encode_in_place(&mut writer, id, VarInt::MAX, 1, false, true);
    assert_eq!(result, Err(EncodeError));
    assert_eq!(writer.written(), 0);
}

proptest! {
    #[test]
    fn round_trip(stream_id in stream_id(), offset in varint(), fin: bool, data in bytes(100)) {
        prop_assume!(check_end(offset, data.len()));
        check_round_trip(Frame::Stream(Stream { stream_id, offset, fin, data: &data }));
    }

    #[test]
    fn in_place(
        stream_id in stream_id(),
        offset in varint(),
        fin: bool,
        explicit_length: bool,
        data in bytes(100),
    ) {
        prop_assume!(check_end(offset, data.len()));
        let length = data.len();
        let header_len = Stream::header_len(stream_id, offset, explicit_length.then_some(length));
        let mut buffer = vec![0; header_len + length];
        for space in 0..buffer.len() {
            let mut writer = Writer::new(&mut buffer[..space]);
            let result = Stream::encode_in_place(
                &mut writer, stream_id, offset, length, fin, explicit_length,
            );
            prop_assert_eq!(result, Err(EncodeError));
            prop_assert_eq!(writer.written(), 0);
        }
        let mut writer = Writer::new(&mut buffer);
        let space = Stream::encode_in_place(
            &mut writer, stream_id, offset, length, fin, explicit_length,
        );
        space.unwrap().copy_from_slice(&data);
        prop_assert_eq!(writer.remaining(), 0);
        let frame = Stream { stream_id, offset, fin, data: &data };
        prop_assert_eq!(decode(&buffer), Ok(Frame::Stream(frame)));
    }
}
