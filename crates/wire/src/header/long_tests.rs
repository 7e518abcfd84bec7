use super::*;
use crate::strategies::hex;

/// Tests the example in RFC 9001 §A.2.
#[test]
fn client_initial_of_the_rfc() {
    let header = LongHeader {
        packet_type: LongPacketType::Initial,
        version: Version::V1,
        destination: ConnectionId::new(&hex("8394c8f03e515708")).unwrap(),
        source: ConnectionId::default(),
        token: &[],
    };
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let offsets = header.encode(&mut writer, PacketNumber::new(2).unwrap(), 4).unwrap();
    assert_eq!(offsets, LongHeaderOffsets { length: 16, packet_number: 18, payload: 22 });
    set_length(writer.filled_mut(), offsets.length, 4 + 1162 + 16).unwrap();
    assert_eq!(writer.filled(), hex("c300000001088394c8f03e5157080000449e00000002"));
}

/// Tests the example in RFC 9001 §A.3.
#[test]
fn server_initial_of_the_rfc() {
    let header = LongHeader {
        packet_type: LongPacketType::Initial,
        version: Version::V1,
        destination: ConnectionId::default(),
        source: ConnectionId::new(&hex("f067a5502a4262b5")).unwrap(),
        token: &[],
    };
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    let offsets = header.encode(&mut writer, PacketNumber::new(1).unwrap(), 2).unwrap();
    set_length(writer.filled_mut(), offsets.length, 117).unwrap();
    assert_eq!(writer.filled(), hex("c1000000010008f067a5502a4262b50040750001"));
}

/// Tests the example in RFC 9369 §A.2 and §A.3.
#[test]
fn initials_of_version_2() {
    let (id, empty) = (|text| ConnectionId::new(&hex(text)).unwrap(), ConnectionId::default());
    let write = |destination, source, number, number_len, length| {
        let packet_type = LongPacketType::Initial;
        let version = Version::V2;
        let header = LongHeader { packet_type, version, destination, source, token: &[] };
        let mut buffer = [0; 100];
        let mut writer = Writer::new(&mut buffer);
        let number = PacketNumber::new(number).unwrap();
        let offsets = header.encode(&mut writer, number, number_len).unwrap();
        set_length(writer.filled_mut(), offsets.length, length).unwrap();
        writer.filled().to_vec()
    };
    let client = write(id("8394c8f03e515708"), empty, 2, 4, 1182);
    assert_eq!(client, hex("d36b3343cf088394c8f03e5157080000449e00000002"));
    let server = write(empty, id("f067a5502a4262b5"), 1, 2, 117);
    assert_eq!(server, hex("d16b3343cf0008f067a5502a4262b50040750001"));
}

fn handshake() -> LongHeader<'static> {
    LongHeader {
        packet_type: LongPacketType::Handshake,
        version: Version::V1,
        destination: ConnectionId::default(),
        source: ConnectionId::default(),
        token: b"not an Initial's",
    }
}

#[test]
fn only_an_initial_has_a_token() {
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    handshake().encode(&mut writer, PacketNumber::ZERO, 1).unwrap();
    assert_eq!(writer.filled(), hex("e0 00000001 00 00 0000 00"));
    let mut writer = Writer::new(&mut buffer);
    let header = LongHeader { packet_type: LongPacketType::ZeroRtt, ..handshake() };
    header.encode(&mut writer, PacketNumber::ZERO, 1).unwrap();
    assert_eq!(writer.filled(), hex("d0 00000001 00 00 0000 00"));
    for (packet_type, first_byte) in
        [(LongPacketType::ZeroRtt, "e0"), (LongPacketType::Handshake, "f0")]
    {
        let header = LongHeader { packet_type, version: Version::V2, ..handshake() };
        let mut writer = Writer::new(&mut buffer);
        header.encode(&mut writer, PacketNumber::ZERO, 1).unwrap();
        assert_eq!(writer.filled(), hex(&format!("{first_byte} 6b3343cf 00 00 0000 00")));
    }
}

#[test]
fn what_has_no_encoding() {
    let mut buffer = [0; 100];
    let mut writer = Writer::new(&mut buffer);
    for length in [0, 5, usize::MAX] {
        let result = handshake().encode(&mut writer, PacketNumber::ZERO, length);
        assert_eq!(result, Err(EncodeError));
    }
    let unknown = LongHeader { version: Version(2), ..handshake() };
    assert_eq!(unknown.encode(&mut writer, PacketNumber::ZERO, 1), Err(EncodeError));
    assert_eq!(writer.written(), 0);
}

#[test]
fn lengths_that_do_not_fit_the_field() {
    let mut packet = [0x77; 4];
    assert_eq!(set_length(&mut packet, 1, 16_384), Err(EncodeError));
    assert_eq!(set_length(&mut packet, 3, 1), Err(EncodeError));
    assert_eq!(set_length(&mut packet, usize::MAX, 1), Err(EncodeError));
    assert_eq!(packet, [0x77; 4]);
    assert_eq!(set_length(&mut packet, 1, 16_383), Ok(()));
    assert_eq!(packet, [0x77, 0x7f, 0xff, 0x77]);
}
