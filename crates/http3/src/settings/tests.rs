use super::*;

fn payload(settings: &[(u64, u64)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (identifier, value) in settings {
        put_varint(&mut payload, *identifier);
        put_varint(&mut payload, *value);
    }
    payload
}

/// RFC 9114 §7.2.4: unknown settings are ignored.
#[test]
fn known_settings_are_kept_and_others_ignored() {
    let settings = Settings::decode(&payload(&[(0x21, 5), (6, 1000), (1, 4096), (7, 16)])).unwrap();
    let expected = Settings {
        max_field_section_size: Some(1000),
        qpack_max_table_capacity: 4096,
        qpack_blocked_streams: 16,
    };
    assert_eq!(settings, expected);
    assert_eq!(Settings::decode(&[]).unwrap(), Settings::default());
}

/// RFC 9114 §7.2.4.1 and §7.2.4.
#[test]
fn settings_of_http2_and_duplicates_are_errors() {
    for identifier in [0x00, 0x02, 0x03, 0x04, 0x05] {
        let error = Settings::decode(&payload(&[(identifier, 1)])).unwrap_err();
        assert_eq!(error.code, Code::SETTINGS_ERROR, "{identifier}");
    }
    for settings in [&[(6, 1), (6, 1)][..], &[(0x21, 1), (6, 3), (0x21, 2)]] {
        let error = Settings::decode(&payload(settings)).unwrap_err();
        assert_eq!(error.code, Code::SETTINGS_ERROR);
    }
}

/// RFC 9114 §7.1: the payload has exactly its fields.
#[test]
fn truncated_settings_are_errors() {
    for bytes in [&[0x06][..], &[0x40], &[0x06, 0x40]] {
        assert_eq!(Settings::decode(bytes).unwrap_err().code, Code::FRAME_ERROR);
    }
}

#[test]
fn what_we_send_is_what_we_would_accept() {
    let mut frame = Vec::new();
    put_settings(&mut frame, 5000, Some((0x40, 17)));
    assert_eq!((frame[0], usize::from(frame[1])), (0x04, frame.len() - 2));
    assert_eq!(Settings::decode(&frame[2..]).unwrap().max_field_section_size, Some(5000));
}
