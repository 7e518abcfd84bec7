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
