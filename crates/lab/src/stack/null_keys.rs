//! Packet protection that provides no confidentiality but detects every change.

use clearway_transport::KeySchedule;
use rustls::Error;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Tag};

/// The tag length of every TLS 1.3 AEAD, so that packets have realistic sizes.
const TAG_LEN: usize = 16;
/// The sample length of every header protection algorithm (RFC 9001 §5.4.2).
const SAMPLE_LEN: usize = 16;
/// 2^64 divided by the golden ratio: odd, with well distributed bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The limits of AEAD_AES_128_GCM (RFC 9001 §6.6), so that keys are updated as often as with real TLS.
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// The keys of one encryption level, and of one key phase within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NullKeys {
    /// A value that differs for every level and key phase, as real keys do: a packet can be
    /// decrypted only with the matching keys.
    pub(super) level: u64,
}

impl NullKeys {
    pub(super) fn keys(self) -> Keys {
        Keys { local: self.directional(), remote: self.directional() }
    }

    fn directional(self) -> DirectionalKeys {
        DirectionalKeys { header: Box::new(NullHeaderKey), packet: Box::new(self) }
    }

    /// Computes the tag, which covers the packet number and every byte of the header and payload.
    fn tag(self, packet_number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let start = self.level ^ packet_number.wrapping_mul(MULTIPLIER);
        let low = mix(mix(start, header), payload);
        let high = fold(low, start);
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// Folds `bytes` into `state`. Whole blocks are summed by columns of words, and the running sums
/// are summed too: the sums alone would not detect two changes that cancel each other out.
fn mix(state: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let (mut sums, mut sums_of_sums) = ([0_u64; 4], [0_u64; 4]);
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for ((sum, sum_of_sums), word) in sums.iter_mut().zip(&mut sums_of_sums).zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            *sum_of_sums = sum_of_sums.wrapping_add(*sum);
        }
    }
    let folded = fold(state, bytes.len() as u64);
    let folded = if blocks.is_empty() {
        folded
    } else {
        sums.into_iter().chain(sums_of_sums).fold(folded, fold)
    };
    let (words, rest) = rest.as_chunks::<8>();
    let folded = words.iter().fold(folded, |folded, word| fold(folded, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return folded;
    }
    fold(folded, rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

/// Folds `word` into `state`. A change of one bit of the word changes the product, and the rotation
/// moves its high bits down.
fn fold(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(MULTIPLIER).rotate_left(29)
}

impl PacketKey for NullKeys {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        Ok(Tag::from(&self.tag(packet_number, header, payload)[..]))
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let (content, tag) = payload.split_last_chunk().ok_or(Error::DecryptError)?;
        let expected: [u8; TAG_LEN] = self.tag(packet_number, header, content);
        if *tag == expected { Ok(content) } else { Err(Error::DecryptError) }
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

impl KeySchedule for NullKeys {
    fn next_packet_keys(&mut self) -> PacketKeySet {
        self.level = self.level.wrapping_add(1);
        PacketKeySet { local: Box::new(*self), remote: Box::new(*self) }
    }
}

/// Header protection that leaves headers unchanged.
struct NullHeaderKey;

impl HeaderProtectionKey for NullHeaderKey {
    fn encrypt_in_place(
        &self,
        _sample: &[u8],
        _first: &mut u8,
        _packet_number: &mut [u8],
    ) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(
        &self,
        _sample: &[u8],
        _first: &mut u8,
        _packet_number: &mut [u8],
    ) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        SAMPLE_LEN
    }
}

#[cfg(test)]
#[path = "null_keys_tests.rs"]
mod tests;
