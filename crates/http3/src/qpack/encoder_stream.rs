//! Encoder instructions (RFC 9204 §4.3), as the decoder receives them.

use bytes::Bytes;
use clearway_wire::Reader;

use super::huffman::HuffmanError;
use super::integer::IntegerError;
use super::table::{Entry, Table};
use super::text::{self, Literal, LiteralError};
use super::{FIELD_OVERHEAD, QpackError, huffman, integer, static_table};

/// Maximum ratio of the length of a Huffman coded string to the length of its text: the longest
/// code has 30 bits.
const HUFFMAN_EXPANSION: u64 = 4;

/// Collects instructions from chunks that may end anywhere, and applies them to the table.
#[derive(Debug, Default)]
pub(crate) struct EncoderInstructions {
    /// The start of an incomplete instruction.
    partial: Vec<u8>,
}

/// An encoder instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Instruction<'a> {
    SetCapacity(u64),
    InsertWithStaticName { index: u64, value: Literal<'a> },
    InsertWithDynamicName { relative: u64, value: Literal<'a> },
    InsertWithLiteralName { name: Literal<'a>, value: Literal<'a> },
    Duplicate { relative: u64 },
}

impl EncoderInstructions {
    /// Applies the instructions that `bytes` completes.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        table: &mut Table,
        max_capacity: u64,
    ) -> Result<(), QpackError> {
        if self.partial.is_empty() {
            let used = carry_out_all(bytes, table, max_capacity)?;
            self.partial.extend_from_slice(bytes.get(used..).unwrap_or_default());
            return Ok(());
        }
        self.partial.extend_from_slice(bytes);
        let used = carry_out_all(&self.partial, table, max_capacity)?;
        self.partial.drain(..used.min(self.partial.len()));
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        Ok(())
    }
}

/// Applies the complete instructions at the start of `bytes`, and returns their length.
fn carry_out_all(bytes: &[u8], table: &mut Table, max_capacity: u64) -> Result<usize, QpackError> {
    let mut used = 0usize;
    loop {
        let rest = bytes.get(used..).unwrap_or_default();
        let mut reader = Reader::new(rest);
        let Some(instruction) = parse(&mut reader, table.capacity())? else { return Ok(used) };
        carry_out(instruction, table, max_capacity)?;
        used = used.saturating_add(rest.len().saturating_sub(reader.remaining()));
    }
}

/// Parses the next instruction; `None` if it is incomplete. An instruction that cannot be valid for
/// this capacity, however it ends, is rejected before it is complete, so that little has to be
/// collected.
fn parse<'a>(
    reader: &mut Reader<'a>,
    capacity: u64,
) -> Result<Option<Instruction<'a>>, QpackError> {
    let Ok(first) = reader.u8("instruction") else { return Ok(None) };
    let instruction = if first & 0x80 != 0 {
        // Insert with Name Reference (§4.3.2): 1 T Index(6+).
        let Some(index) = integer(first, 6, reader)? else { return Ok(None) };
        let Some(value) = value(reader, capacity)? else { return Ok(None) };
        match first & 0x40 != 0 {
            true => Instruction::InsertWithStaticName { index, value },
            false => Instruction::InsertWithDynamicName { relative: index, value },
        }
    } else if first & 0x40 != 0 {
        // Insert with Literal Name (§4.3.3): 01 H Length(5+).
        let Some(name) = string(first, 5, reader, capacity)? else { return Ok(None) };
        let Some(value) = value(reader, capacity)? else { return Ok(None) };
        Instruction::InsertWithLiteralName { name, value }
    } else {
        // Set Dynamic Table Capacity (§4.3.1): 001 Capacity(5+); Duplicate (§4.3.4): 000 Index(5+).
        let Some(number) = integer(first, 5, reader)? else { return Ok(None) };
        match first & 0x20 != 0 {
            true => Instruction::SetCapacity(number),
            false => Instruction::Duplicate { relative: number },
        }
    };
    Ok(Some(instruction))
}

fn integer(first: u8, prefix: u32, reader: &mut Reader<'_>) -> Result<Option<u64>, QpackError> {
    match integer::decode(first, prefix, reader) {
        Ok(value) => Ok(Some(value)),
        Err(IntegerError::Truncated) => Ok(None),
        Err(IntegerError::TooLarge) => Err(QpackError::EncoderInteger),
    }
}

fn value<'a>(reader: &mut Reader<'a>, capacity: u64) -> Result<Option<Literal<'a>>, QpackError> {
    let Ok(first) = reader.u8("value") else { return Ok(None) };
    string(first, 7, reader, capacity)
}

fn string<'a>(
    first: u8,
    prefix: u32,
    reader: &mut Reader<'a>,
    capacity: u64,
) -> Result<Option<Literal<'a>>, QpackError> {
    let longest = capacity.saturating_sub(FIELD_OVERHEAD).saturating_mul(HUFFMAN_EXPANSION);
    match text::read(first, prefix, reader) {
        Ok(literal) if literal.bytes.len() as u64 > longest => Err(QpackError::EntryTooLarge),
        Ok(literal) => Ok(Some(literal)),
        Err(LiteralError::Truncated(length)) if length > longest => Err(QpackError::EntryTooLarge),
        Err(LiteralError::Truncated(_) | LiteralError::Integer(IntegerError::Truncated)) => {
            Ok(None)
        }
        Err(LiteralError::Integer(IntegerError::TooLarge)) => Err(QpackError::EncoderInteger),
    }
}

fn carry_out(
    instruction: Instruction<'_>,
    table: &mut Table,
    max_capacity: u64,
) -> Result<(), QpackError> {
    let entry = match instruction {
        Instruction::SetCapacity(capacity) if capacity > max_capacity => {
            return Err(QpackError::CapacityTooLarge);
        }
        Instruction::SetCapacity(capacity) => {
            table.set_capacity(capacity);
            return Ok(());
        }
        Instruction::InsertWithStaticName { index, value } => {
            let (name, _) = static_table::entry(index).ok_or(QpackError::EncoderStaticIndex)?;
            let name = Bytes::from_static(name.as_bytes());
            let value = decode(value, table.capacity())?;
            Entry { name, value }
        }
        Instruction::InsertWithDynamicName { relative, value } => {
            // The name is read before its entry can be evicted (§3.2.2).
            let name = named(table, relative)?.name.clone();
            let value = decode(value, table.capacity())?;
            Entry { name, value }
        }
        Instruction::InsertWithLiteralName { name, value } => {
            let name = decode(name, table.capacity())?;
            let value = decode(value, table.capacity())?;
            Entry { name, value }
        }
        Instruction::Duplicate { relative } => named(table, relative)?.clone(),
    };
    if table.insert(entry) { Ok(()) } else { Err(QpackError::EntryTooLarge) }
}

/// Returns the entry that a relative index in an instruction refers to.
fn named(table: &Table, relative: u64) -> Result<&Entry, QpackError> {
    let entry = table.absolute(relative).and_then(|index| table.get(index));
    entry.ok_or(QpackError::EncoderDynamicIndex)
}

/// Decodes a string literal, which must fit into an entry.
fn decode(literal: Literal<'_>, capacity: u64) -> Result<Bytes, QpackError> {
    let limit = usize::try_from(capacity.saturating_sub(FIELD_OVERHEAD)).unwrap_or(usize::MAX);
    if !literal.is_huffman {
        return match literal.bytes.len() > limit {
            true => Err(QpackError::EntryTooLarge),
            false => Ok(Bytes::copy_from_slice(literal.bytes)),
        };
    }
    let mut text = Vec::new();
    huffman::decode(literal.bytes, limit, &mut text).map_err(|error| match error {
        HuffmanError::Invalid => QpackError::EncoderHuffman,
        HuffmanError::TooLarge => QpackError::EntryTooLarge,
    })?;
    // An entry is long-lived, so it should use no more memory than its text.
    Ok(text.into_boxed_slice().into())
}
