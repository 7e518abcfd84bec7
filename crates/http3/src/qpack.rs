//! QPACK field compression (RFC 9204): the static table, Huffman coding, and the dynamic table in
//! both directions.
//!
//! The [`Decoder`] maintains the table that the peer's encoder fills, within the limits that this
//! endpoint has advertised. The [`Encoder`] maintains the table that sent field sections reference,
//! within the limits of the peer's settings and the local configuration.

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

/// Number of bytes that each field counts in addition to its name and value (RFC 9114 §4.2.2, RFC
/// 9204 §3.2.1).
pub(crate) const FIELD_OVERHEAD: u64 = 32;

/// Maximum length of the prefix of an encoded field section (RFC 9204 §4.5.1): two integers of up
/// to 62 bits.
pub(crate) const MAX_PREFIX: u64 = 20;

/// Encodes `fields` without references to the dynamic table, so that any decoder can read the
/// section at any time.
pub(crate) fn encode_static(fields: &FieldLines) -> Vec<u8> {
    let mut section = Vec::new();
    Encoder::default().encode(0, fields, false, &mut section);
    section
}

#[cfg(test)]
#[path = "qpack_tests.rs"]
mod tests;
