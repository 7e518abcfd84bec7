//! Checks of this crate's private decoders, only for fuzz targets.

use bytes::Bytes;
use core::convert::Infallible;

use crate::frame::{FrameHeaderDecoder, put_frame, take};
use crate::priority::Priority;
use crate::qpack::{
    DecodeFailure, Decoded, Decoder, Encoder, FIELD_OVERHEAD, FieldLines, MAX_PREFIX,
    decode_huffman, encode_huffman, encode_static, huffman_len,
};
use crate::settings::{Settings, put_settings};
use crate::{Config, Role};

/// Returns the headers of the frames in `bytes`, read in chunks of `chunk` bytes.
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

/// Checks that decoded frames do not depend on how a stream is split into chunks, and that a
/// written frame can be read back.
///
/// # Panics
/// Panics if a check fails.
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

/// Checks the payload of SETTINGS: the decoded settings, and the advertised maximum field section
/// size, can be read back.
///
/// # Panics
/// Panics if the check fails.
pub fn check_settings(payload: &[u8]) {
    let Ok(settings) = Settings::decode(payload) else { return };
    assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
    if let Some(size) = settings.max_field_section_size {
        let mut frame = Vec::new();
        let config = Config { max_field_section_size: size, ..Config::default() };
        put_settings(&mut frame, Role::Server, &config, None);
        let mut input = Bytes::from(frame);
        let header = FrameHeaderDecoder::default().decode(&mut input).expect("a complete header");
        assert_eq!(header.length, input.len() as u64);
        let again = Settings::decode(&input).expect("our own SETTINGS");
        assert_eq!(again.max_field_section_size, Some(size));
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>, bool)>;

fn section(bytes: &[u8], limit: u64) -> Result<Fields, DecodeFailure<Infallible>> {
    let mut fields = Vec::new();
    Decoder::default().decode(0, bytes, limit, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        Ok(())
    })?;
    Ok(fields)
}

fn lines(fields: &Fields) -> FieldLines {
    let mut lines = FieldLines::default();
    for (name, value, sensitive) in fields {
        lines.field(name, value, *sensitive);
    }
    lines
}

/// Checks an encoded field section: the decoded fields stay within the limit, and can be encoded
/// and decoded again.
///
/// # Panics
/// Panics if a check fails.
pub fn check_field_section(bytes: &[u8]) {
    const LIMIT: u64 = 4096;
    let Ok(fields) = section(bytes, LIMIT) else { return };
    let lines = lines(&fields);
    let size = lines.size();
    assert!(size <= LIMIT);
    let lengths = fields.iter().map(|(name, value, _)| name.len() + value.len());
    assert_eq!(size, lengths.sum::<usize>() as u64 + FIELD_OVERHEAD * fields.len() as u64);
    let encoded = encode_static(&lines);
    // This is the limit on a HEADERS frame that the documentation of
    // `Config::max_field_section_size` states.
    assert!(encoded.len() as u64 <= size + MAX_PREFIX);
    assert_eq!(section(&encoded, size).as_ref(), Ok(&fields));
    if let Some(less) = size.checked_sub(1) {
        assert_eq!(section(&encoded, less), Err(DecodeFailure::TooLarge));
    }
}

/// Returns an encoder that has inserted entries, one of which is referenced by an unacknowledged
/// section on stream 4.
fn encoder_with_a_table() -> Encoder {
    let mut encoder = Encoder::default();
    encoder.allow(4096, 512, 4);
    let fields = vec![
        (b"user-agent".to_vec(), b"one".to_vec(), false),
        (b"x-name".to_vec(), b"a value".to_vec(), false),
    ];
    for stream in [4, 8] {
        encoder.encode(stream, &lines(&fields), true, &mut Vec::new());
    }
    encoder
}

/// Checks that the effect of the peer's QPACK streams (error, table and response instructions) does
/// not depend on how they are split into chunks.
///
/// # Panics
/// Panics if the check fails.
pub fn check_instructions(bytes: &[u8]) {
    let decoder = |chunk| {
        let mut decoder = Decoder::new(512);
        let error = bytes.chunks(chunk).find_map(|part| decoder.receive(part).err());
        decoder.acknowledge_insertions();
        // Reads every entry, using a section that references all entries that can exist.
        let inserted = decoder.inserted();
        let mut section = vec![u8::try_from(inserted % 32 + 1).expect("at most 32"), 0];
        section.push(0x80);
        let mut fields = Fields::new();
        let decoded = decoder.decode::<Infallible>(4, &section, 1 << 20, |field| {
            fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
            Ok(())
        });
        assert!(!matches!(decoded, Ok(Decoded::Blocked { .. })));
        let size: usize = fields.iter().map(|(name, value, _)| name.len() + value.len() + 32).sum();
        assert!(size <= 512, "an entry is larger than the table");
        (error, inserted, fields, decoded, decoder.feedback().clone())
    };
    let encoder = |chunk| {
        let mut encoder = encoder_with_a_table();
        let error = bytes.chunks(chunk).find_map(|part| encoder.receive(part).err());
        let mut section = Vec::new();
        let fields = vec![(b"x-name".to_vec(), b"a value".to_vec(), false)];
        encoder.encode(12, &lines(&fields), false, &mut section);
        (error, section)
    };
    let whole = (encoder(bytes.len().max(1)), decoder(bytes.len().max(1)));
    for chunk in [1, 2, 5] {
        assert_eq!((encoder(chunk), decoder(chunk)), whole);
    }
}

/// Checks a Priority Field Value: a parsed priority is the same after it is written and parsed
/// again.
///
/// # Panics
/// Panics if the check fails.
pub fn check_priority(field: &[u8]) {
    if let Some(priority) = Priority::parse(field) {
        assert!(priority.urgency <= 7);
        assert_eq!(Priority::parse(priority.to_string().as_bytes()), Some(priority));
    }
}

/// Checks Huffman coding: every string can be encoded and has exactly one encoding, so encoding a
/// decoded string returns the original bytes.
///
/// # Panics
/// Panics if a check fails.
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
