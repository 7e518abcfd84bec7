use proptest::prelude::*;

use super::*;
use crate::strategies::{bytes, connection_id};

#[test]
fn twenty_bytes_are_the_most() {
    let id = ConnectionId::new(&[7; 20]).unwrap();
    assert_eq!((id.as_bytes(), id.len(), id.is_empty()), (&[7; 20][..], 20, false));
    let invalid = DecodeError::invalid("Connection ID Length", "is above 20");
    assert_eq!(ConnectionId::new(&[7; 21]), Err(invalid));
    let mut encoded = [7; 30];
    encoded[0] = 21;
    let invalid = DecodeError::invalid("Field", "is longer than 20 bytes");
    assert_eq!(ConnectionId::decode(&mut Reader::new(&encoded), "Field"), Err(invalid));
}

#[test]
fn shown_in_hexadecimal() {
    let id = ConnectionId::new(&[0x0a, 0xff]).unwrap();
    assert_eq!((id.to_string(), format!("{id:?}")), ("0aff".into(), "ConnectionId(0aff)".into()));
}

#[test]
fn tokens_are_equal_only_if_every_byte_is() {
    let token = ResetToken::new([3; 16]);
    assert_eq!(token, ResetToken::new([3; 16]));
    for position in 0..16 {
        let mut bytes = [3; 16];
        bytes[position] = 2;
        assert_ne!(token, ResetToken::new(bytes));
    }
    // A token in a log would let anyone who reads it end the connection.
    assert_eq!(format!("{token:?}"), "ResetToken(..)");
}

proptest! {
    #[test]
    fn round_trip(id in connection_id()) {
        let mut buffer = [0; 21];
        let (space, _) = buffer.split_at_mut(id.len() + 1);
        id.encode(&mut Writer::new(space)).unwrap();
        prop_assert_eq!(ConnectionId::decode(&mut Reader::new(space), "Field"), Ok(id));
        for end in 0..space.len() {
            let cut = Err(DecodeError::Truncated { field: "Field" });
            prop_assert_eq!(ConnectionId::decode(&mut Reader::new(&space[..end]), "Field"), cut);
            let mut small = vec![0; end];
            let mut writer = Writer::new(&mut small);
            prop_assert_eq!(id.encode(&mut writer), Err(EncodeError));
            prop_assert_eq!(writer.written(), 0);
        }
    }

    #[test]
    fn any_bytes(encoded in bytes(40)) {
        if let Ok(id) = ConnectionId::decode(&mut Reader::new(&encoded), "Field") {
            prop_assert_eq!(id.as_bytes(), &encoded[1..=id.len()]);
        }
    }
}
