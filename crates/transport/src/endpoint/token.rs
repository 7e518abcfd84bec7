//! Address validation tokens (RFC 9000 §8.1.3, §8.1.4). They are encrypted and authenticated, and bound to an address, a
//! time and a version (RFC 9369 §5).

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Reader, Version};

/// The key of an endpoint's tokens.
pub(super) struct TokenKey(Option<LessSafeKey>);

/// The reason that a token is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenError {
    /// It was not made with this key, is of the other kind, or was changed.
    NotOurs,
    /// It was made for another address.
    WrongAddress,
    /// It was made for another version.
    WrongVersion,
    /// It is too old.
    Expired,
}

const NONCE_LEN: usize = 12;

/// What a token is for, and in which version: the first byte, in the clear and authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind(u8);

impl Kind {
    const RETRY: Self = Self(0xb1);
    const NEW_TOKEN: Self = Self(0x4e);

    /// This kind of token, issued in `version`. The two kinds differ in all versions.
    const fn of(self, version: Version) -> Self {
        match version {
            Version::V2 => Self(self.0.wrapping_add(1)),
            _ => self,
        }
    }
}

impl TokenKey {
    /// A fresh key.
    pub(super) fn generate(random: &mut Random) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &random.array::<32>());
        Self(key.ok().map(LessSafeKey::new))
    }

    /// A token for a Retry packet of `version` to the client at `client`, which first sent to `original_destination` and is to use
    /// `retry_source` next.
    pub(super) fn seal_retry(
        &self,
        version: Version,
        client: SocketAddr,
        original_destination: ConnectionId,
        retry_source: ConnectionId,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<u8> {
        let mut plain = Vec::with_capacity(64);
        plain.extend_from_slice(&now.as_nanos().to_be_bytes());
        plain.extend_from_slice(&client.port().to_be_bytes());
        push_prefixed(&mut plain, &address_bytes(client.ip()));
        push_prefixed(&mut plain, original_destination.as_bytes());
        push_prefixed(&mut plain, retry_source.as_bytes());
        self.seal(Kind::RETRY.of(version), plain, random)
    }

    /// The original Destination Connection ID, if `token` comes from a Retry of `version` that was sent to `client`.
    pub(super) fn open_retry(
        &self,
        version: Version,
        token: &[u8],
        client: SocketAddr,
        retry_source: ConnectionId,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<ConnectionId, TokenError> {
        let plain = self.open(Kind::RETRY, version, token)?;
        let mut reader = Reader::new(&plain);
        let issued = take_time(&mut reader)?;
        let port = reader.array("port").map(u16::from_be_bytes).map_err(|_| TokenError::NotOurs)?;
        let address = take_prefixed(&mut reader)?;
        let original = take_prefixed(&mut reader)?;
        let source = take_prefixed(&mut reader)?;
        if address != address_bytes(client.ip()) || port != client.port() {
            return Err(TokenError::WrongAddress);
        }
        if source != retry_source.as_bytes() {
            return Err(TokenError::WrongAddress);
        }
        check_age(issued, now, lifetime)?;
        ConnectionId::new(original).map_err(|_| TokenError::NotOurs)
    }

    /// A token for NEW_TOKEN: it validates the address `client` on a later connection of `version`.
    pub(super) fn seal_new_token(
        &self,
        version: Version,
        client: IpAddr,
        now: Timestamp,
        random: &mut Random,
    ) -> Vec<u8> {
        let mut plain = Vec::with_capacity(32);
        plain.extend_from_slice(&now.as_nanos().to_be_bytes());
        push_prefixed(&mut plain, &address_bytes(client));
        self.seal(Kind::NEW_TOKEN.of(version), plain, random)
    }

    /// Whether `token` validates the address `client` on a connection of `version`.
    pub(super) fn open_new_token(
        &self,
        version: Version,
        token: &[u8],
        client: IpAddr,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<(), TokenError> {
        let plain = self.open(Kind::NEW_TOKEN, version, token)?;
        let mut reader = Reader::new(&plain);
        let issued = take_time(&mut reader)?;
        if take_prefixed(&mut reader)? != address_bytes(client) {
            return Err(TokenError::WrongAddress);
        }
        check_age(issued, now, lifetime)
    }

    fn seal(&self, kind: Kind, mut plain: Vec<u8>, random: &mut Random) -> Vec<u8> {
        let Some(key) = &self.0 else { return Vec::new() };
        let nonce = random.array::<NONCE_LEN>();
        let sealed = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from([kind.0]),
            &mut plain,
        );
        if sealed.is_err() {
            return Vec::new();
        }
        let mut token = vec![kind.0];
        token.extend_from_slice(&nonce);
        token.append(&mut plain);
        token
    }

    fn open(&self, kind: Kind, version: Version, token: &[u8]) -> Result<Vec<u8>, TokenError> {
        let key = self.0.as_ref().ok_or(TokenError::NotOurs)?;
        let mut reader = Reader::new(token);
        let made = Kind(reader.u8("kind").map_err(|_| TokenError::NotOurs)?);
        if made != kind.of(version) && Version::KNOWN.iter().all(|other| made != kind.of(*other)) {
            return Err(TokenError::NotOurs);
        }
        let nonce = reader.array::<NONCE_LEN>("nonce").map_err(|_| TokenError::NotOurs)?;
        let mut sealed = reader.take_rest().to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = key.open_in_place(nonce, Aad::from([made.0]), &mut sealed);
        let plain = plain.map(|plain| plain.to_vec()).map_err(|_| TokenError::NotOurs)?;
        if made == kind.of(version) { Ok(plain) } else { Err(TokenError::WrongVersion) }
    }
}

impl core::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The parts are all shorter than 256 bytes.
fn push_prefixed(plain: &mut Vec<u8>, bytes: &[u8]) {
    plain.push(bytes.len() as u8);
    plain.extend_from_slice(bytes);
}

fn take_prefixed<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], TokenError> {
    let length = reader.u8("length").map_err(|_| TokenError::NotOurs)?;
    reader.bytes(usize::from(length), "bytes").map_err(|_| TokenError::NotOurs)
}

fn take_time(reader: &mut Reader<'_>) -> Result<Timestamp, TokenError> {
    let nanoseconds = reader.array("time").map(u64::from_be_bytes);
    nanoseconds.map(Timestamp::from_nanos).map_err(|_| TokenError::NotOurs)
}

fn check_age(issued: Timestamp, now: Timestamp, lifetime: Duration) -> Result<(), TokenError> {
    match now.checked_since(issued) {
        Some(age) if age <= lifetime => Ok(()),
        _ => Err(TokenError::Expired),
    }
}

#[cfg(fuzzing)]
pub(super) mod fuzzing;

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
