use std::sync::Arc;

use clearway_wire::{Initiator, TransportParameters, Version};
use proptest::prelude::*;

use super::*;
use crate::handshake::ClientSessions;
use crate::handshake::tests::{client_config, hex, identity, vectors};

/// The ClientHello of RFC 9001 §A.2, without the frame's type, offset and length.
fn sample() -> Vec<u8> {
    hex(vectors::CLIENT_CRYPTO).split_off(4)
}

#[test]
fn the_parameters_of_the_sample() {
    let hello = sample();
    let HelloParameters::Found(found) = find_parameters(&hello) else { panic!("not found") };
    assert!(hello.ends_with(found));
    let parameters = TransportParameters::decode(found, Initiator::Client).unwrap();
    assert_eq!(parameters.max_idle_timeout.get(), 30_000);
    // Trailing bytes do not belong to the ClientHello.
    let longer = [hello.as_slice(), b"more"].concat();
    assert_eq!(find_parameters(&longer), HelloParameters::Found(found));
}

#[test]
fn a_client_hello_is_awaited_whole() {
    let hello = sample();
    for end in 0..hello.len() {
        assert_eq!(find_parameters(&hello[..end]), HelloParameters::Incomplete, "{end}");
    }
}

#[test]
fn the_parameters_that_our_tls_sends() {
    let identity = identity();
    let sessions = Arc::new(client_config(&identity, &[b"h3"]));
    let parameters = b"of the client".to_vec();
    let mut session = sessions.connect(Version::V1, &[], "localhost", parameters).unwrap();
    let mut hello = Vec::new();
    assert!(session.produce(&mut hello).is_none());
    assert_eq!(find_parameters(&hello), HelloParameters::Found(b"of the client"));
}

#[test]
fn other_messages_have_no_parameters() {
    let mut server_hello = sample();
    server_hello[0] = 2;
    assert_eq!(find_parameters(&server_hello), HelloParameters::None);
    let without_extensions = [&[1, 0, 0, 41][..], &[0; 34], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    assert_eq!(find_parameters(&without_extensions), HelloParameters::None);
    // No more bytes of the message are awaited.
    assert_eq!(find_parameters(&[1, 1, 0, 0]), HelloParameters::None);
    assert_eq!(find_parameters(&[1, 0, 0xff, 0xff]), HelloParameters::Incomplete);
}

/// Increases and decreases every length field; nothing outside of the message is found.
#[test]
fn lengths_that_do_not_fit() {
    let hello = sample();
    for position in 0..hello.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = hello.clone();
            changed[position] = value;
            if let HelloParameters::Found(found) = find_parameters(&changed) {
                assert!(found.len() < changed.len());
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = find_parameters(&bytes);
        // Checks the same bytes as a complete message.
        if bytes.len() >= 4 {
            let length = (bytes.len() - 4) as u32;
            bytes[..4].copy_from_slice(&(length | 1 << 24).to_be_bytes());
            prop_assert_ne!(find_parameters(&bytes), HelloParameters::Incomplete);
        }
    }
}

/// Returns a ClientHello with these extensions.
fn with_extensions(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, data) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend(by_two(data));
    }
    let body = [&[0; FIXED_FIELDS][..], &[0], &[0, 2, 0x13, 1], &[1, 0], &by_two(&list)].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[CLIENT_HELLO], &length[1..], &body].concat()
}

/// Returns the bytes after their length in two bytes.
fn by_two(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

fn named(kind: u8, name: &[u8]) -> Vec<u8> {
    by_two(&[&[kind][..], &by_two(name)].concat())
}

#[test]
fn the_offer_of_the_sample_is_found_as_far_as_it_has_arrived() {
    let sample = sample();
    let whole = offer(&sample).unwrap();
    assert_eq!(whole.server_name(), Some("example.com"));
    assert_eq!(whole.application_protocols().collect::<Vec<_>>(), [b"alpn"]);
    let mut is_name_missing = true;
    for end in 0..sample.len() {
        let Some(part) = offer(&sample[..end]) else {
            assert!(end < 4);
            continue;
        };
        assert!(!part.is_complete());
        assert!(part.server_name().is_none() || part.server_name() == whole.server_name());
        assert!(is_name_missing || part.server_name().is_some());
        is_name_missing = part.server_name().is_none();
    }
    assert!(whole.is_complete() && !is_name_missing);
    assert_eq!(offer(&[sample.as_slice(), b"more"].concat()), Some(whole));
    assert_eq!(offer(&[2, 0, 0, 0]), None, "a ServerHello");
}

#[test]
fn names_and_protocols_that_are_not_valid_are_left_out() {
    let name = |data: Vec<u8>| {
        let hello = offer(&with_extensions(&[(SERVER_NAME, data)])).unwrap();
        hello.server_name().map(str::to_owned)
    };
    assert_eq!(name(named(0, b"WWW.Example.org")), Some("www.example.org".to_owned()));
    let two = by_two(&[&[7][..], &by_two(b"other"), &[0], &by_two(b"name")].concat());
    assert_eq!(name(two), Some("name".to_owned()));
    for invalid in [
        named(7, b"other"),
        named(0, b"a b"),
        named(0, b"a\x1b[31m"),
        named(0, "\u{e4}.example".as_bytes()),
        named(0, &[b'a'; MAX_NAME + 1]),
        by_two(&[0, 0, 9, b'a']),
        vec![0],
        vec![],
    ] {
        assert_eq!(name(invalid.clone()), None, "{invalid:?}");
    }
    let protocols = |data: Vec<u8>| {
        let hello = offer(&with_extensions(&[(APPLICATION_PROTOCOLS, data)])).unwrap();
        hello.application_protocols().map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(protocols(by_two(b"\x02h3\x04test")), [&b"h3"[..], b"test"]);
    assert_eq!(protocols(by_two(b"\x02h3\x05test")), [&b"h3"[..]]);
    assert_eq!(protocols(vec![0, 9, 2, b'h']), [&b""[..]; 0]);
    assert_eq!(protocols(vec![]), [&b""[..]; 0]);
}

proptest! {
    #[test]
    fn any_bytes_have_an_offer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for received in [bytes.clone(), [&[CLIENT_HELLO, 0, 0, 150][..], &bytes].concat()] {
            if let Some(hello) = offer(&received) {
                prop_assert!(hello.application_protocols().count() <= received.len());
                prop_assert_eq!(hello.is_complete(), received.len() >= 4 + usize::from(received[3])
                    + 256 * usize::from(received[2]) + 65_536 * usize::from(received[1]));
            }
        }
    }
}
