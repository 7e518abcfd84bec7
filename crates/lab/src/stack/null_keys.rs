//! Packet protection that hides nothing, and notices every change.

use clearway_transport::KeySchedule;
use rustls::Error;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Tag};

/// As many bytes as the tag of every AEAD of TLS 1.3 has, so that packets have their real size.
const TAG_LEN: usize = 16;
/// As long as the sample of every header protection (RFC 9001 §5.4.2).
const SAMPLE_LEN: usize = 16;
/// Odd, with bits all over: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The limits of AEAD_AES_128_GCM (RFC 9001 §6.6), so that keys are updated when they would be.
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// The keys of one level, and of one key phase within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NullKeys {
    /// Different for every level and phase, as real keys are: a packet opens only with its own.
    pub(super) level: u64,
}

impl NullKeys {
    pub(super) fn keys(self) -> Keys {
        Keys { local: self.directional(), remote: self.directional() }
    }

    fn directional(self) -> DirectionalKeys {
        DirectionalKeys { header: Box::new(NullHeaderKey), packet: Box::new(self) }
    }

    /// Covers every byte of header and payload, and the packet number.
    fn tag(self, packet_number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let start = self.level ^ packet_number.wrapping_mul(MULTIPLIER);
        let low = mix(mix(start, header), payload);
        let high = mix(low, &start.to_le_bytes());
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// Folds `bytes` into `state`, four pairs of words at a time so that the processor can overlap them.
fn mix(state: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<64>();
    let [mut a, mut b, mut c, mut d] =
        [state, !state, state.rotate_left(17), state.rotate_left(41)];
    for block in blocks {
        a = fold_pair(a, &block[..8], &block[8..16]);
        b = fold_pair(b, &block[16..24], &block[24..32]);
        c = fold_pair(c, &block[32..40], &block[40..48]);
        d = fold_pair(d, &block[48..56], &block[56..]);
    }
    let mut lanes = [a, b, c, d];
    for word in rest.chunks(8) {
        lanes[0] = fold(lanes[0], word);
    }
    let length = bytes.len() as u64;
    lanes.into_iter().fold(length, |sum, lane| fold(sum, &lane.to_le_bytes()))
}

/// The product of two words depends on every bit of both, but for the one value of the second in 2^64
/// that makes it zero.
fn fold_pair(lane: u64, first: &[u8], second: &[u8]) -> u64 {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let product = u128::from(lane ^ word(first)) * u128::from(word(second) ^ MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

fn fold(lane: u64, word: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..word.len()].copy_from_slice(word);
    // A change of one bit of the word changes the product, and the rotation brings its high bits down.
    (lane ^ u64::from_le_bytes(padded)).wrapping_mul(MULTIPLIER).rotate_left(29)
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

/// Leaves headers as they are.
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
mod tests;
