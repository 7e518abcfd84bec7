use clearway_units::memory::{OnDemand, Unused};
use clearway_wire::Reader;

use super::decoder_stream::DecoderInstruction;
use super::encoder_stream::EncoderInstructions;
use super::huffman::HuffmanError;
use super::integer::IntegerError;
use super::table::Table;
use super::text::{self, Literal, LiteralError};
use super::{FIELD_OVERHEAD, Field, QpackError, huffman, integer, static_table};

/// The reason why a field section was not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeFailure<E> {
    /// The field section is invalid.
    Invalid(QpackError),
    /// The fields exceed the size limit.
    TooLarge,
    /// The receiver of the fields rejected a field.
    Refused(E),
}

impl<E> From<QpackError> for DecodeFailure<E> {
    fn from(error: QpackError) -> Self {
        Self::Invalid(error)
    }
}

impl<E> From<IntegerError> for DecodeFailure<E> {
    fn from(error: IntegerError) -> Self {
        Self::Invalid(match error {
            IntegerError::Truncated => QpackError::SectionTruncated,
            IntegerError::TooLarge => QpackError::SectionInteger,
        })
    }
}

/// The outcome of decoding a field section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decoded {
    /// All fields of the section were passed to the receiver.
    Whole,
    /// Decoding must wait until this many entries have been inserted (RFC 9204 §2.2.1).
    Blocked {
        /// The Required Insert Count of the field section.
        required: u64,
    },
}

/// Decodes field sections (RFC 9204 §4.5), and maintains the table that they reference.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    table: Table,
    max_capacity: u64,
    instructions: EncoderInstructions,
    /// The Known Received Count that the peer's encoder can derive from the instructions sent so
    /// far (§2.1.4).
    known_received: u64,
    /// Instructions for the decoder stream.
    feedback: Vec<u8>,
    texts: OnDemand<Texts>,
}

/// Buffers for the text of decoded literals.
#[derive(Debug, Default)]
struct Texts {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Unused for Texts {
    fn unused() -> &'static Self {
        static UNUSED: Texts = Texts { name: Vec::new(), value: Vec::new() };
        &UNUSED
    }
}

/// The Encoded Field Section Prefix (§4.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Prefix {
    required: u64,
    base: u64,
}

impl Decoder {
    /// Creates a decoder that allows the peer's encoder a dynamic table of this capacity, in bytes.
    pub(crate) fn new(max_capacity: u64) -> Self {
        Self { max_capacity, ..Self::default() }
    }

    /// Frees the memory that is not needed until the next field section is decoded.
    pub(crate) fn compact(&mut self) {
        self.table.compact();
        self.feedback.shrink_to_fit();
        self.texts.release();
    }

    /// Checks cached values against the table.
    #[cfg(test)]
    pub(super) fn check_caches(&self) {
        self.table.check_caches();
        assert!(
            self.known_received <= self.table.inserted(),
            "{} of {}",
            self.known_received,
            self.table.inserted()
        );
    }

    /// Returns the number of entries that the peer has inserted.
    pub(crate) fn inserted(&self) -> u64 {
        self.table.inserted()
    }

    /// Processes a part of the peer's encoder stream.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), QpackError> {
        self.instructions.receive(bytes, &mut self.table, self.max_capacity)
    }

    /// Acknowledges the insertions that no Section Acknowledgment covers (§4.4.3). Called when
    /// received data has been processed, so that one instruction covers many insertions.
    pub(crate) fn acknowledge_insertions(&mut self) {
        let increment = self.table.inserted().saturating_sub(self.known_received);
        if increment > 0 {
            self.known_received = self.table.inserted();
            DecoderInstruction::Increment(increment).write(&mut self.feedback);
        }
    }

    /// Sends a Stream Cancellation for `stream`, which will not be read to its end (§4.4.2).
    pub(crate) fn cancel(&mut self, stream: u64) {
        // Without a table, the peer's encoder cannot have references to it.
        if self.max_capacity > 0 {
            DecoderInstruction::Cancel(stream).write(&mut self.feedback);
        }
    }

    /// Returns the instructions to write to the decoder stream.
    pub(crate) fn feedback(&mut self) -> &mut Vec<u8> {
        &mut self.feedback
    }

    /// Passes the fields of a section on `stream` to `receive`, in order, while their total size
    /// (name, value and 32 bytes for each) stays within `limit` bytes.
    pub(crate) fn decode<E>(
        &mut self,
        stream: u64,
        section: &[u8],
        limit: u64,
        mut receive: impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<Decoded, DecodeFailure<E>> {
        let mut reader = Reader::new(section);
        let prefix = self.prefix(&mut reader)?;
        if prefix.required > self.table.inserted() {
            return Ok(Decoded::Blocked { required: prefix.required });
        }
        let mut left = limit;
        while !reader.is_empty() {
            left = left.checked_sub(FIELD_OVERHEAD).ok_or(DecodeFailure::TooLarge)?;
            let size = self.field_line(prefix, &mut reader, left, &mut receive)?;
            left = left.checked_sub(size).ok_or(DecodeFailure::TooLarge)?;
        }
        if prefix.required > 0 {
            DecoderInstruction::Acknowledge(stream).write(&mut self.feedback);
            self.known_received = self.known_received.max(prefix.required);
        }
        Ok(Decoded::Whole)
    }

    /// Decodes one field line and returns the size of its name and value, which is at most `left`.
    fn field_line<E>(
        &mut self,
        prefix: Prefix,
        reader: &mut Reader<'_>,
        left: u64,
        receive: &mut impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<u64, DecodeFailure<E>> {
        let Self { table, texts, .. } = self;
        let Texts { name: name_buffer, value: value_buffer } = &mut **texts;
        let first = next(reader)?;
        let (name, value, sensitive) = if first & 0x80 != 0 {
            // Indexed Field Line (§4.5.2): 1 T Index(6+).
            let (name, value) = indexed(table, prefix, first, 0x40, 6, reader)?;
            (name, value, false)
        } else if first & 0x40 != 0 {
            // Literal Field Line with Name Reference (§4.5.4): 01 N T Index(4+).
            let (name, _) = indexed(table, prefix, first, 0x10, 4, reader)?;
            (name, value(reader, left, name.len(), value_buffer)?, first & 0x20 != 0)
        } else if first & 0x20 != 0 {
            // Literal Field Line with Literal Name (§4.5.6): 001 N H Length(3+).
            let name = string(first, 3, reader, left, name_buffer)?;
            (name, value(reader, left, name.len(), value_buffer)?, first & 0x10 != 0)
        } else if first & 0x10 != 0 {
            // Indexed Field Line with Post-Base Index (§4.5.3): 0001 Index(4+).
            let (name, value) = post_base(table, prefix, first, 4, reader)?;
            (name, value, false)
        } else {
            // Literal Field Line with Post-Base Name Reference (§4.5.5): 0000 N Index(3+).
            let (name, _) = post_base(table, prefix, first, 3, reader)?;
            (name, value(reader, left, name.len(), value_buffer)?, first & 0x08 != 0)
        };
        let size = (name.len() as u64).saturating_add(value.len() as u64);
        if size > left {
            return Err(DecodeFailure::TooLarge);
        }
        receive(Field { name, value, sensitive }).map_err(DecodeFailure::Refused)?;
        Ok(size)
    }

    /// Reads the prefix (§4.5.1).
    fn prefix<E>(&self, reader: &mut Reader<'_>) -> Result<Prefix, DecodeFailure<E>> {
        let first = next(reader)?;
        let encoded = integer::decode(first, 8, reader)?;
        let required = self.required_insert_count(encoded)?;
        let first = next(reader)?;
        let delta = integer::decode(first, 7, reader)?;
        let base = match first & 0x80 != 0 {
            true => required
                .checked_sub(delta)
                .and_then(|base| base.checked_sub(1))
                .ok_or(QpackError::NegativeBase)?,
            false => required.saturating_add(delta),
        };
        Ok(Prefix { required, base })
    }

    /// Returns the Required Insert Count for its encoded value, which wraps (§4.5.1.1).
    fn required_insert_count(&self, encoded: u64) -> Result<u64, QpackError> {
        let Some(encoded) = encoded.checked_sub(1) else { return Ok(0) };
        let max_entries = self.max_capacity / FIELD_OVERHEAD;
        let range = max_entries.saturating_mul(2);
        if encoded >= range {
            return Err(QpackError::RequiredInsertCount);
        }
        let largest = self.table.inserted().saturating_add(max_entries);
        let wrapped = largest.checked_div(range).unwrap_or(0).saturating_mul(range);
        let mut required = wrapped.saturating_add(encoded);
        if required > largest {
            required = required.checked_sub(range).ok_or(QpackError::RequiredInsertCount)?;
        }
        if required == 0 { Err(QpackError::RequiredInsertCount) } else { Ok(required) }
    }
}

fn next<E>(reader: &mut Reader<'_>) -> Result<u8, DecodeFailure<E>> {
    reader.u8("field line").map_err(|_| QpackError::SectionTruncated.into())
}

/// Returns the entry that an index with a `prefix`-bit prefix refers to: in the static table if
/// `static_bit` is set in `first`, otherwise relative to the Base.
fn indexed<'a, E>(
    table: &'a Table,
    base: Prefix,
    first: u8,
    static_bit: u8,
    prefix: u32,
    reader: &mut Reader<'_>,
) -> Result<(&'a [u8], &'a [u8]), DecodeFailure<E>> {
    let index = integer::decode(first, prefix, reader)?;
    if first & static_bit != 0 {
        let (name, value) = static_table::entry(index).ok_or(QpackError::SectionStaticIndex)?;
        return Ok((name.as_bytes(), value.as_bytes()));
    }
    // A relative index beyond the Base does not refer to any entry.
    let absolute = base.base.checked_sub(index).and_then(|index| index.checked_sub(1));
    Ok(dynamic(table, base, absolute.ok_or(QpackError::ReferenceEvicted)?)?)
}

/// Returns the entry that a post-Base index with a `prefix`-bit prefix refers to (§3.2.6).
fn post_base<'a, E>(
    table: &'a Table,
    base: Prefix,
    first: u8,
    prefix: u32,
    reader: &mut Reader<'_>,
) -> Result<(&'a [u8], &'a [u8]), DecodeFailure<E>> {
    let index = integer::decode(first, prefix, reader)?;
    Ok(dynamic(table, base, base.base.saturating_add(index))?)
}

/// Returns the entry with an absolute index, which the Required Insert Count must cover (§2.2.3).
fn dynamic(table: &Table, prefix: Prefix, index: u64) -> Result<(&[u8], &[u8]), QpackError> {
    if index >= prefix.required {
        return Err(QpackError::ReferenceNotCovered);
    }
    let entry = table.get(index).ok_or(QpackError::ReferenceEvicted)?;
    Ok((&entry.name, &entry.value))
}

/// Reads a value that follows a name of `name` bytes; the two together must have at most `left`
/// bytes.
fn value<'b, 'a: 'b, E>(
    reader: &mut Reader<'a>,
    left: u64,
    name: usize,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], DecodeFailure<E>> {
    let left = left.checked_sub(name as u64).ok_or(DecodeFailure::TooLarge)?;
    let first = next(reader)?;
    string(first, 7, reader, left, buffer)
}

/// Reads a string literal (§4.1.2) of at most `limit` bytes, decoding it into `buffer` if it is
/// Huffman coded.
fn string<'b, 'a: 'b, E>(
    first: u8,
    prefix: u32,
    reader: &mut Reader<'a>,
    limit: u64,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], DecodeFailure<E>> {
    let Literal { is_huffman, bytes } =
        text::read(first, prefix, reader).map_err(|error| match error {
            LiteralError::Integer(error) => error.into(),
            LiteralError::Truncated(_) => DecodeFailure::Invalid(QpackError::SectionTruncated),
        })?;
    if !is_huffman {
        let is_too_long = bytes.len() as u64 > limit;
        return if is_too_long { Err(DecodeFailure::TooLarge) } else { Ok(bytes) };
    }
    buffer.clear();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    huffman::decode(bytes, limit, buffer).map_err(|error| match error {
        HuffmanError::Invalid => DecodeFailure::Invalid(QpackError::SectionHuffman),
        HuffmanError::TooLarge => DecodeFailure::TooLarge,
    })?;
    Ok(buffer)
}
