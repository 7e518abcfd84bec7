//! Encryption of the server ID and the nonce (§5.4.1, §5.4.2).

use core::fmt;

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

/// The block size of AES in octets.
const BLOCK: usize = 16;

/// Half of a block: the most significant octets of the number contain the half, and zeros follow.
/// If a block has an odd number of octets, the middle octet belongs to both halves: the left half
/// contains its upper four bits, and the right half contains the lower four.
type Half = u128;

/// Encrypts and decrypts blocks of one length.
#[derive(Clone)]
pub(super) struct Cipher {
    aes: Aes128,
    server_id_len: usize,
    block_len: usize,
    /// Masks of the bits that each half contains.
    left_bits: Half,
    right_bits: Half,
}

impl Cipher {
    pub(super) fn new(key: &[u8; BLOCK], server_id_len: usize, block_len: usize) -> Self {
        let half_len = block_len.div_ceil(2);
        let octets = Half::MAX.unbounded_shl(bits(BLOCK.saturating_sub(half_len)));
        // The lower four bits of the left half's last octet, and the upper four bits of the right
        // half's first octet.
        let (last, first) = match block_len & 1 {
            0 => (0, 0),
            _ => (0xf_u128.unbounded_shl(bits(BLOCK.saturating_sub(half_len))), 0xf << 124),
        };
        Self {
            aes: Aes128::new(key.into()),
            server_id_len,
            block_len,
            left_bits: octets & !last,
            right_bits: octets & !first,
        }
    }

    fn half_len(&self) -> usize {
        self.block_len.div_ceil(2)
    }

    /// Encrypts a block of the cipher's length.
    pub(super) fn encrypt(&self, block: &mut [u8]) {
        if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *block) {
            self.aes.encrypt_block(whole.into());
            return;
        }
        let (mut left, mut right) = self.split(block);
        right ^= self.pass(left, 1) & self.right_bits;
        left ^= self.pass(right, 2) & self.left_bits;
        right ^= self.pass(left, 3) & self.right_bits;
        left ^= self.pass(right, 4) & self.left_bits;
        self.join(left, right, block);
    }

    /// Returns the beginning of a block, with the decrypted server ID. The nonce is decrypted only
    /// as far as necessary.
    pub(super) fn decrypt_server_id(&self, block: &[u8]) -> [u8; BLOCK] {
        if let Ok(whole) = <&[u8; BLOCK]>::try_from(block) {
            let mut whole = *whole;
            self.aes.decrypt_block((&mut whole).into());
            return whole;
        }
        let (mut left, mut right) = self.split(block);
        left ^= self.pass(right, 4) & self.left_bits;
        right ^= self.pass(left, 3) & self.right_bits;
        left ^= self.pass(right, 2) & self.left_bits;
        let whole_octets = self.block_len / 2;
        if self.server_id_len > whole_octets {
            right ^= self.pass(left, 1) & self.right_bits;
        }
        (left | right.unbounded_shr(bits(whole_octets))).to_be_bytes()
    }

    fn split(&self, block: &[u8]) -> (Half, Half) {
        let half_len = self.half_len();
        let half = |octets: Option<&[u8]>| {
            let mut half = [0; BLOCK];
            half.iter_mut().zip(octets.unwrap_or_default()).for_each(|(to, octet)| *to = *octet);
            Half::from_be_bytes(half)
        };
        let left = half(block.get(..half_len));
        let right = half(block.get(block.len().saturating_sub(half_len)..));
        (left & self.left_bits, right & self.right_bits)
    }

    fn join(&self, left: Half, right: Half, block: &mut [u8]) {
        let half_len = self.half_len();
        let (left, right) = (left.to_be_bytes(), right.to_be_bytes());
        block.fill(0);
        block.iter_mut().zip(left.iter().take(half_len)).for_each(|(octet, half)| *octet |= half);
        let second = block.iter_mut().rev().zip(right.iter().take(half_len).rev());
        second.for_each(|(octet, half)| *octet |= half);
    }

    /// Returns the result of encrypting `source` in the pass with this number.
    fn pass(&self, source: Half, number: u8) -> Half {
        // The last two octets of the AES block, which are not part of either half.
        let end = u16::from_be_bytes([self.block_len as u8, number]);
        let mut block = (source | Half::from(end)).to_be_bytes();
        self.aes.encrypt_block((&mut block).into());
        Half::from_be_bytes(block)
    }
}

/// Returns the number of bits in this many octets.
fn bits(octets: usize) -> u32 {
    u32::try_from(octets.saturating_mul(8)).unwrap_or(u32::MAX)
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}
