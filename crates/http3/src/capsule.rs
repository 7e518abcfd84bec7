//! The Capsule Protocol (RFC 9297 §3), which frames the content of an extended CONNECT request and
//! its response.

use core::fmt;

use bytes::{Buf, Bytes};
use clearway_wire::{Reader, VarInt};

use crate::frame::{put_varint, take};

/// The type of the DATAGRAM capsule (RFC 9297 §3.5).
pub const DATAGRAM_CAPSULE: u64 = 0x00;

/// Maximum length of a capsule header: two variable-length integers.
const HEADER_MAX: usize = 16;

/// A received capsule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capsule {
    /// The Capsule Type.
    pub capsule_type: u64,
    /// The Capsule Value.
    pub value: Bytes,
}

impl Capsule {
    /// Returns the encoded capsule.
    pub fn encode(capsule_type: u64, value: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(value.len().saturating_add(HEADER_MAX));
        put_varint(&mut bytes, capsule_type);
        put_varint(&mut bytes, value.len() as u64);
        bytes.extend_from_slice(value);
        bytes.into()
    }
}

/// The reason why capsules cannot be read. The message is then malformed (RFC 9297 §3.3), and its
/// stream should be reset with [`Code::MESSAGE_ERROR`](crate::Code::MESSAGE_ERROR).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CapsuleError {
    /// A capsule of a known type is longer than the limit.
    TooLong {
        /// The Capsule Type.
        capsule_type: u64,
        /// The Capsule Length in bytes.
        length: u64,
    },
    /// The content ended in the middle of a capsule.
    Truncated,
}

impl fmt::Display for CapsuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { capsule_type, length } => {
                write!(f, "capsule of type {capsule_type:#x} is too long: {length} bytes")
            }
            Self::Truncated => f.write_str("the content ended in the middle of a capsule"),
        }
    }
}

impl core::error::Error for CapsuleError {}

/// Reads capsules from content whose chunks may end anywhere.
///
/// Capsules of unknown types are skipped (RFC 9297 §3.2), and so are DATAGRAM capsules that are too
/// long, since datagrams may be lost (§3.5); neither is buffered.
#[derive(Debug)]
pub struct CapsuleDecoder {
    known: &'static [u64],
    max_length: usize,
    header: [u8; HEADER_MAX],
    filled: usize,
    state: State,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Value { capsule_type: u64, remaining: u64 },
    Skip { remaining: u64 },
}

impl CapsuleDecoder {
    /// Creates a decoder for DATAGRAM capsules and the types in `known`, whose values may have at
    /// most `max_length` bytes.
    pub fn new(known: &'static [u64], max_length: usize) -> Self {
        let (header, value) = ([0; HEADER_MAX], Vec::new());
        Self { known, max_length, header, filled: 0, state: State::Header, value }
    }

    /// Removes and returns the next known capsule at the start of `input`; `None` when `input` is
    /// exhausted.
    ///
    /// # Errors
    /// Returns [`CapsuleError::TooLong`] if a capsule of one of the `known` types exceeds the
    /// limit.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Capsule>, CapsuleError> {
        loop {
            match &mut self.state {
                State::Header => {
                    let Some((capsule_type, length)) = self.header(input) else { return Ok(None) };
                    self.state = self.begin(capsule_type, length)?;
                }
                State::Skip { remaining: 0 } => self.state = State::Header,
                State::Skip { remaining } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let skipped = take(input, *remaining).len() as u64;
                    *remaining = remaining.saturating_sub(skipped);
                }
                State::Value { capsule_type, remaining } => {
                    let capsule_type = *capsule_type;
                    let part = take(input, *remaining);
                    *remaining = remaining.saturating_sub(part.len() as u64);
                    if *remaining > 0 {
                        self.value.extend_from_slice(&part);
                        return Ok(None);
                    }
                    self.state = State::Header;
                    let value = if self.value.is_empty() {
                        part
                    } else {
                        self.value.extend_from_slice(&part);
                        core::mem::take(&mut self.value).into()
                    };
                    return Ok(Some(Capsule { capsule_type, value }));
                }
            }
        }
    }

    /// Checks that the content may end here (RFC 9297 §3.3).
    ///
    /// # Errors
    /// Returns [`CapsuleError::Truncated`] if the content ends in the middle of a capsule.
    pub fn finish(&self) -> Result<(), CapsuleError> {
        match self.state {
            State::Header if self.filled == 0 => Ok(()),
            State::Skip { remaining: 0 } => Ok(()),
            _ => Err(CapsuleError::Truncated),
        }
    }

    /// Reads the type and the length of the next capsule.
    fn header(&mut self, input: &mut Bytes) -> Option<(u64, u64)> {
        while let Some(&byte) = input.first() {
            input.advance(1);
            if let Some(slot) = self.header.get_mut(self.filled) {
                *slot = byte;
            }
            self.filled = self.filled.saturating_add(1).min(HEADER_MAX);
            let mut reader = Reader::new(self.header.get(..self.filled).unwrap_or_default());
            let header = VarInt::decode(&mut reader, "capsule type")
                .and_then(|kind| Ok((kind, VarInt::decode(&mut reader, "capsule length")?)));
            if let Ok((capsule_type, length)) = header {
                self.filled = 0;
                return Some((capsule_type.get(), length.get()));
            }
        }
        None
    }

    fn begin(&self, capsule_type: u64, length: u64) -> Result<State, CapsuleError> {
        let is_short = length <= self.max_length as u64;
        if capsule_type == DATAGRAM_CAPSULE {
            return Ok(match is_short {
                true => State::Value { capsule_type, remaining: length },
                false => State::Skip { remaining: length },
            });
        }
        if !self.known.contains(&capsule_type) {
            return Ok(State::Skip { remaining: length });
        }
        match is_short {
            true => Ok(State::Value { capsule_type, remaining: length }),
            false => Err(CapsuleError::TooLong { capsule_type, length }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(
        decoder: &mut CapsuleDecoder,
        bytes: &[u8],
        chunk: usize,
    ) -> Result<Vec<Capsule>, CapsuleError> {
        let mut capsules = Vec::new();
        for part in bytes.chunks(chunk) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(capsule) = decoder.next(&mut input)? {
                capsules.push(capsule);
            }
            assert!(input.is_empty());
        }
        Ok(capsules)
    }

    fn capsule(capsule_type: u64, value: &[u8]) -> Capsule {
        Capsule { capsule_type, value: Bytes::copy_from_slice(value) }
    }

    /// Capsules of unknown types are skipped (RFC 9297 §3.2), and so are datagrams that are too
    /// long (§3.5).
    #[test]
    fn section_3_2_only_what_is_known_is_kept() {
        let bytes = [
            Capsule::encode(0x17, &[1; 3000]),
            Capsule::encode(DATAGRAM_CAPSULE, b""),
            Capsule::encode(DATAGRAM_CAPSULE, &[2; 3000]),
            Capsule::encode(0x40, b"known"),
            Capsule::encode(DATAGRAM_CAPSULE, b"last"),
        ]
        .concat();
        let expected = [capsule(0, b""), capsule(0x40, b"known"), capsule(0, b"last")];
        for chunk in [1, 2, 3, 1000, 10_000] {
            let mut decoder = CapsuleDecoder::new(&[0x40], 1000);
            assert_eq!(read(&mut decoder, &bytes, chunk).unwrap(), expected);
            assert_eq!(decoder.finish(), Ok(()));
        }
    }

    #[test]
    fn a_known_capsule_that_is_too_long_is_refused_before_it_is_buffered() {
        let mut decoder = CapsuleDecoder::new(&[0x40], 1000);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 0x40);
        put_varint(&mut bytes, 1 << 60);
        let error = read(&mut decoder, &bytes, 100).unwrap_err();
        assert_eq!(error, CapsuleError::TooLong { capsule_type: 0x40, length: 1 << 60 });
    }

    /// Tests the requirements of RFC 9297 §3.3.
    #[test]
    fn section_3_3_truncated_capsules() {
        let bytes = [Capsule::encode(0, b"abc"), Capsule::encode(0x99, b"abc")].concat();
        for end in 0..=bytes.len() {
            let mut decoder = CapsuleDecoder::new(&[], 100);
            read(&mut decoder, &bytes[..end], 100).unwrap();
            assert_eq!(decoder.finish().is_ok(), [0, 5, bytes.len()].contains(&end), "{end}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(0u8..70, 0..200)) {
            let whole = read(&mut CapsuleDecoder::new(&[1, 2], 20), &bytes, 1000);
            for chunk in 1..4 {
                let parts = read(&mut CapsuleDecoder::new(&[1, 2], 20), &bytes, chunk);
                prop_assert_eq!(&parts, &whole);
            }
        }
    }
}
