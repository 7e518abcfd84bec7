use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_wire::header::{HeaderKind, ProtectedHeader, Retry};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use super::*;
use crate::TicketKeys;

#[derive(Debug)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

fn id(octet: u8, length: usize) -> ConnectionId {
    ConnectionId::new(&vec![octet; length]).unwrap()
}

fn client(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn offload(secret: u8, clock: &Arc<Clock>) -> RetryOffload {
    let tokens = SharedTokens { keys: TicketKeys::new(&[secret; 32]), clock: clock.clone() };
    RetryOffload::new(tokens, Random::from_number(secret.into()))
}

fn decoded(packet: &[u8]) -> Retry<'_> {
    match ProtectedHeader::decode(packet, 0).unwrap().kind {
        HeaderKind::Retry(retry) => retry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_takes_the_retry_and_a_server_its_token() {
    let clock = Arc::new(Clock(AtomicU64::new(1_800_000_000)));
    let mut offload = offload(1, &clock);
    for version in Version::KNOWN {
        let packet = offload.retry(client(5), version, id(7, 20), id(8, 20)).unwrap();
        assert!(packet.len() < 256, "{}", packet.len());
        let retry = decoded(&packet);
        assert!(retry::is_authentic(&retry, id(7, 20), false));
        assert!(!retry::is_authentic(&retry, id(6, 20), false));
        assert_eq!((retry.version, retry.destination), (version, id(8, 20)));
        assert_eq!(retry.source.as_bytes()[0] & UNROUTABLE, UNROUTABLE);
        let (keys, now) = TokenKeys::shared(&offload.tokens).unwrap();
        let lifetime = ServerConfig::RETRY_TOKEN_LIFETIME;
        let opened = keys.open_retry(version, retry.token, client(5), retry.source, now, lifetime);
        assert_eq!(opened, Ok(id(7, 20)), "the server states it in its transport parameters");
        let validity = offload.validity(client(5), version, retry.token);
        assert_eq!(validity, TokenValidity::Valid);
    }
}

#[test]
fn a_retry_token_shows_one_address_for_a_while() {
    let clock = Arc::new(Clock(AtomicU64::new(1_800_000_000)));
    let mut offload = offload(1, &clock);
    let packet = offload.retry(client(5), Version::V1, id(7, 8), id(8, 0)).unwrap();
    let Retry { token, .. } = decoded(&packet);
    let invalid = TokenValidity::InvalidRetry;
    assert_eq!(offload.validity(client(6), Version::V1, token), invalid);
    assert_eq!(offload.validity(client(5), Version::V2, token), invalid);
    let other = self::offload(2, &clock);
    assert_eq!(other.validity(client(5), Version::V1, token), invalid);
    clock.0.fetch_add(15, Ordering::Relaxed);
    let valid = TokenValidity::Valid;
    assert_eq!(offload.validity(client(5), Version::V1, token), valid);
    clock.0.fetch_add(1, Ordering::Relaxed);
    assert_eq!(offload.validity(client(5), Version::V1, token), invalid);
}

#[test]
fn a_new_token_shows_an_ip_address() {
    let clock = Arc::new(Clock(AtomicU64::new(1_800_000_000)));
    let offload = offload(1, &clock);
    let (keys, now) = TokenKeys::shared(&offload.tokens).unwrap();
    let mut random = Random::from_number(3);
    let token = keys.seal_new_token(Version::V1, client(5).ip(), now, &mut random);
    let validity = |client, version| offload.validity(client, version, &token);
    assert_eq!(validity(client(6), Version::V1), TokenValidity::Valid);
    let stranger = ([192, 0, 2, 2], 5).into();
    assert_eq!(validity(stranger, Version::V1), TokenValidity::Unknown);
    assert_eq!(validity(client(5), Version::V2), TokenValidity::Unknown);
    let garbage = offload.validity(client(5), Version::V1, &[1; 40]);
    assert_eq!(garbage, TokenValidity::Unknown);
}
