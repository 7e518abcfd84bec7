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
    key: TokenKey,
    client: SocketAddr,
    retry: Vec<u8>,
    new_token: Vec<u8>,
}

fn issued() -> Issued {
    let mut random = Random::from_number(3);
    let key = TokenKey::generate(&mut random);
    let client = address("192.0.2.7:4433");
    let retry = key.seal_retry(V1, client, id(1), id(2), at(100), &mut random);
    let new_token = key.seal_new_token(V1, client.ip(), at(100), &mut random);
    Issued { key, client, retry, new_token }
}

impl Issued {
    fn open_retry(&self, token: &[u8], now: Timestamp) -> Result<ConnectionId, TokenError> {
        self.key.open_retry(V1, token, self.client, id(2), now, LIFETIME)
    }

    fn open_new_token(&self, token: &[u8], now: Timestamp) -> Result<(), TokenError> {
        self.key.open_new_token(V1, token, self.client.ip(), now, LIFETIME)
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
    for now in [at(99), at(111), at(100_000)] {
        assert_eq!(issued.open_retry(&issued.retry, now), Err(TokenError::Expired));
        assert_eq!(issued.open_new_token(&issued.new_token, now), Err(TokenError::Expired));
    }
}

/// RFC 9000 §8.1.3, §8.1.4: a Retry token is bound to address and port, a NEW_TOKEN token to the address.
#[test]
fn tokens_are_bound_to_the_address() {
    let mut issued = issued();
    let source = issued.key.open_retry(V1, &issued.retry, issued.client, id(3), at(101), LIFETIME);
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
    for (token, kind) in [(&issued.new_token, Kind::RETRY), (&issued.retry, Kind::NEW_TOKEN)] {
        let mut relabelled = token.clone();
        relabelled[0] = kind.0;
        assert_eq!(issued.open_retry(&relabelled, at(101)), Err(TokenError::NotOurs));
        assert_eq!(issued.open_new_token(&relabelled, at(101)), Err(TokenError::NotOurs));
    }
}

/// RFC 9369 §5.
#[test]
fn tokens_are_bound_to_the_version() {
    let mut random = Random::from_number(5);
    let issued = issued();
    let (key, client, now) = (&issued.key, issued.client, at(101));
    for (version, other) in [(V1, Version::V2), (Version::V2, V1)] {
        let retry = key.seal_retry(version, client, id(1), id(2), at(100), &mut random);
        let new_token = key.seal_new_token(version, client.ip(), at(100), &mut random);
        let wrong = TokenError::WrongVersion;
        let open = |version| key.open_retry(version, &retry, client, id(2), now, LIFETIME);
        assert_eq!((open(version), open(other)), (Ok(id(1)), Err(wrong)));
        let open = |version| key.open_new_token(version, &new_token, client.ip(), now, LIFETIME);
        assert_eq!((open(version), open(other)), (Ok(()), Err(wrong)));
        // The byte that names the version is authenticated.
        let mut relabelled = new_token.clone();
        relabelled[0] = Kind::NEW_TOKEN.of(other).0;
        let opened = key.open_new_token(other, &relabelled, client.ip(), now, LIFETIME);
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
    let other = TokenKey::generate(&mut Random::from_number(4));
    let opened = other.open_retry(V1, &issued.retry, issued.client, id(2), at(101), LIFETIME);
    assert_eq!(opened, Err(TokenError::NotOurs));
}
