//! String literals (RFC 9204 §4.1.2).

use clearway_wire::Reader;

use super::integer::IntegerError;
use super::{huffman, integer};

/// A string literal as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Literal<'a> {
    pub(crate) is_huffman: bool,
    pub(crate) bytes: &'a [u8],
}

/// The reason why a string literal cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LiteralError {
    Integer(IntegerError),
    /// The input ends in the middle of the string, which has this length in bytes.
    Truncated(u64),
}

/// Reads a string literal. Its length begins in the low `prefix` bits of `first`, which was already
/// read; the H bit is above these bits.
pub(crate) fn read<'a>(
    first: u8,
    prefix: u32,
    reader: &mut Reader<'a>,
) -> Result<Literal<'a>, LiteralError> {
    let length = integer::decode(first, prefix, reader).map_err(LiteralError::Integer)?;
    let bytes = usize::try_from(length).ok().and_then(|length| reader.bytes(length, "string").ok());
    let is_huffman = first & 1u8.wrapping_shl(prefix) != 0;
    bytes.map(|bytes| Literal { is_huffman, bytes }).ok_or(LiteralError::Truncated(length))
}

/// Appends a string literal: the H bit and the length in `prefix` bits, below `flags`.
pub(crate) fn write(output: &mut Vec<u8>, flags: u8, prefix: u32, text: &[u8]) {
    let huffman_length = huffman::encoded_len(text);
    if huffman_length < text.len() {
        let huffman = 1u8.wrapping_shl(prefix);
        integer::encode(output, flags | huffman, prefix, huffman_length as u64);
        huffman::encode(text, output);
    } else {
        integer::encode(output, flags, prefix, text.len() as u64);
        output.extend_from_slice(text);
    }
}
