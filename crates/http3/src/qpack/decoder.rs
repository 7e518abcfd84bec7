use clearway_wire::Reader;

use super::huffman::HuffmanError;
use super::integer::IntegerError;
use super::{FIELD_OVERHEAD, huffman, integer, static_table};

/// One decoded field line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether the field must never be indexed (RFC 9204 §7.1.3).
    pub(crate) sensitive: bool,
}

/// The reason that a field section was not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeFailure<E> {
    /// It is not a field section that a peer may send us: QPACK_DECOMPRESSION_FAILED.
    Invalid(&'static str),
    /// The fields are larger than the limit.
    TooLarge,
    /// The receiver of the fields rejected one.
    Refused(E),
}

impl<E> From<IntegerError> for DecodeFailure<E> {
    fn from(error: IntegerError) -> Self {
        Self::Invalid(match error {
            IntegerError::Truncated => "a field section ends inside an integer",
            IntegerError::TooLarge => "a field section has an integer of more than 62 bits",
        })
    }
}

/// Decodes field sections (RFC 9204 §4.5). Reused for several sections, to keep its buffers.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Where a string of the field line came from.
enum Text<'a> {
    Input(&'a [u8]),
    Buffer,
}

impl<'a> Text<'a> {
    fn bytes<'b>(&'b self, buffer: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Input(bytes) => bytes,
            Self::Buffer => buffer,
        }
    }
}

impl Decoder {
    /// Gives the fields of `section` to `receive`, in order, as long as their size (name, value and
    /// 32 for each) stays within `limit` bytes.
    pub(crate) fn decode<E>(
        &mut self,
        section: &[u8],
        limit: u64,
        mut receive: impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<(), DecodeFailure<E>> {
        let mut reader = Reader::new(section);
        decode_prefix(&mut reader)?;
        let mut left = limit;
        while !reader.is_empty() {
            left = left.checked_sub(FIELD_OVERHEAD).ok_or(DecodeFailure::TooLarge)?;
            let size = self.field_line(&mut reader, left, &mut receive)?;
            left = left.checked_sub(size).ok_or(DecodeFailure::TooLarge)?;
        }
        Ok(())
    }

    /// Decodes one field line and returns the size of its name and value, which is at most `left`.
    fn field_line<E>(
        &mut self,
        reader: &mut Reader<'_>,
        left: u64,
        receive: &mut impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<u64, DecodeFailure<E>> {
        let first = next(reader)?;
        let (name, value, sensitive) = if first & 0x80 != 0 {
            // Indexed Field Line (§4.5.2): 1 T Index(6+).
            let (name, value) = static_entry(first & 0x40 != 0, first, 6, reader)?;
            (Text::Input(name), Text::Input(value), false)
        } else if first & 0x40 != 0 {
            // Literal Field Line with Name Reference (§4.5.4): 01 N T Index(4+).
            let (name, _) = static_entry(first & 0x10 != 0, first, 4, reader)?;
            let left = left.checked_sub(name.len() as u64).ok_or(DecodeFailure::TooLarge)?;
            let value_first = next(reader)?;
            let value = string(value_first, 7, reader, left, &mut self.value)?;
            (Text::Input(name), value, first & 0x20 != 0)
        } else if first & 0x20 != 0 {
            // Literal Field Line with Literal Name (§4.5.6): 001 N H Length(3+).
            let name = string(first, 3, reader, left, &mut self.name)?;
            let length = name.bytes(&self.name).len() as u64;
            let left = left.checked_sub(length).ok_or(DecodeFailure::TooLarge)?;
            let value_first = next(reader)?;
            let value = string(value_first, 7, reader, left, &mut self.value)?;
            (name, value, first & 0x10 != 0)
        } else {
            // Post-Base references (§4.5.3, §4.5.5) are always to the dynamic table.
            return Err(DecodeFailure::Invalid("a field line refers to the dynamic table"));
        };
        let (name, value) = (name.bytes(&self.name), value.bytes(&self.value));
        let size = (name.len() as u64).saturating_add(value.len() as u64);
        if size > left {
            return Err(DecodeFailure::TooLarge);
        }
        receive(Field { name, value, sensitive }).map_err(DecodeFailure::Refused)?;
        Ok(size)
    }
}

/// The Encoded Field Section Prefix (§4.5.1). Our dynamic table has no entries, so the Required
/// Insert Count can only be zero, and then the Base cannot be below it.
fn decode_prefix<E>(reader: &mut Reader<'_>) -> Result<(), DecodeFailure<E>> {
    let first = next(reader)?;
    if integer::decode(first, 8, reader)? != 0 {
        return Err(DecodeFailure::Invalid("a field section requires dynamic table entries"));
    }
    let first = next(reader)?;
    if first & 0x80 != 0 {
        return Err(DecodeFailure::Invalid("a field section has a negative Base"));
    }
    integer::decode(first, 7, reader)?;
    Ok(())
}

fn next<E>(reader: &mut Reader<'_>) -> Result<u8, DecodeFailure<E>> {
    reader.u8("field line").map_err(|_| DecodeFailure::Invalid("a field section is truncated"))
}

/// The static table entry that an index with a `prefix`-bit prefix refers to.
fn static_entry<E>(
    is_static: bool,
    first: u8,
    prefix: u32,
    reader: &mut Reader<'_>,
) -> Result<(&'static [u8], &'static [u8]), DecodeFailure<E>> {
    let index = integer::decode(first, prefix, reader)?;
    if !is_static {
        return Err(DecodeFailure::Invalid("a field line refers to the dynamic table"));
    }
    let (name, value) = static_table::entry(index).ok_or(DecodeFailure::Invalid(
        "a field line refers to an entry that the static table does not have",
    ))?;
    Ok((name.as_bytes(), value.as_bytes()))
}

/// A string literal (§4.1.2) of at most `limit` bytes, decoded into `buffer` if it is Huffman coded.
/// Its length has `prefix` bits in `first`, and above them is the bit H.
fn string<'a, E>(
    first: u8,
    prefix: u32,
    reader: &mut Reader<'a>,
    limit: u64,
    buffer: &mut Vec<u8>,
) -> Result<Text<'a>, DecodeFailure<E>> {
    let length = integer::decode(first, prefix, reader)?;
    let text = usize::try_from(length)
        .ok()
        .and_then(|length| reader.bytes(length, "string").ok())
        .ok_or(DecodeFailure::Invalid("a field section ends inside a string"))?;
    if first & 1u8.wrapping_shl(prefix) == 0 {
        return if length > limit { Err(DecodeFailure::TooLarge) } else { Ok(Text::Input(text)) };
    }
    buffer.clear();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    huffman::decode(text, limit, buffer).map_err(|error| match error {
        HuffmanError::Invalid => DecodeFailure::Invalid("a Huffman coded string is invalid"),
        HuffmanError::TooLarge => DecodeFailure::TooLarge,
    })?;
    Ok(Text::Buffer)
}
