//! QPACK field compression (RFC 9204) with the static table and Huffman coding. Both directions
//! keep the dynamic table's capacity at zero, its default, so no field section depends on another
//! stream.

mod decoder;
mod encoder;
mod huffman;
mod instructions;
mod integer;
mod static_table;

pub(crate) use decoder::{DecodeFailure, Decoder, Field};
pub(crate) use encoder::Encoder;
#[cfg(fuzzing)]
pub(crate) use huffman::{
    decode as decode_huffman, encode as encode_huffman, encoded_len as huffman_len,
};
pub(crate) use instructions::{DecoderInstructions, check_encoder_instructions};

/// How many bytes every field counts beyond its name and value (RFC 9114 §4.2.2, RFC 9204 §3.2.1).
pub(crate) const FIELD_OVERHEAD: u64 = 32;

#[cfg(test)]
#[path = "qpack_tests.rs"]
mod tests;
