use super::*;

const ID: StreamId = StreamId::from_varint(VarInt::ZERO);
const OFFSET: VarInt = VarInt::from_u32(1000);
/// Type, ID and offset.
const HEADER: usize = 4;

#[test]
fn data_that_fills_the_packet_goes_without_a_length() {
    let layout = Layout { padding: 0, length: 96, explicit_length: false };
    assert_eq!(Layout::fit(100, ID, OFFSET, 1000), Some(layout));
    assert_eq!(Layout::fit(100, ID, OFFSET, 96), Some(layout));
}

#[test]
fn shorter_data_has_a_length_or_padding_before_it() {
    let layout = Layout { padding: 0, length: 93, explicit_length: true };
    assert_eq!(Layout::fit(HEADER + 95, ID, OFFSET, 93), Some(layout));
    let layout = Layout { padding: 1, length: 93, explicit_length: false };
    assert_eq!(Layout::fit(HEADER + 94, ID, OFFSET, 93), Some(layout));
    let layout = Layout { padding: 0, length: 0, explicit_length: true };
    assert_eq!(Layout::fit(HEADER + 1, ID, OFFSET, 0), Some(layout));
}

#[test]
fn a_scrap_is_not_worth_a_frame() {
    assert_eq!(Layout::fit(HEADER - 1, ID, OFFSET, 1000), None);
    assert_eq!(Layout::fit(HEADER + 3, ID, OFFSET, 1000), None);
    assert!(Layout::fit(HEADER + 4, ID, OFFSET, 1000).is_some());
    assert!(Layout::fit(HEADER + 3, ID, OFFSET, 3).is_some(), "it is all there is");
    assert!(Layout::fit(HEADER, ID, OFFSET, 0).is_some(), "a bare end");
}
