//! Packet protection keys from TLS's secrets, with the labels of any version (RFC 9001 §5.1, RFC 9369 §3.3.2).
//!
//! rustls derives these keys itself, for the version with which its connection began, and cannot change to another; nor
//! does it give the same keys twice. A client whose server goes on in another version, and a server that forgets its keys
//! while a connection rests, take the secrets from rustls's key log instead.

use clearway_wire::Version;
use rustls::CipherSuite;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet};

use super::packet_keys::{Cipher, IV_LEN, unusable_key};
use super::session::{KeySchedule, PhaseKeys};
use crate::Side;
use crate::crypto::packets::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};

/// The longest secret, that of SHA-384, in bytes. Keys are shorter.
const MAX_SECRET_LEN: usize = 48;
/// The longest key, in bytes: that of AES-256 and of ChaCha20.
const MAX_KEY_LEN: usize = 32;

/// A cipher suite of TLS 1.3 as QUIC uses it.
#[derive(Clone, Copy)]
struct Suite {
    hash: hkdf::Algorithm,
    secret_len: usize,
    cipher: &'static Cipher,
}

impl Suite {
    fn of(suite: CipherSuite) -> Option<Self> {
        let cipher = Cipher::of(suite)?;
        Some(match suite {
            CipherSuite::TLS13_AES_256_GCM_SHA384 => {
                Self { hash: HKDF_SHA384, secret_len: 48, cipher }
            }
            _ => Self { hash: HKDF_SHA256, secret_len: 32, cipher },
        })
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 §7.1); fills the first `length` bytes of what it returns.
fn expand(secret: &Prk, label: &[u8], length: usize) -> Option<[u8; MAX_SECRET_LEN]> {
    const PREFIX: &[u8] = b"tls13 ";
    let length_bytes = u16::try_from(length).ok()?.to_be_bytes();
    let label_len = u8::try_from(PREFIX.len().checked_add(label.len())?).ok()?;
    let info = [&length_bytes[..], &[label_len], PREFIX, label, &[0]];
    let mut output = [0; MAX_SECRET_LEN];
    secret.expand(&info, Length(length)).ok()?.fill(output.get_mut(..length)?).ok()?;
    Some(output)
}

/// The length of what HKDF-Expand produces.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// The labels of a version.
#[derive(Clone, Copy)]
struct Labels {
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
    update: &'static [u8],
}

impl Labels {
    fn of(version: Version) -> Option<Self> {
        match version {
            Version::V1 => Some(Self {
                key: b"quic key",
                iv: b"quic iv",
                header: b"quic hp",
                update: b"quic ku",
            }),
            Version::V2 => Some(Self {
                key: b"quicv2 key",
                iv: b"quicv2 iv",
                header: b"quicv2 hp",
                update: b"quicv2 ku",
            }),
            _ => None,
        }
    }
}

/// How keys are derived from the secrets of a connection.
#[derive(Clone, Copy)]
pub(super) struct Derivation {
    suite: Suite,
    labels: Labels,
}

/// A traffic secret (RFC 8446 §7.1), of as many bytes as the suite's hash has.
#[derive(Clone, Copy)]
pub(super) struct Secret([u8; MAX_SECRET_LEN]);

impl Derivation {
    /// `None` if the suite or the version is unknown.
    pub(super) fn new(version: Version, suite: CipherSuite) -> Option<Self> {
        Some(Self { suite: Suite::of(suite)?, labels: Labels::of(version)? })
    }

    /// `None` if the length of the bytes is not that of the suite's hash.
    pub(super) fn secret(self, bytes: &[u8]) -> Option<Secret> {
        let mut secret = [0; MAX_SECRET_LEN];
        secret
            .get_mut(..self.suite.secret_len)?
            .copy_from_slice(Some(bytes).filter(|bytes| bytes.len() == self.suite.secret_len)?);
        Some(Secret(secret))
    }

    /// The keys of `side` from the two traffic secrets.
    pub(super) fn keys(self, side: Side, client: Secret, server: Secret) -> Option<Keys> {
        let keys = |secret| {
            let secret = self.expandable(secret)?;
            let (header, packet) = (self.header_key(&secret)?, self.packet_key(&secret)?);
            Some(DirectionalKeys { header, packet })
        };
        let [local, remote] = local_first(side, [keys(client)?, keys(server)?]);
        Some(Keys { local, remote })
    }

    /// The secret in the form from which several keys can be derived.
    fn expandable(self, secret: Secret) -> Option<Prk> {
        let secret = secret.0.get(..self.suite.secret_len)?;
        Some(Prk::new_less_safe(self.suite.hash, secret))
    }

    fn packet_key(self, secret: &Prk) -> Option<Box<dyn PacketKey>> {
        PacketKeyBytes::derive(self, secret)?.key(self.suite.cipher)
    }

    fn header_key(self, secret: &Prk) -> Option<Box<dyn HeaderProtectionKey>> {
        let key = self.header_key_bytes(secret)?;
        self.suite.cipher.header_key(key.get(..self.suite.cipher.key_len())?)
    }

    fn header_key_bytes(self, secret: &Prk) -> Option<[u8; MAX_KEY_LEN]> {
        let key = expand(secret, self.labels.header, self.suite.cipher.key_len())?;
        key.first_chunk().copied()
    }

    /// The secret of the next key phase (RFC 9001 §6.1).
    fn update(self, secret: &Prk) -> Option<Secret> {
        expand(secret, self.labels.update, self.suite.secret_len).map(Secret)
    }

    /// The keys of later key phases, one after the other.
    pub(super) fn schedule(
        version: Version,
        suite: CipherSuite,
        side: Side,
        secrets: ApplicationSecrets<'_>,
    ) -> Option<DerivedSchedule> {
        let derivation = Self::new(version, suite)?;
        let secrets = [derivation.secret(secrets.client)?, derivation.secret(secrets.server)?];
        Some(DerivedSchedule {
            version,
            suite,
            side,
            first: None,
            current: secrets,
            is_begun: false,
            kept: None,
        })
    }

    fn next_phase(self, [client, server]: [Secret; 2]) -> Option<[Secret; 2]> {
        let update = |secret| self.update(&self.expandable(secret)?);
        Some([update(client)?, update(server)?])
    }

    fn packet_keys(self, side: Side, [client, server]: [Secret; 2]) -> Option<PacketKeySet> {
        let key = |secret| self.packet_key(&self.expandable(secret)?);
        let [local, remote] = local_first(side, [key(client)?, key(server)?]);
        Some(PacketKeySet { local, remote })
    }
}

/// What a packet protection key is made of: fewer bytes than the key takes when it is ready for use.
struct PacketKeyBytes {
    key: [u8; MAX_KEY_LEN],
    iv: [u8; IV_LEN],
}

impl PacketKeyBytes {
    fn derive(derivation: Derivation, secret: &Prk) -> Option<Self> {
        let Derivation { suite, labels } = derivation;
        let key = *expand(secret, labels.key, suite.cipher.key_len())?.first_chunk()?;
        let iv = *expand(secret, labels.iv, IV_LEN)?.first_chunk()?;
        Some(Self { key, iv })
    }

    fn key(&self, cipher: &Cipher) -> Option<Box<dyn PacketKey>> {
        cipher.packet_key(self.key.get(..cipher.key_len())?, self.iv)
    }
}

/// The keys of one direction.
struct DirectionBytes {
    header: [u8; MAX_KEY_LEN],
    packet: PacketKeyBytes,
}

impl DirectionBytes {
    fn keys(&self, cipher: &Cipher) -> Option<DirectionalKeys> {
        let header = cipher.header_key(self.header.get(..cipher.key_len())?)?;
        Some(DirectionalKeys { header, packet: self.packet.key(cipher)? })
    }
}

/// The keys that a connection needs when it wakes.
struct Kept {
    local: DirectionBytes,
    remote: DirectionBytes,
    next_remote: PacketKeyBytes,
}

/// What is the client's and what the server's, as what is local and what is remote.
fn local_first<T>(side: Side, [client, server]: [T; 2]) -> [T; 2] {
    match side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    }
}

/// client_application_traffic_secret_0 and server_application_traffic_secret_0 (RFC 8446 §7.1).
#[derive(Clone, Copy)]
pub(super) struct ApplicationSecrets<'a> {
    pub(super) client: &'a [u8],
    pub(super) server: &'a [u8],
}

/// A source of the keys of one key phase after another that keeps only secrets.
pub(super) struct DerivedSchedule {
    version: Version,
    suite: CipherSuite,
    side: Side,
    /// The secrets of the first phase, the client's and the server's, if they are not the current ones: header protection
    /// keeps its keys (RFC 9001 §6).
    first: Option<Box<[Secret; 2]>>,
    /// The secrets of the phase before the one whose keys were given last.
    current: [Secret; 2],
    /// Whether any keys were given.
    is_begun: bool,
    /// What the current keys are made of, once the connection has rested: it is not derived again each time that it wakes.
    kept: Option<Box<Kept>>,
}

impl DerivedSchedule {
    fn derivation(&self) -> Option<Derivation> {
        Derivation::new(self.version, self.suite)
    }

    fn advance(&mut self) -> Option<PacketKeySet> {
        let derivation = self.derivation()?;
        let mut next = derivation.next_phase(self.current)?;
        if self.is_begun {
            let before = core::mem::replace(&mut self.current, next);
            self.first.get_or_insert_with(|| Box::new(before));
            self.kept = None;
            next = derivation.next_phase(next)?;
        }
        self.is_begun = true;
        derivation.packet_keys(self.side, next)
    }

    fn keep(&self) -> Option<Box<Kept>> {
        let both = [self.direction(0)?, self.direction(1)?];
        let [(local, _), (remote, secret)] = local_first(self.side, both);
        let derivation = self.derivation()?;
        let next = derivation.expandable(derivation.update(&secret)?)?;
        let next_remote = PacketKeyBytes::derive(derivation, &next)?;
        Some(Box::new(Kept { local, remote, next_remote }))
    }

    /// The keys of one direction, and its current secret. What is derived from one secret is derived at once.
    fn direction(&self, direction: usize) -> Option<(DirectionBytes, Prk)> {
        let derivation = self.derivation()?;
        let expandable = |secrets: &[Secret; 2]| derivation.expandable(*secrets.get(direction)?);
        let current = expandable(&self.current)?;
        let header = match self.first.as_deref() {
            Some(first) => derivation.header_key_bytes(&expandable(first)?)?,
            None => derivation.header_key_bytes(&current)?,
        };
        let packet = PacketKeyBytes::derive(derivation, &current)?;
        Some((DirectionBytes { header, packet }, current))
    }
}

impl KeySchedule for DerivedSchedule {
    fn next_packet_keys(&mut self) -> PacketKeySet {
        // Derivation only fails if the cryptographic library does; then nothing can be sent or received any more.
        self.advance()
            .unwrap_or_else(|| PacketKeySet { local: unusable_key(), remote: unusable_key() })
    }

    fn keep_keys(&mut self) -> bool {
        if self.kept.is_none() {
            self.kept = self.keep();
        }
        self.is_begun |= self.kept.is_some();
        self.kept.is_some()
    }

    fn keys_again(&self) -> Option<PhaseKeys> {
        let (Kept { local, remote, next_remote }, cipher) =
            (self.kept.as_deref()?, Cipher::of(self.suite)?);
        let current = Keys { local: local.keys(cipher)?, remote: remote.keys(cipher)? };
        Some(PhaseKeys { current, next_remote: next_remote.key(cipher)? })
    }

    fn next_local_again(&self) -> Option<Box<dyn PacketKey>> {
        let derivation = self.derivation()?;
        let next = derivation.next_phase(self.current)?;
        Some(derivation.packet_keys(self.side, next)?.local)
    }
}

#[cfg(test)]
#[path = "derived_keys_tests.rs"]
mod tests;
