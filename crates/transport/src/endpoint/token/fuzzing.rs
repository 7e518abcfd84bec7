//! Token properties checked by a fuzz target.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Version};

use super::{TokenKeys, TokenKind};
use crate::handshake::TicketKeys;

/// Checks that bytes which were not sealed with the keys are not a valid token, and that opening a
/// sealed token yields exactly the sealed address, connection IDs and time, both with an endpoint's
/// own key and with shared keys.
///
/// # Panics
/// If a property does not hold.
pub fn check_token(bytes: &[u8]) {
    let mut random = Random::from_number(1);
    let own = TokenKeys::generate(&mut random);
    check_with(bytes, &own, &own, &mut random);
    let shared = TicketKeys::new(&[1; 32]);
    let before = TokenKeys(shared.of_tokens());
    shared.rotate(&[2; 32]);
    check_with(bytes, &before, &TokenKeys(shared.of_tokens()), &mut random);
}

/// Checks tokens that are sealed with `sealing` and opened with `opening`, which contains the same
/// key.
fn check_with(bytes: &[u8], sealing: &TokenKeys, opening: &TokenKeys, random: &mut Random) {
    let client = SocketAddr::from(([192, 0, 2, 1], 50_000));
    let now = Timestamp::from_origin(Duration::from_secs(1));
    let source = ConnectionId::new(&[7; 8]).unwrap_or_default();

    for version in Version::KNOWN {
        assert!(opening.open_retry(version, bytes, client, source, now, Duration::MAX).is_err());
        assert!(opening.open_new_token(version, bytes, client.ip(), now, Duration::MAX).is_err());

        let sealed = sealing.seal(TokenKind::RETRY.of(version), bytes.to_vec(), random);
        let open = |token: &[u8], lifetime| {
            opening.open_retry(version, token, client, source, now, lifetime)
        };
        if let Ok(original) = open(&sealed, Duration::MAX) {
            let again = sealing.seal_retry(version, client, original, source, now, random);
            assert_eq!(open(&again, Duration::ZERO), Ok(original));
        }
        let sealed = sealing.seal(TokenKind::NEW_TOKEN.of(version), bytes.to_vec(), random);
        if opening.open_new_token(version, &sealed, client.ip(), now, Duration::MAX).is_ok() {
            assert!(open(&sealed, Duration::MAX).is_err());
        }
    }
}
