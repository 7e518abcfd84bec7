use rustls::pki_types::UnixTime;

use super::*;

const LIFETIME: Duration = Duration::from_secs(10);
const V1: Version = Version::V1;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

struct Issued {
    keys: TokenKeys,
    client: SocketAddr,
    retry: Vec<u8>,
    new_token: Vec<u8>,
}

fn issued() -> Issued {
    let mut random = Random::from_number(3);
    let keys = TokenKeys::generate(&mut random);
    let client = address("192.0.2.7:4433");
    let retry = keys.seal_retry(V1, client, id(1), id(2), at(100), &mut random);
    let new_token = keys.seal_new_token(V1, client.ip(), at(100), &mut random);
    Issued { keys, client, retry, new_token }
}

impl Issued {
    fn open_retry(&self, token: &[u8], now: Timestamp) -> Result<ConnectionId, TokenError> {
        self.keys.open_retry(V1, token, self.client, id(2), now, LIFETIME)
    }

    fn open_new_token(&self, token: &[u8], now: Timestamp) -> Result<(), TokenError> {
        self.keys.open_new_token(V1, token, self.client.ip(), now, LIFETIME)
    }
}

#[test]
fn a_retry_token_gives_the_original_connection_id_back() {
    let issued = issued();
    assert_eq!(issued.open_retry(&issued.retry, at(110)), Ok(id(1)));
    assert_eq!(issued.open_new_token(&issued.new_token, at(110)), Ok(()));
}

#[test]
fn tokens_expire_and_are_not_from_the_future() {
    let issued = issued();
    for now in [at(39), at(111), at(100_000)] {
        assert_eq!(issued.open_retry(&issued.retry, now), Err(TokenError::Expired));
        assert_eq!(issued.open_new_token(&issued.new_token, now), Err(TokenError::Expired));
    }
}

/// The clock of an endpoint with the same keys may be behind.
#[test]
fn clocks_may_differ_by_a_minute() {
    let issued = issued();
    for now in [at(40), at(99)] {
        assert_eq!(issued.open_retry(&issued.retry, now), Ok(id(1)));
        assert_eq!(issued.open_new_token(&issued.new_token, now), Ok(()));
    }
}

/// RFC 9000 §8.1.3, §8.1.4: a Retry token is bound to address and port, a NEW_TOKEN token to the address.
#[test]
fn tokens_are_bound_to_the_address() {
    let mut issued = issued();
    let source = issued.keys.open_retry(V1, &issued.retry, issued.client, id(3), at(101), LIFETIME);
    assert_eq!(source, Err(TokenError::WrongAddress), "another connection ID");
    issued.client.set_port(1);
    assert_eq!(issued.open_retry(&issued.retry, at(101)), Err(TokenError::WrongAddress));
    assert_eq!(issued.open_new_token(&issued.new_token, at(101)), Ok(()));
    issued.client = address("192.0.2.8:4433");
    assert_eq!(issued.open_retry(&issued.retry, at(101)), Err(TokenError::WrongAddress));
    assert_eq!(issued.open_new_token(&issued.new_token, at(101)), Err(TokenError::WrongAddress));
}

#[test]
fn a_mapped_ipv4_address_is_the_same_address() {
    let mut issued = issued();
    issued.client = address("[::ffff:192.0.2.7]:4433");
    assert_eq!(issued.open_retry(&issued.retry, at(101)), Ok(id(1)));
    assert_eq!(issued.open_new_token(&issued.new_token, at(101)), Ok(()));
}

#[test]
fn the_two_kinds_are_not_taken_for_each_other() {
    let issued = issued();
    assert_eq!(issued.open_retry(&issued.new_token, at(101)), Err(TokenError::NotOurs));
    assert_eq!(issued.open_new_token(&issued.retry, at(101)), Err(TokenError::NotOurs));
    for (token, kind) in
        [(&issued.new_token, TokenKind::RETRY), (&issued.retry, TokenKind::NEW_TOKEN)]
    {
        let mut relabelled = token.clone();
        relabelled[0] = kind.0;
        assert_eq!(issued.open_retry(&relabelled, at(101)), Err(TokenError::NotOurs));
        assert_eq!(issued.open_new_token(&relabelled, at(101)), Err(TokenError::NotOurs));
    }
}

/// RFC 9369 §5: a token is valid only in the version for which it was issued.
#[test]
fn tokens_are_bound_to_the_version() {
    let mut random = Random::from_number(5);
    let issued = issued();
    let (keys, client, now) = (&issued.keys, issued.client, at(101));
    for (version, other) in [(V1, Version::V2), (Version::V2, V1)] {
        let retry = keys.seal_retry(version, client, id(1), id(2), at(100), &mut random);
        let new_token = keys.seal_new_token(version, client.ip(), at(100), &mut random);
        let wrong = TokenError::WrongVersion;
        let open = |version| keys.open_retry(version, &retry, client, id(2), now, LIFETIME);
        assert_eq!((open(version), open(other)), (Ok(id(1)), Err(wrong)));
        let open = |version| keys.open_new_token(version, &new_token, client.ip(), now, LIFETIME);
        assert_eq!((open(version), open(other)), (Ok(()), Err(wrong)));
        // The byte that encodes the version is authenticated.
        let mut relabelled = new_token.clone();
        relabelled[0] = TokenKind::NEW_TOKEN.of(other).0;
        let opened = keys.open_new_token(other, &relabelled, client.ip(), now, LIFETIME);
        assert_eq!(opened, Err(TokenError::NotOurs));
    }
}

#[test]
fn a_changed_or_shortened_token_does_not_open() {
    let issued = issued();
    for position in 0..issued.retry.len() {
        let mut changed = issued.retry.clone();
        changed[position] ^= 0x10;
        assert_eq!(issued.open_retry(&changed, at(101)), Err(TokenError::NotOurs));
        let shortened = &issued.retry[..position];
        assert_eq!(issued.open_retry(shortened, at(101)), Err(TokenError::NotOurs));
    }
}

#[test]
fn another_endpoint_s_token_does_not_open() {
    let issued = issued();
    let other = TokenKeys::generate(&mut Random::from_number(4));
    let opened = other.open_retry(V1, &issued.retry, issued.client, id(2), at(101), LIFETIME);
    assert_eq!(opened, Err(TokenError::NotOurs));
}

#[derive(Debug)]
struct Clock(Option<u64>);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        self.0.map(|seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn shared(secret: u8, clock: Option<u64>) -> SharedTokens {
    SharedTokens { keys: TicketKeys::new(&[secret; 32]), clock: Arc::new(Clock(clock)) }
}

/// A token sealed with the first of two keys can be opened with the second after one rotation, but
/// not after another.
#[test]
fn tokens_outlive_one_rotation_of_shared_keys() {
    let mut random = Random::from_number(5);
    let own = TokenKeys::generate(&mut random);
    let (first, second) = (shared(1, Some(5000)), shared(1, Some(5001)));
    let client = address("192.0.2.7:4433").ip();
    let (keys, now) = TokenKeys::choose(Some(&first), &own, at(3));
    assert_eq!(now, at(5000), "the time of the clock, not of the endpoint");
    let token = keys.seal_new_token(V1, client, now, &mut random);
    let open = |token: &[u8]| {
        let (keys, now) = TokenKeys::choose(Some(&second), &own, at(700));
        keys.open_new_token(V1, token, client, now, LIFETIME)
    };
    assert_eq!(open(&token), Ok(()));
    second.keys.rotate(&[2; 32]);
    assert_eq!(open(&token), Ok(()));
    let (keys, now) = TokenKeys::choose(Some(&second), &own, at(700));
    let newer = keys.seal_new_token(V1, client, now, &mut random);
    second.keys.rotate(&[3; 32]);
    assert_eq!((open(&token), open(&newer)), (Err(TokenError::NotOurs), Ok(())));
    second.keys.accept_previous(&[1; 32]);
    assert_eq!((open(&token), open(&newer)), (Ok(()), Err(TokenError::NotOurs)));
}

#[test]
fn an_endpoint_whose_clock_tells_no_time_uses_its_own_keys() {
    let mut random = Random::from_number(5);
    let own = TokenKeys::generate(&mut random);
    let client = address("192.0.2.7:4433").ip();
    let stopped = shared(1, None);
    let (keys, now) = TokenKeys::choose(Some(&stopped), &own, at(3));
    assert_eq!(now, at(3));
    let token = keys.seal_new_token(V1, client, now, &mut random);
    assert_eq!(own.open_new_token(V1, &token, client, at(4), LIFETIME), Ok(()));
    let (keys, now) = TokenKeys::choose(Some(&shared(1, Some(3))), &own, at(3));
    let opened = keys.open_new_token(V1, &token, client, now, LIFETIME);
    assert_eq!(opened, Err(TokenError::NotOurs));
}

/// Tests every combination of the client's address, the keys and the clocks: a token is valid only
/// if all three match.
#[test]
fn the_matrix_of_tokens() {
    let issuer = address("192.0.2.7:4433");
    let addresses = [
        // The client's address, and whether a Retry token and a NEW_TOKEN token are valid there.
        ("192.0.2.7:4433", true, true),
        ("[::ffff:192.0.2.7]:4433", true, true),
        ("192.0.2.7:4434", false, true),
        ("192.0.2.8:4433", false, false),
        ("[2001:db8::7]:4433", false, false),
        ("[::192.0.2.7]:4433", false, false),
    ];
    type Change = fn(&TicketKeys);
    let keys: [(&str, Change, bool); 5] = [
        ("the same", |_| {}, true),
        ("replaced once", |keys| keys.rotate(&[2; 32]), true),
        (
            "replaced twice",
            |keys| {
                keys.rotate(&[2; 32]);
                keys.rotate(&[3; 32]);
            },
            false,
        ),
        (
            "replaced and back",
            |keys| {
                keys.rotate(&[2; 32]);
                keys.rotate(&[1; 32]);
            },
            true,
        ),
        (
            "of another fleet, which had the key once",
            |keys| {
                keys.rotate(&[4; 32]);
                keys.rotate(&[5; 32]);
                keys.accept_previous(&[1; 32]);
            },
            true,
        ),
    ];
    const ISSUED: u64 = 1_800_000_000;
    let clocks = [
        (ISSUED - 1_000_000, false),
        (ISSUED - 61, false),
        (ISSUED - 60, true),
        (ISSUED, true),
        (ISSUED + LIFETIME.as_secs(), true),
        (ISSUED + LIFETIME.as_secs() + 1, false),
        (0, false),
        (18_000_000_000, false),
    ];
    let mut random = Random::from_number(6);
    let own = TokenKeys::generate(&mut random);
    let (issuing, now) = TokenKeys::choose(Some(&shared(1, Some(ISSUED))), &own, at(3));
    let retry = issuing.seal_retry(V1, issuer, id(1), id(2), now, &mut random);
    let new_token = issuing.seal_new_token(V1, issuer.ip(), now, &mut random);
    for (client, retry_is_bound, new_token_is_bound) in addresses {
        for (what, change, has_key) in keys {
            for (seconds, is_in_time) in clocks {
                let other = shared(1, Some(seconds));
                change(&other.keys);
                // The endpoint's own time does not matter.
                let (keys, now) = TokenKeys::choose(Some(&other), &own, at(5));
                let client = address(client);
                let opened = keys.open_retry(V1, &retry, client, id(2), now, LIFETIME);
                let expected = retry_is_bound && has_key && is_in_time;
                assert_eq!(opened.is_ok(), expected, "Retry: {client}, {what}, {seconds}");
                let opened = keys.open_new_token(V1, &new_token, client.ip(), now, LIFETIME);
                let expected = new_token_is_bound && has_key && is_in_time;
                assert_eq!(opened.is_ok(), expected, "NEW_TOKEN: {client}, {what}, {seconds}");
            }
        }
    }
}
