//! The Huffman code for string literals (RFC 7541 Appendix B).
//!
//! The code is canonical: codes of the same length are consecutive numbers in the order of their
//! symbols, and shorter codes come first. So the lengths determine the code, and all tables here
//! are computed from them at compile time.

/// The code length of each byte in bits, followed by the code length of EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The symbol that is used only as padding.
const EOS: u16 = 256;
const LONGEST: usize = 30;

/// The code of each symbol, in the low bits.
const CODES: [u32; 257] = Tables::NEW.codes;
/// The symbols in the order of their codes.
const SYMBOLS: [u16; 257] = Tables::NEW.symbols;
/// For each code length, the end of the range of codes, left-aligned in 32 bits.
const ENDS: [u64; LONGEST + 1] = Tables::NEW.ends;
/// For each code length, the number to subtract from a code to get its index in [`SYMBOLS`].
const BASES: [u32; LONGEST + 1] = Tables::NEW.bases;
/// For each value of the next 8 bits of the input, the symbol and the code length if the code has
/// at most 8 bits; otherwise the length is 0.
const SHORT: [(u8, u8); 256] = Tables::NEW.short;

struct Tables {
    codes: [u32; 257],
    symbols: [u16; 257],
    ends: [u64; LONGEST + 1],
    bases: [u32; LONGEST + 1],
    short: [(u8, u8); 256],
}

impl Tables {
    const NEW: Self = Self::new();

    /// Computes the tables at compile time, where a mistake is a compile error.
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "compile time only"
    )]
    const fn new() -> Self {
        let mut tables = Self {
            codes: [0; 257],
            symbols: [0; 257],
            ends: [0; LONGEST + 1],
            bases: [0; LONGEST + 1],
            short: [(0, 0); 256],
        };
        let (mut code, mut place, mut length) = (0u32, 0, 1);
        while length <= LONGEST {
            code <<= 1;
            tables.bases[length] = code.wrapping_sub(place as u32);
            let mut symbol = 0;
            while symbol < 257 {
                if LENGTHS[symbol] as usize == length {
                    tables.codes[symbol] = code;
                    tables.symbols[place] = symbol as u16;
                    if length <= 8 {
                        let mut slot = (code as usize) << (8 - length);
                        let end = (code as usize + 1) << (8 - length);
                        while slot < end {
                            tables.short[slot] = (symbol as u8, length as u8);
                            slot += 1;
                        }
                    }
                    code += 1;
                    place += 1;
                }
                symbol += 1;
            }
            tables.ends[length] = (code as u64) << (32 - length);
            length += 1;
        }
        tables
    }
}

/// The reason why a string cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HuffmanError {
    /// The string contains EOS, or its padding is not the start of EOS (RFC 7541 §5.2).
    Invalid,
    /// The string is longer than the limit.
    TooLarge,
}

/// Returns the encoded length of `text` in bytes.
pub(crate) fn encoded_len(text: &[u8]) -> usize {
    let bits = text.iter().fold(0usize, |bits, &byte| {
        bits.saturating_add(LENGTHS.get(usize::from(byte)).copied().unwrap_or(0).into())
    });
    bits.div_ceil(8)
}

/// Appends the encoding of `text`.
pub(crate) fn encode(text: &[u8], output: &mut Vec<u8>) {
    // The low `pending` bits of `bits` have not been written yet; there are never more than 7
    // before a symbol.
    let (mut bits, mut pending) = (0u64, 0u32);
    for &byte in text {
        let symbol = usize::from(byte);
        let length = LENGTHS.get(symbol).copied().unwrap_or(0).into();
        let code = CODES.get(symbol).copied().unwrap_or(0);
        bits = bits.wrapping_shl(length) | u64::from(code);
        pending = pending.saturating_add(length);
        while let Some(rest) = pending.checked_sub(8) {
            output.push(bits.wrapping_shr(rest) as u8);
            pending = rest;
        }
    }
    if pending > 0 {
        // The end is padded with ones, which are the start of EOS.
        let padding = 8u32.saturating_sub(pending);
        let ones = 0xffu64.wrapping_shr(pending);
        output.push((bits.wrapping_shl(padding) | ones) as u8);
    }
}

/// The bits of a string that have not been decoded yet.
struct Bits<'a> {
    rest: &'a [u8],
    /// The highest bits are the next `available` bits of the input, inverted; all others are zero.
    /// So bits after the end look like ones, as in the padding (the start of EOS), which no other
    /// symbol consists of.
    inverted: u64,
    available: u32,
}

impl Bits<'_> {
    /// Loads enough bits for the next code, or all remaining bits.
    #[inline]
    fn fill(&mut self) {
        if self.available >= LONGEST as u32 {
            return;
        }
        while self.available <= 56
            && let Some((&byte, rest)) = self.rest.split_first()
        {
            self.rest = rest;
            self.inverted |= u64::from(!byte).wrapping_shl(56u32.saturating_sub(self.available));
            self.available = self.available.saturating_add(8);
        }
    }
}

/// Decodes `input` and appends the result to `output`, at most `limit` bytes.
pub(crate) fn decode(input: &[u8], limit: usize, output: &mut Vec<u8>) -> Result<(), HuffmanError> {
    let mut bits = Bits { rest: input, inverted: 0, available: 0 };
    let mut left = limit;
    // The shortest codes have five bits.
    output.reserve(input.len().saturating_mul(2).min(limit));
    loop {
        bits.fill();
        // At most padding is left, since no code of less than 8 bits consists only of ones.
        if bits.available < 8 && bits.inverted == 0 {
            return Ok(());
        }
        let (symbol, length) = symbol_at(!bits.inverted);
        if length > bits.available {
            return Err(HuffmanError::Invalid);
        }
        let byte = u8::try_from(symbol).map_err(|_| HuffmanError::Invalid)?;
        left = left.checked_sub(1).ok_or(HuffmanError::TooLarge)?;
        output.push(byte);
        bits.inverted = bits.inverted.wrapping_shl(length);
        bits.available = bits.available.wrapping_sub(length);
    }
}

/// Returns the symbol whose code is at the highest bits of `window`, and its length.
#[inline]
fn symbol_at(window: u64) -> (u16, u32) {
    if let Some(&(symbol, length)) = SHORT.get((window >> 56) as usize)
        && length > 0
    {
        return (symbol.into(), length.into());
    }
    long_symbol_at(window >> 32)
}

/// Returns the symbol whose code of more than 8 bits is at the highest bits of the 32-bit `window`,
/// and its length.
fn long_symbol_at(window: u64) -> (u16, u32) {
    for (length, (&end, &base)) in (0u32..).zip(ENDS.iter().zip(&BASES)).skip(9) {
        if window < end {
            let code = window.wrapping_shr(32u32.saturating_sub(length)) as u32;
            let place = code.wrapping_sub(base) as usize;
            return (SYMBOLS.get(place).copied().unwrap_or(EOS), length);
        }
    }
    (EOS, LONGEST as u32)
}

#[cfg(test)]
#[path = "huffman_tests.rs"]
mod tests;
