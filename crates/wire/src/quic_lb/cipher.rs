//! The encryption of server ID and nonce (§5.4.1, §5.4.2).

use core::fmt;

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use super::MAX_BLOCK_LEN;

/// What one pass of AES takes.
const BLOCK: usize = 16;
/// The longer half of the longest block.
const MAX_HALF: usize = MAX_BLOCK_LEN.div_ceil(2);

/// A half of a block. Of a block with an odd number of octets the one in the middle belongs to both: the left has its upper
/// four bits, the right the lower ones.
type Half = [u8; MAX_HALF];

/// Encrypts blocks of one length.
#[derive(Clone)]
pub(super) struct Cipher {
    aes: Aes128,
    server_id_len: usize,
    block_len: usize,
}

impl Cipher {
    pub(super) fn new(key: &[u8; BLOCK], server_id_len: usize, block_len: usize) -> Self {
        Self { aes: Aes128::new(key.into()), server_id_len, block_len }
    }

    fn half_len(&self) -> usize {
        self.block_len.div_ceil(2)
    }

    fn is_odd(&self) -> bool {
        self.block_len & 1 == 1
    }

    /// Encrypts a block of the cipher's length.
    pub(super) fn encrypt(&self, block: &mut [u8]) {
        if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *block) {
            self.aes.encrypt_block(whole.into());
            return;
        }
        let (mut left, mut right) = self.split(block);
        self.mix_into_right(&mut right, &left, 1);
        self.mix_into_left(&mut left, &right, 2);
        self.mix_into_right(&mut right, &left, 3);
        self.mix_into_left(&mut left, &right, 4);
        self.join(&left, &right, block);
    }

    /// A block with the server ID in its place. The nonce is decrypted only as far as that takes.
    pub(super) fn decrypt_server_id(&self, block: &[u8]) -> [u8; MAX_BLOCK_LEN] {
        let mut plain = [0; MAX_BLOCK_LEN];
        if let Ok(whole) = <&[u8; BLOCK]>::try_from(block) {
            let mut whole = *whole;
            self.aes.decrypt_block((&mut whole).into());
            plain.iter_mut().zip(whole).for_each(|(plain, octet)| *plain = octet);
            return plain;
        }
        let (mut left, mut right) = self.split(block);
        self.mix_into_left(&mut left, &right, 4);
        self.mix_into_right(&mut right, &left, 3);
        self.mix_into_left(&mut left, &right, 2);
        let whole_octets = self.block_len / 2;
        if self.server_id_len > whole_octets {
            self.mix_into_right(&mut right, &left, 1);
        }
        if let Some(plain) = plain.get_mut(..self.block_len) {
            self.join(&left, &right, plain);
        }
        plain
    }

    /// The halves, with zeros after them.
    fn split(&self, block: &[u8]) -> (Half, Half) {
        let (mut left, mut right) = (Half::default(), Half::default());
        let half_len = self.half_len();
        let second = block.get(block.len().saturating_sub(half_len)..).unwrap_or_default();
        left.iter_mut().zip(block.iter().take(half_len)).for_each(|(half, octet)| *half = *octet);
        right.iter_mut().zip(second).for_each(|(half, octet)| *half = *octet);
        self.clear_last_bits(&mut left);
        self.clear_first_bits(&mut right);
        (left, right)
    }

    fn join(&self, left: &Half, right: &Half, block: &mut [u8]) {
        let half_len = self.half_len();
        let begin = block.len().saturating_sub(half_len);
        block.fill(0);
        block.iter_mut().zip(left.iter().take(half_len)).for_each(|(octet, half)| *octet |= half);
        let second = block.get_mut(begin..).unwrap_or_default();
        second.iter_mut().zip(right).for_each(|(octet, half)| *octet |= half);
    }

    fn mix_into_left(&self, left: &mut Half, right: &Half, pass: u8) {
        self.mix(left, right, pass);
        self.clear_last_bits(left);
    }

    fn mix_into_right(&self, right: &mut Half, left: &Half, pass: u8) {
        self.mix(right, left, pass);
        self.clear_first_bits(right);
    }

    /// Adds the encryption of `source` to `target`.
    fn mix(&self, target: &mut Half, source: &Half, pass: u8) {
        let mut block = [0; BLOCK];
        let half_len = self.half_len();
        block.iter_mut().zip(source.iter().take(half_len)).for_each(|(octet, half)| *octet = *half);
        let [.., length, number] = &mut block;
        (*length, *number) = (self.block_len as u8, pass);
        self.aes.encrypt_block((&mut block).into());
        target.iter_mut().zip(block).take(half_len).for_each(|(half, octet)| *half ^= octet);
    }

    fn clear_last_bits(&self, left: &mut Half) {
        let last = self.half_len().saturating_sub(1);
        if let Some(octet) = left.get_mut(last).filter(|_| self.is_odd()) {
            *octet &= 0xf0;
        }
    }

    fn clear_first_bits(&self, right: &mut Half) {
        if self.is_odd() {
            let [first, ..] = right;
            *first &= 0x0f;
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}
