use super::*;

/// RFC 9000 §2.1, table 1.
#[test]
fn the_two_low_bits_say_which_kind() {
    use Direction::{Bidirectional, Unidirectional};
    use Initiator::{Client, Server};
    let kinds = [
        (Client, Bidirectional),
        (Server, Bidirectional),
        (Client, Unidirectional),
        (Server, Unidirectional),
    ];
    for (value, (initiator, direction)) in (0..).zip(kinds) {
        for index in [0, 1, 1000, (1 << 60) - 1] {
            let id = StreamId::new(initiator, direction, index).unwrap();
            assert_eq!(id.get(), index * 4 + value);
            assert_eq!((id.initiator(), id.direction(), id.index()), (initiator, direction, index));
            assert_eq!(StreamId::from_varint(id.varint()), id);
        }
        assert_eq!(StreamId::new(initiator, direction, 1 << 60), None);
        assert_eq!(StreamId::new(initiator, direction, u64::MAX), None);
    }
}
