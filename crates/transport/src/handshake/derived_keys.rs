//! Packet protection keys from TLS's secrets, with the labels of any version (RFC 9001 §5.1, RFC 9369 §3.3.2).
//!
//! rustls derives these keys itself, for the version with which its connection began, and cannot change to another; nor
//! does it give the same keys twice. A client whose server goes on in another version, and a server that forgets its keys
//! while a connection rests, take the secrets from rustls's key log instead.

use aws_lc_rs::aead::quic::{AES_128, AES_256, CHACHA20, HeaderProtectionKey as HeaderKey};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey, quic,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use clearway_wire::{Version, header};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Tag};
use rustls::{CipherSuite, Error};

use super::session::{KeySchedule, PhaseKeys};
use crate::Side;

const IV_LEN: usize = 12;
/// The longest secret, that of SHA-384, in bytes. Keys are shorter.
const MAX_SECRET_LEN: usize = 48;

/// A cipher suite of TLS 1.3 as QUIC uses it.
#[derive(Clone, Copy)]
struct Suite {
    hash: aws_lc_rs::hkdf::Algorithm,
    secret_len: usize,
    aead: &'static aws_lc_rs::aead::Algorithm,
    header: &'static quic::Algorithm,
    /// RFC 9001 §6.6.
    confidentiality_limit: u64,
    /// RFC 9001 §6.6.
    integrity_limit: u64,
}

impl Suite {
    fn of(suite: CipherSuite) -> Option<Self> {
        let aes_128 = Self {
            hash: HKDF_SHA256,
            secret_len: 32,
            aead: &AES_128_GCM,
            header: &AES_128,
            confidentiality_limit: 1 << 23,
            integrity_limit: 1 << 52,
        };
        match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(aes_128),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self {
                hash: HKDF_SHA384,
                secret_len: 48,
                aead: &AES_256_GCM,
                header: &AES_256,
                ..aes_128
            }),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self {
                aead: &CHACHA20_POLY1305,
                header: &CHACHA20,
                confidentiality_limit: u64::MAX,
                integrity_limit: 1 << 36,
                ..aes_128
            }),
            _ => None,
        }
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1); fills the first `length` bytes of what it returns.
    fn expand(self, secret: &[u8], label: &[u8], length: usize) -> Option<[u8; MAX_SECRET_LEN]> {
        const PREFIX: &[u8] = b"tls13 ";
        let length_bytes = u16::try_from(length).ok()?.to_be_bytes();
        let label_len = u8::try_from(PREFIX.len().checked_add(label.len())?).ok()?;
        let info = [&length_bytes[..], &[label_len], PREFIX, label, &[0]];
        let prk = Prk::new_less_safe(self.hash, secret);
        let mut output = [0; MAX_SECRET_LEN];
        prk.expand(&info, Length(length)).ok()?.fill(output.get_mut(..length)?).ok()?;
        Some(output)
    }
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
        let (local, remote) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let keys = |secret| {
            Some(DirectionalKeys {
                header: Box::new(DerivedHeaderKey(self.header_key(secret)?)),
                packet: Box::new(self.packet_key(secret)?),
            })
        };
        Some(Keys { local: keys(local)?, remote: keys(remote)? })
    }

    fn expand(self, secret: Secret, label: &[u8], length: usize) -> Option<[u8; MAX_SECRET_LEN]> {
        self.suite.expand(secret.0.get(..self.suite.secret_len)?, label, length)
    }

    fn packet_key(self, secret: Secret) -> Option<DerivedPacketKey> {
        let key_len = self.suite.aead.key_len();
        let key = self.expand(secret, self.labels.key, key_len)?;
        let key = UnboundKey::new(self.suite.aead, key.get(..key_len)?).ok()?;
        let iv = *self.expand(secret, self.labels.iv, IV_LEN)?.first_chunk::<IV_LEN>()?;
        let Suite { confidentiality_limit, integrity_limit, .. } = self.suite;
        let key = LessSafeKey::new(key);
        Some(DerivedPacketKey { key, iv, confidentiality_limit, integrity_limit })
    }

    fn header_key(self, secret: Secret) -> Option<HeaderKey> {
        let key_len = self.suite.aead.key_len();
        let key = self.expand(secret, self.labels.header, key_len)?;
        HeaderKey::new(self.suite.header, key.get(..key_len)?).ok()
    }

    /// The secret of the next key phase (RFC 9001 §6.1).
    fn update(self, secret: Secret) -> Option<Secret> {
        self.expand(secret, self.labels.update, self.suite.secret_len).map(Secret)
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
        })
    }

    fn next_phase(self, [client, server]: [Secret; 2]) -> Option<[Secret; 2]> {
        Some([self.update(client)?, self.update(server)?])
    }

    fn packet_keys(self, side: Side, [client, server]: [Secret; 2]) -> Option<PacketKeySet> {
        let (local, remote) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let [local, remote] = [self.packet_key(local)?, self.packet_key(remote)?];
        Some(PacketKeySet { local: Box::new(local), remote: Box::new(remote) })
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
            next = derivation.next_phase(next)?;
        }
        self.is_begun = true;
        derivation.packet_keys(self.side, next)
    }

    fn derive_again(&self) -> Option<PhaseKeys> {
        let derivation = self.derivation()?;
        let [client, server] = *self.first.as_deref().unwrap_or(&self.current);
        let header = |secret| Some(Box::new(DerivedHeaderKey(derivation.header_key(secret)?)));
        let (client, server) = (header(client)?, header(server)?);
        let (local_header, remote_header) = match self.side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let current = derivation.packet_keys(self.side, self.current)?;
        let next = derivation.packet_keys(self.side, derivation.next_phase(self.current)?)?;
        Some(PhaseKeys {
            current: Keys {
                local: DirectionalKeys { header: local_header, packet: current.local },
                remote: DirectionalKeys { header: remote_header, packet: current.remote },
            },
            next,
        })
    }
}

impl KeySchedule for DerivedSchedule {
    fn next_packet_keys(&mut self) -> PacketKeySet {
        // Derivation only fails if the cryptographic library does; then nothing can be sent or received any more.
        self.advance().unwrap_or_else(|| PacketKeySet {
            local: Box::new(UnusableKey),
            remote: Box::new(UnusableKey),
        })
    }

    fn keys_again(&self) -> Option<PhaseKeys> {
        self.derive_again().filter(|_| self.is_begun)
    }

    fn gives_keys_again(&self) -> bool {
        self.is_begun && self.derivation().is_some()
    }
}

/// Stands for a key that could not be derived.
struct UnusableKey;

impl PacketKey for UnusableKey {
    fn encrypt_in_place(&self, _: u64, _: &[u8], _: &mut [u8]) -> Result<Tag, Error> {
        Err(Error::EncryptError)
    }

    fn decrypt_in_place<'a>(&self, _: u64, _: &[u8], _: &'a mut [u8]) -> Result<&'a [u8], Error> {
        Err(Error::DecryptError)
    }

    fn tag_len(&self) -> usize {
        16
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

struct DerivedPacketKey {
    key: LessSafeKey,
    iv: [u8; IV_LEN],
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl DerivedPacketKey {
    /// The nonce of a packet (RFC 9001 §5.3).
    fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        let number = packet_number.to_be_bytes();
        for (byte, other) in nonce.iter_mut().rev().zip(number.iter().rev()) {
            *byte ^= other;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for DerivedPacketKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        let nonce = self.nonce(packet_number);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), payload);
        tag.map(|tag| Tag::from(tag.as_ref())).map_err(|_| Error::EncryptError)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let nonce = self.nonce(packet_number);
        let opened = self.key.open_in_place(nonce, Aad::from(header), payload);
        opened.map(|content| &*content).map_err(|_| Error::DecryptError)
    }

    fn tag_len(&self) -> usize {
        self.key.algorithm().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

struct DerivedHeaderKey(HeaderKey);

impl DerivedHeaderKey {
    /// Applies the mask (RFC 9001 §5.4.1). `number_len` gives the length of the packet number from the first byte before
    /// and after that.
    fn apply(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
        number_len: impl FnOnce(u8, u8) -> usize,
    ) -> Result<(), Error> {
        let failed = || Error::General("header protection failed".into());
        let [first_mask, number_mask @ ..] = self.0.new_mask(sample).map_err(|_| failed())?;
        if packet_number.len() > number_mask.len() {
            return Err(failed());
        }
        let before = *first;
        *first ^= first_mask & header::protected_bits(before);
        let length = number_len(before, *first);
        for (byte, mask) in packet_number.iter_mut().zip(number_mask).take(length) {
            *byte ^= mask;
        }
        Ok(())
    }
}

impl HeaderProtectionKey for DerivedHeaderKey {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        let plain = |before, _| header::packet_number_len(before);
        self.apply(sample, first, packet_number, plain)
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        let plain = |_, after| header::packet_number_len(after);
        self.apply(sample, first, packet_number, plain)
    }

    fn sample_len(&self) -> usize {
        self.0.algorithm().sample_len()
    }
}

#[cfg(test)]
#[path = "derived_keys_tests.rs"]
mod tests;
