use proptest::prelude::*;

use super::*;
use crate::strategies::bytes;

/// Checks that the decoded frame equals the encoded one, that decoding fails if any byte is
/// missing, and that a buffer that is too small for the frame is left unchanged.
pub(super) fn check_round_trip(frame: Frame<'_>) {
    let length = frame.encoded_len();
    let mut buffer = vec![0xff; length + 1];
    let mut writer = Writer::new(&mut buffer);
    frame.encode(&mut writer).unwrap();
    assert_eq!(writer.written(), length, "{frame:?}: encoded_len");
    let written = VarInt::decode(&mut Reader::new(&buffer), "Frame Type").unwrap();
    assert_eq!(written.get(), frame.frame_type(), "{frame:?}: frame_type");

    let mut reader = Reader::new(&buffer);
    assert_eq!(Frame::decode(&mut reader), Ok(frame));
    assert_eq!(reader.rest(), [0xff], "{frame:?}: decoding stops at its end");

    for end in 0..length {
        let mut reader = Reader::new(&buffer[..end]);
        let result = Frame::decode(&mut reader);
        assert!(result.is_err(), "{frame:?} cut to {end} bytes gives {result:?}");

        let mut small = vec![0; end + 1];
        let mut writer = Writer::new(&mut small);
        writer.u8(0x55).unwrap();
        assert_eq!(frame.encode(&mut writer), Err(EncodeError), "{frame:?} in {end} bytes");
        assert_eq!(writer.filled(), [0x55], "{frame:?}: partially written");
    }
}

/// Checks that `encoded` is exactly one frame, and that encoding this frame returns the same bytes.
pub(super) fn check_bytes(frame: Frame<'_>, encoded: &[u8]) {
    assert_eq!(decode(encoded), Ok(frame));
    let mut buffer = vec![0; encoded.len()];
    frame.encode(&mut Writer::new(&mut buffer)).unwrap();
    assert_eq!(buffer, encoded);
}

/// Decodes `encoded`, which contains one frame.
pub(super) fn decode(encoded: &[u8]) -> Result<Frame<'_>, DecodeError> {
    let mut reader = Reader::new(encoded);
    let frame = Frame::decode(&mut reader)?;
    assert!(reader.is_empty(), "{frame:?}: unread bytes remain");
    Ok(frame)
}

/// A variable-length integer.
pub(super) fn number(value: u64) -> VarInt {
    VarInt::new(value).unwrap()
}

#[test]
fn frames_of_one_byte() {
    check_round_trip(Frame::Ping);
    check_bytes(Frame::Ping, &[0x01]);
    check_round_trip(Frame::HandshakeDone);
    check_bytes(Frame::HandshakeDone, &[0x1e]);
    check_round_trip(Frame::ImmediateAck);
    check_bytes(Frame::ImmediateAck, &[0x1f]);
}

#[test]
fn nothing_is_not_a_frame() {
    assert_eq!(decode(&[]), Err(DecodeError::Truncated { field: "Frame Type" }));
}

#[test]
fn unknown_types() {
    for frame_type in (0x20..0x24).chain(0x25..0x30).chain([0x32, 0x3f]) {
        let unknown = DecodeError::UnknownFrame { frame_type: u64::from(frame_type) };
        assert_eq!(decode(&[frame_type, 0, 0, 0]), Err(unknown));
    }
    let unknown = DecodeError::UnknownFrame { frame_type: 0x3fff };
    assert_eq!(decode(&[0x7f, 0xff]), Err(unknown));
    // The last byte of this type equals the last byte of a known type.
    let unknown = DecodeError::UnknownFrame { frame_type: 0x101 };
    assert_eq!(decode(&[0x41, 0x01]), Err(unknown));
}

#[test]
fn a_type_has_to_be_in_its_shortest_encoding() {
    let longer = DecodeError::invalid("Frame Type", "is not in its shortest encoding");
    assert_eq!(decode(&[0x40, 0x01]), Err(longer));
    assert_eq!(decode(&[0x80, 0, 0, 0x01]), Err(longer));
    assert_eq!(decode(&[0xc0, 0, 0, 0, 0, 0, 0, 0x01]), Err(longer));
    assert_eq!(decode(&[0x40, 0x3f]), Err(longer));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_and_decoding_advances(payload in bytes(200)) {
        let mut reader = Reader::new(&payload);
        while !reader.is_empty() {
            let before = reader.remaining();
            let Ok(frame) = Frame::decode(&mut reader) else { break };
            prop_assert!(reader.remaining() < before);
            // A decoded frame can be encoded, and decodes to the same frame again.
            let mut buffer = vec![0; frame.encoded_len()];
            frame.encode(&mut Writer::new(&mut buffer)).unwrap();
            prop_assert_eq!(Frame::decode(&mut Reader::new(&buffer)), Ok(frame));
        }
    }

    #[test]
    fn any_bytes_after_a_known_type(frame_type in 0_u8..0x32, mut payload in bytes(100)) {
        payload.insert(0, frame_type);
        let mut reader = Reader::new(&payload);
        if let Ok(frame) = Frame::decode(&mut reader) {
            let mut buffer = vec![0; frame.encoded_len()];
            frame.encode(&mut Writer::new(&mut buffer)).unwrap();
            prop_assert_eq!(Frame::decode(&mut Reader::new(&buffer)), Ok(frame));
        }
    }
}
