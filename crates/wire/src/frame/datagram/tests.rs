use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode};
use crate::strategies::{bytes, hex};

#[test]
fn on_the_wire() {
    check_bytes(Frame::Datagram(Datagram { data: b"abc" }), &hex("31 03 616263"));
    check_bytes(Frame::Datagram(Datagram { data: b"" }), &hex("31 00"));
    assert_eq!(decode(&hex("30 616263")), Ok(Frame::Datagram(Datagram { data: b"abc" })));
    assert_eq!(decode(&hex("30")), Ok(Frame::Datagram(Datagram { data: b"" })));
}

proptest! {
    #[test]
    fn round_trip(data in bytes(100)) {
        check_round_trip(Frame::Datagram(Datagram { data: &data }));
    }

    #[test]
    fn without_length(data in bytes(100)) {
        let frame = Datagram { data: &data };
        let mut buffer = vec![0; Datagram::header_len(None) + data.len()];
        let short = buffer.len() - 1;
        let mut writer = Writer::new(&mut buffer[..short]);
        prop_assert_eq!(frame.encode_without_length(&mut writer), Err(EncodeError));
        prop_assert_eq!(writer.written(), 0);
        let mut writer = Writer::new(&mut buffer);
        frame.encode_without_length(&mut writer).unwrap();
        prop_assert_eq!(writer.remaining(), 0);
        prop_assert_eq!(decode(&buffer), Ok(Frame::Datagram(frame)));
    }
}
