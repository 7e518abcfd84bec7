use proptest::prelude::*;

use super::*;
use crate::frame::tests::check_bytes;
use crate::{EncodeError, Frame};

#[test]
fn a_run_is_one_frame_and_stops_at_the_next() {
    check_bytes(Frame::Padding(Padding { length: 1 }), &[0]);
    check_bytes(Frame::Padding(Padding { length: 3 }), &[0, 0, 0]);
    let mut reader = Reader::new(&[0, 0, 0, 1, 0]);
    assert_eq!(Frame::decode(&mut reader), Ok(Frame::Padding(Padding { length: 3 })));
    assert_eq!(reader.rest(), [1, 0]);
}

proptest! {
    #[test]
    fn round_trip(length in 1_usize..1500) {
        let frame = Padding { length };
        let mut buffer = vec![0xff; length];
        let mut writer = Writer::new(&mut buffer);
        frame.encode(&mut writer).unwrap();
        prop_assert_eq!(writer.remaining(), 0);
        prop_assert_eq!(frame.encode(&mut writer), Err(EncodeError));
        let mut reader = Reader::new(&buffer);
        prop_assert_eq!(Frame::decode(&mut reader), Ok(Frame::Padding(frame)));
        prop_assert!(reader.is_empty());
        prop_assert_eq!(frame.encoded_len(), length);
    }
}
