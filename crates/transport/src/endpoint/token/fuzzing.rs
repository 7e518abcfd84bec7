//! The properties of tokens that a fuzz target checks.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Version};

use super::{Kind, TokenKey};

/// Checks that bytes which were not sealed with the key are no valid token, and that opening a sealed token yields
/// nothing but the address, connection IDs and time that were sealed.
///
/// # Panics
/// If that is not so.
pub fn check_token(bytes: &[u8]) {
    let mut random = Random::from_number(1);
    let key = TokenKey::generate(&mut random);
    let client = SocketAddr::from(([192, 0, 2, 1], 50_000));
    let now = Timestamp::from_origin(Duration::from_secs(1));
    let source = ConnectionId::new(&[7; 8]).unwrap_or_default();

    for version in Version::KNOWN {
        assert!(key.open_retry(version, bytes, client, source, now, Duration::MAX).is_err());
        assert!(key.open_new_token(version, bytes, client.ip(), now, Duration::MAX).is_err());

        let sealed = key.seal(Kind::RETRY.of(version), bytes.to_vec(), &mut random);
        let open =
            |token: &[u8], lifetime| key.open_retry(version, token, client, source, now, lifetime);
        if let Ok(original) = open(&sealed, Duration::MAX) {
            let again = key.seal_retry(version, client, original, source, now, &mut random);
            assert_eq!(open(&again, Duration::ZERO), Ok(original));
        }
        let sealed = key.seal(Kind::NEW_TOKEN.of(version), bytes.to_vec(), &mut random);
        if key.open_new_token(version, &sealed, client.ip(), now, Duration::MAX).is_ok() {
            assert!(open(&sealed, Duration::MAX).is_err());
        }
    }
}
