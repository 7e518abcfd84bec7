//! Packet protection keys derived from TLS secrets, with the labels of any version (RFC 9001 §5.1,
//! RFC 9369 §3.3.2).
//!
//! rustls derives these keys itself, but only for the version with which its connection began, and
//! only once. A client whose server switches versions, and a server that discards its keys while a
//! connection is idle, take the secrets from rustls's key log instead.

use clearway_wire::Version;
use rustls::CipherSuite;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet};

use super::packet_keys::{Cipher, IV_LEN, unusable_key};
use super::session::{KeySchedule, PhaseKeys};
use crate::Side;
use crate::crypto::packets::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};

/// The length of the longest secret, that of SHA-384, in bytes. Keys are shorter.
const MAX_SECRET_LEN: usize = 48;
/// The length of the longest key, in bytes: AES-256 and ChaCha20.
const MAX_KEY_LEN: usize = 32;

/// A TLS 1.3 cipher suite as used by QUIC.
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

/// Computes HKDF-Expand-Label with an empty context (RFC 8446 §7.1), and fills the first `length`
/// bytes of the result.
fn expand(secret: &Prk, label: &[u8], length: usize) -> Option<[u8; MAX_SECRET_LEN]> {
    const PREFIX: &[u8] = b"tls13 ";
    let length_bytes = u16::try_from(length).ok()?.to_be_bytes();
    let label_len = u8::try_from(PREFIX.len().checked_add(label.len())?).ok()?;
    let info = [&length_bytes[..], &[label_len], PREFIX, label, &[0]];
    let mut output = [0; MAX_SECRET_LEN];
    secret.expand(&info, Length(length)).ok()?.fill(output.get_mut(..length)?).ok()?;
    Some(output)
}

/// The output length of HKDF-Expand.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// The key derivation labels of a version.
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

/// The parameters for deriving keys from a connection's secrets.
#[derive(Clone, Copy)]
pub(super) struct Derivation {
    suite: Suite,
    labels: Labels,
}

/// A traffic secret (RFC 8446 §7.1), with the length of the suite's hash.
#[derive(Clone, Copy)]
pub(super) struct Secret([u8; MAX_SECRET_LEN]);

impl Derivation {
    /// Creates the parameters; `None` if the suite or the version is unknown.
    pub(super) fn new(version: Version, suite: CipherSuite) -> Option<Self> {
        Some(Self { suite: Suite::of(suite)?, labels: Labels::of(version)? })
    }

    /// Returns `bytes` as a secret; `None` if the length does not match the suite's hash.
    pub(super) fn secret(self, bytes: &[u8]) -> Option<Secret> {
        let mut secret = [0; MAX_SECRET_LEN];
        secret
            .get_mut(..self.suite.secret_len)?
            .copy_from_slice(Some(bytes).filter(|bytes| bytes.len() == self.suite.secret_len)?);
        Some(Secret(secret))
    }

    /// Returns the keys of `side`, derived from the two traffic secrets.
    pub(super) fn keys(self, side: Side, client: Secret, server: Secret) -> Option<Keys> {
        let keys = |secret| {
            let secret = self.expandable(secret)?;
            let (header, packet) = (self.header_key(&secret)?, self.packet_key(&secret)?);
            Some(DirectionalKeys { header, packet })
        };
        let [local, remote] = local_first(side, [keys(client)?, keys(server)?]);
        Some(Keys { local, remote })
    }

    /// Returns the secret in a form from which several keys can be derived.
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

    /// Returns the secret of the next key phase (RFC 9001 §6.1).
    fn update(self, secret: &Prk) -> Option<Secret> {
        expand(secret, self.labels.update, self.suite.secret_len).map(Secret)
    }

    /// Returns the schedule of the keys of later key phases.
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

/// The bytes of a packet protection key; they take less memory than a key that is ready for use.
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

/// The keys that an idle connection needs when it becomes active.
struct Kept {
    local: DirectionBytes,
    remote: DirectionBytes,
    next_remote: PacketKeyBytes,
}

/// Orders a pair of client and server values as local and remote.
fn local_first<T>(side: Side, [client, server]: [T; 2]) -> [T; 2] {
    match side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    }
}

/// The secrets client_application_traffic_secret_0 and server_application_traffic_secret_0 (RFC
/// 8446 §7.1).
#[derive(Clone, Copy)]
pub(super) struct ApplicationSecrets<'a> {
    pub(super) client: &'a [u8],
    pub(super) server: &'a [u8],
}

/// A key schedule that stores only secrets.
pub(super) struct DerivedSchedule {
    version: Version,
    suite: CipherSuite,
    side: Side,
    /// The client's and the server's secrets of the first phase, if they are not the current ones.
    /// Header protection keys never change (RFC 9001 §6).
    first: Option<Box<[Secret; 2]>>,
    /// The secrets of the phase before the one whose keys were last returned.
    current: [Secret; 2],
    /// Whether any keys were returned.
    is_begun: bool,
    /// The bytes of the current keys, once the connection has been idle, so that they need not be
    /// derived again each time it becomes active.
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

    /// Returns the keys of one direction and its current secret. Everything derived from one secret
    /// is derived in one step.
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
        // Derivation fails only if the cryptographic library fails. In that case, nothing more can
        // be sent or received.
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
