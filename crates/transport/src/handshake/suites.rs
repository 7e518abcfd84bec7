//! The cipher suites of TLS 1.3 as QUIC uses them: with the cryptography of aws-lc-rs and [our HKDF](super::hkdf), and
//! without keys of TLS records, of which QUIC has none (RFC 9001 §4).

use std::sync::LazyLock;

use aws_lc_rs::digest;
use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::aws_lc_rs::DEFAULT_CIPHER_SUITES;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls13CipherSuite,
};

use super::hkdf::Hkdf;

static SHA256: Hkdf = Hkdf::new(&digest::SHA256);
static SHA384: Hkdf = Hkdf::new(&digest::SHA384);

static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    DEFAULT_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13()).map(of_quic).collect()
});

fn of_quic(suite: &'static Tls13CipherSuite) -> Tls13CipherSuite {
    let hash_len = suite.common.hash_provider.output_len();
    Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider: if hash_len == digest::SHA384.output_len() { &SHA384 } else { &SHA256 },
        aead_alg: &NoRecords,
        quic: suite.quic,
    }
}

/// All suites.
pub(super) fn all() -> &'static [Tls13CipherSuite] {
    &SUITES
}

/// The suite with this name.
pub(super) fn find(suite: CipherSuite) -> Option<&'static Tls13CipherSuite> {
    all().iter().find(|known| known.common.suite == suite)
}

/// The suites of these names, the preferred one first.
pub(super) fn in_order<const N: usize>(names: [CipherSuite; N]) -> Vec<SupportedCipherSuite> {
    names.into_iter().filter_map(find).map(SupportedCipherSuite::Tls13).collect()
}

/// Protects no TLS record: their keys are not derived.
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
