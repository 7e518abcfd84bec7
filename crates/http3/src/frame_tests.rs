use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

fn header_bytes(frame_type: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, frame_type);
    put_varint(&mut bytes, length);
    bytes
}

/// Tests the requirements of RFC 9114 §11.2.1.
#[test]
fn frame_types_have_the_numbers_of_the_rfc() {
    let mut decoder = FrameHeaderDecoder::default();
    for (number, frame_type) in [
        (0x00, FrameType::Data),
        (0x01, FrameType::Headers),
        (0x02, FrameType::ReservedHttp2),
        (0x03, FrameType::CancelPush),
        (0x04, FrameType::Settings),
        (0x05, FrameType::PushPromise),
        (0x06, FrameType::ReservedHttp2),
        (0x07, FrameType::GoAway),
        (0x08, FrameType::ReservedHttp2),
        (0x09, FrameType::ReservedHttp2),
        (0x0a, FrameType::Unknown),
        (0x0d, FrameType::MaxPushId),
        (0x21, FrameType::Unknown),
    ] {
        let mut input = Bytes::from(header_bytes(number, 7));
        assert_eq!(decoder.decode(&mut input), Some(FrameHeader { frame_type, length: 7 }));
    }
}

#[test]
fn data_headers_share_an_allocation() {
    let mut scratch = BytesMut::new();
    let headers: Vec<Bytes> = (0..20).map(|_| data_header(&mut scratch, 70_000)).collect();
    for pair in headers.windows(2) {
        assert_eq!(pair[0], header_bytes(0, 70_000));
        assert_eq!(pair[0].as_ptr().wrapping_add(5), pair[1].as_ptr());
    }
}

proptest! {
    /// Wherever the chunks end, the same header is decoded, and the bytes after it remain.
    #[test]
    fn a_header_is_decoded_from_chunks_of_any_size(
        frame_type in 0u64..1 << 62,
        length in 0u64..1 << 62,
        cut in 0usize..17,
    ) {
        let mut bytes = header_bytes(frame_type, length);
        let end = bytes.len();
        bytes.extend([0xaa; 3]);
        let bytes = Bytes::from(bytes);
        let cut = cut.min(end - 1);
        let mut decoder = FrameHeaderDecoder::default();
        let mut first = bytes.slice(..cut);
        prop_assert_eq!(decoder.decode(&mut first), None);
        prop_assert!(first.is_empty());
        prop_assert_eq!(decoder.is_partial(), cut > 0);
        let mut second = bytes.slice(cut..);
        let header = decoder.decode(&mut second).unwrap();
        prop_assert_eq!(header.length, length);
        prop_assert_eq!(second.len(), 3);
        prop_assert!(!decoder.is_partial());
    }

    #[test]
    fn decoding_any_bytes_consumes_them_all(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut input = Bytes::from(bytes);
        let mut decoder = FrameHeaderDecoder::default();
        while decoder.decode(&mut input).is_some() {}
        prop_assert!(input.is_empty());
    }
}
