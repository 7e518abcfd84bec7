//! The properties of tokens that a fuzz target checks.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::ConnectionId;

use super::{NEW_TOKEN, RETRY, TokenKey};

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

    assert!(key.open_retry(bytes, client, source, now, Duration::MAX).is_err());
    assert!(key.open_new_token(bytes, client.ip(), now, Duration::MAX).is_err());

    let sealed = key.seal(RETRY, bytes.to_vec(), &mut random);
    if let Ok(original) = key.open_retry(&sealed, client, source, now, Duration::MAX) {
        let again = key.seal_retry(client, original, source, now, &mut random);
        let again = key.open_retry(&again, client, source, now, Duration::ZERO);
        assert_eq!(again, Ok(original));
    }
    let sealed = key.seal(NEW_TOKEN, bytes.to_vec(), &mut random);
    if key.open_new_token(&sealed, client.ip(), now, Duration::MAX).is_ok() {
        assert!(key.open_retry(&sealed, client, source, now, Duration::MAX).is_err());
    }
}
