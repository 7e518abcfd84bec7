use proptest::prelude::*;

use super::*;
use crate::strategies::bytes;

#[test]
fn a_read_beyond_the_input_consumes_nothing() {
    let mut reader = Reader::new(&[1, 2, 3]);
    assert_eq!(reader.bytes(4, "Field"), Err(DecodeError::Truncated { field: "Field" }));
    assert_eq!(reader.array::<4>("Field"), Err(DecodeError::Truncated { field: "Field" }));
    assert_eq!(reader.rest(), [1, 2, 3]);
    assert_eq!((reader.peek(), reader.u8("Field")), (Some(1), Ok(1)));
    assert_eq!(reader.bytes(2, "Field"), Ok(&[2, 3][..]));
    assert_eq!((reader.peek(), reader.is_empty(), reader.remaining()), (None, true, 0));
}

#[test]
fn a_length_prefix_beyond_the_input_is_an_error() {
    let cut = Err(DecodeError::Truncated { field: "Field" });
    assert_eq!(Reader::new(&[2, 7, 8, 9]).length_prefixed("Field"), Ok(&[7, 8][..]));
    assert_eq!(Reader::new(&[0]).length_prefixed("Field"), Ok(&[][..]));
    assert_eq!(Reader::new(&[4, 7, 8, 9]).length_prefixed("Field"), cut);
    assert_eq!(Reader::new(&[0xff; 12]).length_prefixed("Field"), cut);
    assert_eq!(Reader::new(&[]).length_prefixed("Field"), cut);
}

#[test]
fn skipping_more_than_remains_consumes_everything() {
    let mut reader = Reader::new(&[1, 2, 3]);
    reader.skip(2);
    assert_eq!(reader.rest(), [3]);
    reader.skip(2);
    assert!(reader.is_empty());
    assert_eq!(reader.take_rest(), []);
}

#[test]
fn a_write_that_does_not_fit_changes_nothing() {
    let mut buffer = [9; 4];
    let mut writer = Writer::new(&mut buffer);
    writer.bytes(&[1, 2]).unwrap();
    assert_eq!(writer.bytes(&[3, 4, 5]), Err(EncodeError));
    assert_eq!(writer.zeros(3), Err(EncodeError));
    assert_eq!(writer.reserve(usize::MAX), Err(EncodeError));
    assert_eq!((writer.require(2), writer.require(3)), (Ok(()), Err(EncodeError)));
    assert_eq!((writer.written(), writer.remaining()), (2, 2));
    writer.zeros(1).unwrap();
    assert_eq!(writer.filled(), [1, 2, 0]);
    writer.truncate(5);
    assert_eq!(writer.written(), 3);
    writer.truncate(1);
    writer.filled_mut()[0] = 7;
    assert_eq!((writer.filled(), writer.remaining()), (&[7][..], 3));
    assert_eq!(buffer, [7, 2, 0, 9]);
}

#[test]
fn a_limit_can_only_shrink_the_space() {
    let mut buffer = [0; 8];
    let mut writer = Writer::new(&mut buffer);
    writer.u8(1).unwrap();
    writer.limit(100);
    assert_eq!(writer.remaining(), 7);
    writer.limit(2);
    assert_eq!(writer.remaining(), 2);
    writer.limit(usize::MAX);
    assert_eq!((writer.remaining(), writer.filled()), (2, &[1][..]));
}

proptest! {
    #[test]
    fn what_was_written_is_read(parts in proptest::collection::vec(bytes(20), 0..10)) {
        let mut buffer = [0; 200];
        let mut writer = Writer::new(&mut buffer);
        for part in &parts {
            writer.bytes(part).unwrap();
        }
        let mut reader = Reader::new(writer.filled());
        for part in &parts {
            prop_assert_eq!(reader.bytes(part.len(), "Field"), Ok(part.as_slice()));
        }
        prop_assert!(reader.is_empty());
    }
}
