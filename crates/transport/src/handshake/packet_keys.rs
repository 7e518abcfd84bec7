//! Packet protection and header protection using the AEADs of the TLS 1.3 cipher suites (RFC 9001
//! §5.3, §5.4).
//!
//! This module uses ring by default; the rest of TLS uses aws-lc-rs. On processors with VAES but
//! without AVX-512, ring's AES-GCM takes half of aws-lc's time per packet
//! (`docs/decisions/0050-packet-protection-with-ring.md`).

use clearway_wire::header;
use rustls::crypto::cipher::{self, AeadKey, Iv};
use rustls::quic::{HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuite, Error};

use crate::crypto::packets::aead::quic::{self, AES_128, AES_256, CHACHA20};
use crate::crypto::packets::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// The length of an IV, in bytes.
pub(super) const IV_LEN: usize = 12;

/// An AEAD together with its header protection algorithm.
pub(super) struct Cipher {
    aead: &'static Algorithm,
    header: &'static quic::Algorithm,
    /// The confidentiality limit of RFC 9001 §6.6.
    confidentiality_limit: u64,
    /// The integrity limit of RFC 9001 §6.6.
    integrity_limit: u64,
}

static AES_128_CIPHER: Cipher = Cipher {
    aead: &AES_128_GCM,
    header: &AES_128,
    confidentiality_limit: 1 << 23,
    integrity_limit: 1 << 52,
};

static AES_256_CIPHER: Cipher = Cipher {
    aead: &AES_256_GCM,
    header: &AES_256,
    confidentiality_limit: 1 << 23,
    integrity_limit: 1 << 52,
};

static CHACHA20_CIPHER: Cipher = Cipher {
    aead: &CHACHA20_POLY1305,
    header: &CHACHA20,
    confidentiality_limit: u64::MAX,
    integrity_limit: 1 << 36,
};

impl Cipher {
    /// Returns the cipher for a suite; `None` if this crate does not support the suite.
    pub(super) fn of(suite: CipherSuite) -> Option<&'static Self> {
        match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(&AES_128_CIPHER),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(&AES_256_CIPHER),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(&CHACHA20_CIPHER),
            _ => None,
        }
    }

    /// Returns the key length for packet and header protection, in bytes.
    pub(super) fn key_len(&self) -> usize {
        self.aead.key_len()
    }

    /// Creates a packet protection key; `None` if the key has the wrong length.
    pub(super) fn packet_key(&self, key: &[u8], iv: [u8; IV_LEN]) -> Option<Box<dyn PacketKey>> {
        let key = LessSafeKey::new(UnboundKey::new(self.aead, key).ok()?);
        let Self { confidentiality_limit, integrity_limit, .. } = *self;
        Some(Box::new(AeadPacketKey { key, iv, confidentiality_limit, integrity_limit }))
    }

    /// Creates a header protection key; `None` if the key has the wrong length.
    pub(super) fn header_key(&self, key: &[u8]) -> Option<Box<dyn HeaderProtectionKey>> {
        let key = quic::HeaderProtectionKey::new(self.header, key).ok()?;
        Some(Box::new(MaskingHeaderKey(key)))
    }
}

impl rustls::quic::Algorithm for Cipher {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        // The nonce of packet 0 is the IV.
        let iv = cipher::Nonce::new(&iv, 0).0;
        self.packet_key(key.as_ref(), iv).unwrap_or_else(unusable_key)
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.header_key(key.as_ref()).unwrap_or_else(|| Box::new(UnusableKey))
    }

    fn aead_key_len(&self) -> usize {
        self.key_len()
    }
}

struct AeadPacketKey {
    key: LessSafeKey,
    iv: [u8; IV_LEN],
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl AeadPacketKey {
    /// Returns the nonce of a packet (RFC 9001 §5.3).
    fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        let number = packet_number.to_be_bytes();
        for (byte, other) in nonce.iter_mut().rev().zip(number.iter().rev()) {
            *byte ^= other;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for AeadPacketKey {
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

struct MaskingHeaderKey(quic::HeaderProtectionKey);

impl MaskingHeaderKey {
    /// Applies the mask (RFC 9001 §5.4.1). `number_len` returns the packet number's length, given
    /// the first byte before and after masking.
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

impl HeaderProtectionKey for MaskingHeaderKey {
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

/// Returns a key that cannot protect or decrypt anything, in place of one that the cryptographic
/// library failed to create.
pub(super) fn unusable_key() -> Box<dyn PacketKey> {
    Box::new(UnusableKey)
}

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

impl HeaderProtectionKey for UnusableKey {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::EncryptError)
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::DecryptError)
    }

    fn sample_len(&self) -> usize {
        16
    }
}

#[cfg(test)]
#[path = "packet_keys_tests.rs"]
mod tests;
