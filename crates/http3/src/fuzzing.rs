//! Checks of the decoders that are private to this crate, for the fuzz targets only.

use bytes::Bytes;
use core::convert::Infallible;

use crate::frame::{FrameHeaderDecoder, put_frame, take};
use crate::qpack::{
    DecodeFailure, Decoder, DecoderInstructions, Encoder, FIELD_OVERHEAD,
    check_encoder_instructions, decode_huffman, encode_huffman, huffman_len,
};
use crate::settings::{Settings, put_settings};

/// The headers of the frames in `bytes`, cut into chunks of `chunk` bytes.
fn frames(bytes: &[u8], chunk: usize) -> (Vec<(crate::frame::FrameType, u64)>, bool) {
    let mut decoder = FrameHeaderDecoder::default();
    let (mut frames, mut skip) = (Vec::new(), 0);
    for part in bytes.chunks(chunk.max(1)) {
        let mut input = Bytes::copy_from_slice(part);
        while !input.is_empty() {
            let before = input.len();
            skip -= take(&mut input, skip).len() as u64;
            if skip == 0
                && let Some(header) = decoder.decode(&mut input)
            {
                frames.push((header.frame_type, header.length));
                skip = header.length;
            }
            assert!(input.len() < before || input.is_empty(), "the decoder consumed nothing");
        }
    }
    (frames, decoder.is_partial())
}

/// Checks that decoded frames do not depend on how a stream is split into chunks, and that a written
/// frame is read back.
///
/// # Panics
/// If a check fails.
pub fn check_frames(bytes: &[u8]) {
    let whole = frames(bytes, usize::MAX);
    for chunk in [1, 2, 3, 7] {
        assert_eq!(frames(bytes, chunk), whole);
    }
    let mut written = Vec::new();
    put_frame(&mut written, 0x21, bytes);
    let (again, is_partial) = frames(&written, usize::MAX);
    assert_eq!(again.len(), 1);
    assert!(!is_partial && again.iter().all(|(_, length)| *length == bytes.len() as u64));
}

/// Checks the payload of SETTINGS: the announced size of the largest field section is read back.
///
/// # Panics
/// If the check fails.
pub fn check_settings(payload: &[u8]) {
    let Ok(settings) = Settings::decode(payload) else { return };
    if let Some(size) = settings.max_field_section_size {
        let mut frame = Vec::new();
        put_settings(&mut frame, size, None);
        let mut input = Bytes::from(frame);
        let header = FrameHeaderDecoder::default().decode(&mut input).expect("a whole header");
        assert_eq!(header.length, input.len() as u64);
        let again = Settings::decode(&input).expect("our own SETTINGS");
        assert_eq!(again.max_field_section_size, Some(size));
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>, bool)>;

fn section(bytes: &[u8], limit: u64) -> Result<Fields, DecodeFailure<Infallible>> {
    let mut fields = Vec::new();
    Decoder::default().decode(bytes, limit, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        Ok(())
    })?;
    Ok(fields)
}

/// Checks an encoded field section: the decoded fields stay within the limit, and can be encoded and
/// decoded again.
///
/// # Panics
/// If a check fails.
pub fn check_field_section(bytes: &[u8]) {
    const LIMIT: u64 = 4096;
    let Ok(fields) = section(bytes, LIMIT) else { return };
    let mut encoder = Encoder::new();
    for (name, value, sensitive) in &fields {
        encoder.field(name, value, *sensitive);
    }
    let size = encoder.size();
    assert!(size <= LIMIT);
    let lengths = fields.iter().map(|(name, value, _)| name.len() + value.len());
    assert_eq!(size, lengths.sum::<usize>() as u64 + FIELD_OVERHEAD * fields.len() as u64);
    let encoded = encoder.finish();
    // The limit of a HEADERS frame that `Config::max_field_section_size` documents.
    assert!(encoded.len() as u64 <= size + 2);
    assert_eq!(section(&encoded, size).as_ref(), Ok(&fields));
    if let Some(less) = size.checked_sub(1) {
        assert_eq!(section(&encoded, less), Err(DecodeFailure::TooLarge));
    }
}

/// Checks that an error in the peer's QPACK streams does not depend on how they are split into chunks.
///
/// # Panics
/// If the check fails.
pub fn check_instructions(bytes: &[u8]) {
    let encoder = |chunk| bytes.chunks(chunk).all(|part| check_encoder_instructions(part).is_ok());
    let decoder = |chunk| {
        let mut instructions = DecoderInstructions::default();
        bytes.chunks(chunk).find_map(|part| instructions.check(part).err())
    };
    let whole = (encoder(bytes.len().max(1)), decoder(bytes.len().max(1)));
    for chunk in [1, 2, 5] {
        assert_eq!((encoder(chunk), decoder(chunk)), whole);
    }
}

/// Checks Huffman coded strings: each string has exactly one encoding, so encoding a decoded string gives
/// the original bytes; and every string can be encoded.
///
/// # Panics
/// If a check fails.
pub fn check_huffman(bytes: &[u8]) {
    let mut text = Vec::new();
    if decode_huffman(bytes, usize::MAX, &mut text).is_ok() {
        let mut again = Vec::new();
        encode_huffman(&text, &mut again);
        assert_eq!(again, bytes);
        let mut cut_off = Vec::new();
        if let Some(less) = text.len().checked_sub(1) {
            assert!(decode_huffman(bytes, less, &mut cut_off).is_err());
        }
    }
    let mut encoded = Vec::new();
    encode_huffman(bytes, &mut encoded);
    assert_eq!(encoded.len(), huffman_len(bytes));
    let mut again = Vec::new();
    assert_eq!(decode_huffman(&encoded, bytes.len(), &mut again), Ok(()));
    assert_eq!(again, bytes);
}
