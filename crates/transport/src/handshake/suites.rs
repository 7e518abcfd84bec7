//! The TLS 1.3 cipher suites as used by QUIC: with aws-lc-rs's hashes, ring's faster HMAC and
//! [packet protection](super::packet_keys) (both by default), and without keys for TLS records,
//! which QUIC does not use (RFC 9001 §4).

use std::sync::LazyLock;

use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls13CipherSuite, quic,
};

use super::packet_keys::Cipher;
use crate::crypto::packets::hmac;
use crate::crypto::tls::DEFAULT_CIPHER_SUITES;

static SHA256: HkdfUsingHmac<'_> = HkdfUsingHmac(&PacketHmac(&hmac::HMAC_SHA256));
static SHA384: HkdfUsingHmac<'_> = HkdfUsingHmac(&PacketHmac(&hmac::HMAC_SHA384));

static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    DEFAULT_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13()).map(of_quic).collect()
});

fn of_quic(suite: &'static Tls13CipherSuite) -> Tls13CipherSuite {
    let name = suite.common.suite;
    Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: name,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider: match name {
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &SHA384,
            _ => &SHA256,
        },
        aead_alg: &NoRecords,
        quic: Cipher::of(name).map(|cipher| cipher as &dyn quic::Algorithm),
    }
}

/// Returns all suites.
pub(super) fn all() -> &'static [Tls13CipherSuite] {
    &SUITES
}

/// Returns the suite with this identifier.
pub(super) fn find(suite: CipherSuite) -> Option<&'static Tls13CipherSuite> {
    all().iter().find(|known| known.common.suite == suite)
}

/// Returns the suites with these identifiers, the preferred one first.
pub(super) fn in_order<const N: usize>(names: [CipherSuite; N]) -> Vec<SupportedCipherSuite> {
    names.into_iter().filter_map(find).map(SupportedCipherSuite::Tls13).collect()
}

/// The packet protection library's HMAC, adapted to rustls's interface.
struct PacketHmac(&'static hmac::Algorithm);

impl Hmac for PacketHmac {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(PacketHmacKey(hmac::Key::new(*self.0, key)))
    }

    fn hash_output_len(&self) -> usize {
        self.0.digest_algorithm().output_len()
    }
}

struct PacketHmacKey(hmac::Key);

impl Key for PacketHmacKey {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(first);
        for part in middle {
            context.update(part);
        }
        context.update(last);
        Tag::new(context.sign().as_ref())
    }

    fn tag_len(&self) -> usize {
        self.0.algorithm().digest_algorithm().output_len()
    }
}

/// Rejects TLS records, because their keys are not derived.
struct NoRecords;

impl Tls13AeadAlgorithm for NoRecords {
    fn encrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Self)
    }

    fn decrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Self)
    }

    fn key_len(&self) -> usize {
        0
    }

    fn extract_keys(
        &self,
        _: AeadKey,
        _: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

impl MessageEncrypter for NoRecords {
    fn encrypt(
        &mut self,
        _: OutboundPlainMessage<'_>,
        _: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        Err(Error::EncryptError)
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len
    }
}

impl MessageDecrypter for NoRecords {
    fn decrypt<'a>(
        &mut self,
        _: InboundOpaqueMessage<'a>,
        _: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        Err(Error::DecryptError)
    }
}
