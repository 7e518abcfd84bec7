//! HKDF (RFC 5869) for TLS 1.3 and QUIC, which expand dozens of short values in each handshake. An HMAC of one is made
//! here of two hashes at once: the contexts of aws-lc for messages in pieces have more than a kilobyte, and take as long to
//! prepare and to wipe as the hashes themselves.

use std::sync::OnceLock;

use aws_lc_rs::digest::{self, Algorithm, Digest};
use rustls::crypto::tls13::{self, HkdfExpander, OkmBlock, OutputLengthError};

/// The place of the label in what rustls passes to HKDF-Expand, and of the context (RFC 8446 §7.1).
pub(super) const LABEL_PLACE: usize = 3;
const CONTEXT_PLACE: usize = 5;
/// The labels of the keys of TLS records (RFC 8446 §7.3).
const RECORD_LABELS: [&[u8]; 2] = [b"key", b"iv"];
/// As long as the longest hash.
const ZEROES: [u8; OkmBlock::MAX_LEN] = [0; OkmBlock::MAX_LEN];
/// HKDF-Expand produces at most so many blocks.
const MAX_BLOCKS: usize = 255;
/// The longest block of a hash function, that of SHA-384.
const MAX_BLOCK_LEN: usize = 128;
/// What is hashed at once: a block, and what TLS expands with its labels.
const SHORT: usize = MAX_BLOCK_LEN + 192;

/// The hash of `block` and the parts of `message`: at once if they are short.
fn hash<'a>(
    algorithm: &'static Algorithm,
    block: &[u8],
    message: impl Iterator<Item = &'a [u8]> + Clone,
) -> Digest {
    let mut room = [0; SHORT];
    if let Some(joined) = join(&mut room, block, message.clone()) {
        return digest::digest(algorithm, joined);
    }
    let mut context = digest::Context::new(algorithm);
    context.update(block);
    message.for_each(|part| context.update(part));
    context.finish()
}

/// `None` if there is no room.
fn join<'a, 'b>(
    room: &'a mut [u8],
    block: &[u8],
    message: impl Iterator<Item = &'b [u8]>,
) -> Option<&'a [u8]> {
    let mut end = block.len();
    room.get_mut(..end)?.copy_from_slice(block);
    for part in message {
        let start = end;
        end = start.checked_add(part.len())?;
        room.get_mut(start..end)?.copy_from_slice(part);
    }
    room.get(..end)
}

/// HMAC (RFC 2104 §2).
fn hmac<'a>(
    algorithm: &'static Algorithm,
    key: &[u8],
    message: impl Iterator<Item = &'a [u8]> + Clone,
) -> Digest {
    let block_len = algorithm.block_len().min(MAX_BLOCK_LEN);
    if key.len() > block_len {
        return hmac(algorithm, digest::digest(algorithm, key).as_ref(), message);
    }
    let mut block = [0x36; MAX_BLOCK_LEN];
    let (block, _) = block.split_at_mut(block_len);
    block.iter_mut().zip(key).for_each(|(byte, of_key)| *byte ^= of_key);
    let inner = hash(algorithm, block, message);
    block.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
    hash(algorithm, block, core::iter::once(inner.as_ref()))
}

/// A secret from which values are expanded (RFC 5869 §2.3).
pub(super) struct Expander {
    algorithm: &'static Algorithm,
    secret: OkmBlock,
}

impl Expander {
    pub(super) fn new(algorithm: &'static Algorithm, secret: &[u8]) -> Self {
        Self { algorithm, secret: OkmBlock::new(secret) }
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1). `None` if so many bytes cannot be expanded.
    pub(super) fn expand_label(&self, label: &[u8], output: &mut [u8]) -> Option<()> {
        const PREFIX: &[u8] = b"tls13 ";
        let length = u16::try_from(output.len()).ok()?.to_be_bytes();
        let label_len = u8::try_from(PREFIX.len().checked_add(label.len())?).ok()?;
        self.expand(&[&length, &[label_len], PREFIX, label, &[0]], output)
    }

    /// HKDF-Expand (RFC 5869 §2.3).
    fn expand(&self, info: &[&[u8]], output: &mut [u8]) -> Option<()> {
        let block_len = self.algorithm.output_len();
        if output.len().div_ceil(block_len) > MAX_BLOCKS {
            return None;
        }
        let mut before: Option<Digest> = None;
        for (number, block) in (1..=u8::MAX).zip(output.chunks_mut(block_len)) {
            let last = before.as_ref().map_or(&[][..], AsRef::as_ref);
            let value = self.block(last, info, number);
            block.copy_from_slice(value.as_ref().get(..block.len())?);
            before = Some(value);
        }
        Some(())
    }

    fn block(&self, before: &[u8], info: &[&[u8]], number: u8) -> Digest {
        let number = [number];
        let parts = core::iter::once(before).chain(info.iter().copied()).chain([&number[..]]);
        hmac(self.algorithm, self.secret.as_ref(), parts)
    }
}

/// QUIC protects packets, not TLS records (RFC 9001 §4). rustls asks for the keys of records none the less; without a
/// context, which sets them apart from what an application exports with these labels.
fn is_for_records(info: &[&[u8]]) -> bool {
    let context = info.get(CONTEXT_PLACE).copied().unwrap_or_default();
    info.get(LABEL_PLACE).is_some_and(|label| RECORD_LABELS.contains(label)) && context.is_empty()
}

impl HkdfExpander for Expander {
    /// The keys of TLS records are left as they are: their cipher refuses to be used (see `suites.rs`).
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        if is_for_records(info) {
            return Ok(());
        }
        self.expand(info, output).ok_or(OutputLengthError)
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        OkmBlock::new(self.block(&[], info, 1).as_ref())
    }

    fn hash_len(&self) -> usize {
        self.algorithm.output_len()
    }
}

/// The HKDF of a cipher suite in QUIC.
pub(super) struct Hkdf {
    algorithm: &'static Algorithm,
    /// The Early Secret without a pre-shared key, which is always the same (RFC 8446 §7.1).
    early: OnceLock<OkmBlock>,
}

impl Hkdf {
    pub(super) const fn new(algorithm: &'static Algorithm) -> Self {
        Self { algorithm, early: OnceLock::new() }
    }

    fn zeroes(&self) -> &'static [u8] {
        ZEROES.get(..self.algorithm.output_len()).unwrap_or(&ZEROES)
    }

    /// HKDF-Extract (RFC 5869 §2.2).
    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> Expander {
        let salt = salt.unwrap_or(self.zeroes());
        let secret = hmac(self.algorithm, salt, core::iter::once(secret));
        Expander::new(self.algorithm, secret.as_ref())
    }
}

impl tls13::Hkdf for Hkdf {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        if salt.is_some() {
            return Box::new(self.extract(salt, self.zeroes()));
        }
        let secret = self.early.get_or_init(|| self.extract(None, self.zeroes()).secret);
        Box::new(Expander { algorithm: self.algorithm, secret: secret.clone() })
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        Box::new(self.extract(salt, secret))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Expander { algorithm: self.algorithm, secret: okm.clone() })
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> rustls::crypto::hmac::Tag {
        let tag = hmac(self.algorithm, key.as_ref(), core::iter::once(message));
        rustls::crypto::hmac::Tag::new(tag.as_ref())
    }
}

#[cfg(test)]
#[path = "hkdf_tests.rs"]
mod tests;
