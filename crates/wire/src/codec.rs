use crate::{DecodeError, EncodeError};

/// A cursor over received bytes. Every read is bounds-checked and borrows from the input.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that have not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes that have not been read.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether all bytes have been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next byte without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads `length` bytes; errors refer to them as `field`.
    pub fn bytes(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips `count` bytes, or all remaining bytes if there are fewer.
    pub(crate) fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// Reads all remaining bytes.
    pub fn take_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) =
            self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }
}

/// A cursor over an output buffer owned by the caller. A write that does not fit completely leaves
/// the buffer unchanged.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer at the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, written: 0 }
    }

    /// Returns how many bytes have been written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Returns how many additional bytes fit.
    pub fn remaining(&self) -> usize {
        self.buffer.len().saturating_sub(self.written)
    }

    /// Returns an error unless `length` additional bytes fit.
    pub(crate) fn require(&self, length: usize) -> Result<(), EncodeError> {
        if length <= self.remaining() { Ok(()) } else { Err(EncodeError) }
    }

    /// Returns the bytes that have been written.
    pub fn filled(&self) -> &[u8] {
        self.buffer.get(..self.written).unwrap_or_default()
    }

    /// Returns the bytes that have been written, for modification in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.written).unwrap_or_default()
    }

    /// Discards everything written after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.written = self.written.min(length);
    }

    /// Limits the remaining space in the buffer to `length` bytes.
    pub fn limit(&mut self, length: usize) {
        let end = self.written.saturating_add(length).min(self.buffer.len());
        let buffer = core::mem::take(&mut self.buffer);
        self.buffer = buffer.get_mut(..end).unwrap_or_default();
    }

    /// Appends `bytes`.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.reserve(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Appends one byte.
    pub fn u8(&mut self, byte: u8) -> Result<(), EncodeError> {
        self.bytes(&[byte])
    }

    /// Appends `length` zero bytes.
    pub fn zeros(&mut self, length: usize) -> Result<(), EncodeError> {
        self.reserve(length)?.fill(0);
        Ok(())
    }

    /// Appends `length` bytes and returns them for the caller to fill.
    pub fn reserve(&mut self, length: usize) -> Result<&mut [u8], EncodeError> {
        let end = self.written.checked_add(length).ok_or(EncodeError)?;
        let space = self.buffer.get_mut(self.written..end).ok_or(EncodeError)?;
        self.written = end;
        Ok(space)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
