//! QPACK field compression (RFC 9204): the static table, Huffman coding, and the dynamic table in both directions.
//!
//! The [`Decoder`] keeps the table that the peer's encoder fills, within what we announced, and the [`Encoder`] the table
//! that our field sections refer to, within what the peer announced and our own configuration permits.

mod decoder;
mod decoder_stream;
mod encoder;
mod encoder_stream;
mod error;
mod huffman;
mod integer;
mod lines;
mod static_table;
mod table;
mod text;

pub(crate) use decoder::{DecodeFailure, Decoded, Decoder};
pub(crate) use encoder::Encoder;
pub use error::QpackError;
#[cfg(fuzzing)]
pub(crate) use huffman::{
    decode as decode_huffman, encode as encode_huffman, encoded_len as huffman_len,
};
pub(crate) use lines::{Field, FieldLines};

/// How many bytes every field counts beyond its name and value (RFC 9114 §4.2.2, RFC 9204 §3.2.1).
pub(crate) const FIELD_OVERHEAD: u64 = 32;

/// The longest prefix of an encoded field section (RFC 9204 §4.5.1): two integers of up to 62 bits.
pub(crate) const MAX_PREFIX: u64 = 20;

/// The section of `fields` without references to the dynamic table, which any decoder can read at any time.
pub(crate) fn encode_static(fields: &FieldLines) -> Vec<u8> {
    let mut section = Vec::new();
    Encoder::default().encode(0, fields, false, &mut section);
    section
}

#[cfg(test)]
#[path = "qpack_tests.rs"]
mod tests;
