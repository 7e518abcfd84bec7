use super::*;

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

fn number(value: u64) -> PacketNumber {
    PacketNumber::new(value).unwrap()
}

/// Returns a path on which the bit is enabled.
fn enabled() -> Spin {
    Spin { is_enabled: Some(true), ..Spin::default() }
}

const ON: SpinBit = SpinBit::Enabled;

#[test]
fn the_client_inverts_and_the_server_reflects() {
    let mut random = Random::from_number(1);
    let (mut client, mut server) = (enabled(), enabled());
    let mut bits = Vec::new();
    for round in 0..6 {
        let bit = client.sent(ON, id(1), &mut random);
        server.received(ON, number(round), bit, false, &mut random);
        let reflected = server.sent(ON, id(2), &mut random);
        assert_eq!(reflected, bit);
        client.received(ON, number(round), reflected, true, &mut random);
        bits.push(bit);
    }
    assert_eq!(bits, [false, true, false, true, false, true]);
}

#[test]
fn only_a_higher_packet_number_changes_the_value() {
    let mut random = Random::from_number(1);
    let mut server = enabled();
    server.sent(ON, id(2), &mut random);
    server.received(ON, number(5), true, false, &mut random);
    for late in [5, 4, 0] {
        server.received(ON, number(late), false, false, &mut random);
    }
    assert!(server.sent(ON, id(2), &mut random));
    server.received(ON, number(6), false, false, &mut random);
    assert!(!server.sent(ON, id(2), &mut random));
}

#[test]
fn another_connection_id_resets_the_value() {
    let mut random = Random::from_number(1);
    let mut server = enabled();
    server.sent(ON, id(2), &mut random);
    server.received(ON, number(0), true, false, &mut random);
    assert!(server.sent(ON, id(2), &mut random));
    assert!(!server.sent(ON, id(3), &mut random));
}

/// The bit is disabled on at least one path in sixteen (RFC 9000 §17.4), and on few more.
#[test]
fn some_paths_are_disabled_at_random() {
    let mut random = Random::from_number(1);
    let disabled = (0..16_000).filter(|_| !Spin::default().is_enabled(ON, &mut random)).count();
    assert!((900..1100).contains(&disabled), "{disabled}");
    // Packets received on such a path change nothing.
    let mut path = Spin { is_enabled: Some(false), ..Spin::default() };
    let value = path.sent(ON, id(1), &mut random);
    for bit in [false, true] {
        path.received(ON, number(u64::from(bit)), bit, false, &mut random);
        assert_eq!(path.sent(ON, id(1), &mut random), value);
    }
}

#[test]
fn a_disabled_bit_is_random_for_each_connection_id() {
    let mut random = Random::from_number(1);
    let mut path = Spin::default();
    let mut ones = 0;
    for byte in 0..=255 {
        let value = path.sent(SpinBit::Random, id(byte), &mut random);
        assert_eq!(path.sent(SpinBit::Random, id(byte), &mut random), value);
        path.received(SpinBit::Random, number(byte.into()), !value, false, &mut random);
        assert_eq!(path.sent(SpinBit::Random, id(byte), &mut random), value);
        ones += u32::from(value);
    }
    assert!((90..166).contains(&ones), "{ones}");
    assert!(!path.sent(SpinBit::Zero, id(7), &mut random));
}
