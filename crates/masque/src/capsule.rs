//! The Capsule Protocol (RFC 9297 §3.2), parsed piece by piece: for values that are forwarded
//! before they are complete, or discarded without buffering.

use bytes::{Buf, Bytes};
use clearway_wire::{Reader, VarInt, Writer};

/// Maximum length of a capsule header: two variable-length integers.
const HEADER_MAX: usize = 16;

/// A piece of a capsule's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) capsule_type: u64,
    /// The Capsule Length in bytes: the length of the complete value.
    pub(crate) length: u64,
    pub(crate) data: Bytes,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

/// Splits content, whose chunks may end anywhere, into capsules. Nothing but a header is buffered.
#[derive(Clone, Debug)]
pub(crate) struct CapsuleReader {
    header: [u8; HEADER_MAX],
    filled: usize,
    current: Option<Current>,
}

/// The capsule that is being read.
#[derive(Clone, Copy, Debug)]
struct Current {
    capsule_type: u64,
    length: u64,
    remaining: u64,
}

impl CapsuleReader {
    pub(crate) const fn new() -> Self {
        Self { header: [0; HEADER_MAX], filled: 0, current: None }
    }

    /// Removes and returns the next piece at the start of `input`; `None` when `input` is exhausted.
    /// A capsule has at least one piece, which may be empty.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Option<Piece> {
        let (current, is_first) = match self.current {
            Some(current) => (current, false),
            None => (self.header(input)?, true),
        };
        let Current { capsule_type, length, remaining } = current;
        let taken = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len());
        if taken == 0 && remaining > 0 && !is_first {
            return None;
        }
        let data = input.split_to(taken);
        let remaining = remaining.saturating_sub(taken as u64);
        let is_last = remaining == 0;
        self.current = (!is_last).then_some(Current { remaining, ..current });
        Some(Piece { capsule_type, length, data, is_first, is_last })
    }

    /// Returns whether the content may end here (RFC 9297 §3.3).
    pub(crate) const fn is_between_capsules(&self) -> bool {
        self.filled == 0 && self.current.is_none()
    }

    /// Reads the type and the length of the next capsule.
    fn header(&mut self, input: &mut Bytes) -> Option<Current> {
        while let Some(&byte) = input.first() {
            input.advance(1);
            if let Some(slot) = self.header.get_mut(self.filled) {
                *slot = byte;
            }
            self.filled = self.filled.saturating_add(1).min(HEADER_MAX);
            let mut reader = Reader::new(self.header.get(..self.filled).unwrap_or_default());
            let capsule_type = VarInt::decode(&mut reader, "Capsule Type");
            let header = capsule_type
                .and_then(|kind| Ok((kind.get(), VarInt::decode(&mut reader, "Capsule Length")?)));
            if let Ok((capsule_type, length)) = header {
                self.filled = 0;
                let length = length.get();
                return Some(Current { capsule_type, length, remaining: length });
            }
        }
        None
    }
}

/// Appends a variable-length integer. Values that do not fit are written as the largest one.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, value: u64) {
    let mut buffer = [0; 8];
    let mut writer = Writer::new(&mut buffer);
    if VarInt::saturating(value).encode(&mut writer).is_ok() {
        bytes.extend_from_slice(writer.filled());
    }
}

#[cfg(test)]
mod tests {
    use clearway_http3::Capsule;
    use proptest::prelude::*;

    use super::*;

    /// Returns the complete capsules, joined from their pieces, and whether the content may end.
    fn read(bytes: &[u8], chunk: usize) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut reader = CapsuleReader::new();
        let (mut capsules, mut value) = (Vec::new(), Vec::new());
        for part in bytes.chunks(chunk) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(piece) = reader.next(&mut input) {
                assert_eq!(piece.is_first, value.is_empty() && piece.is_first);
                value.extend_from_slice(&piece.data);
                if piece.is_last {
                    assert_eq!(piece.length, value.len() as u64);
                    capsules.push((piece.capsule_type, core::mem::take(&mut value)));
                }
            }
            assert!(input.is_empty());
        }
        (capsules, reader.is_between_capsules())
    }

    #[test]
    fn capsules_are_split_anywhere() {
        let bytes = [
            Capsule::encode(0, b""),
            Capsule::encode(0x2028_d7f2, b"abc"),
            Capsule::encode(1 << 60, &[7; 100]),
        ];
        let bytes = bytes.concat();
        let expected = vec![(0, vec![]), (0x2028_d7f2, b"abc".to_vec()), (1 << 60, vec![7; 100])];
        for chunk in [1, 2, 3, 5, 1000] {
            assert_eq!(read(&bytes, chunk), (expected.clone(), true));
        }
        for end in 0..bytes.len() {
            let is_boundary = [0, 2, 10].contains(&end);
            assert_eq!(read(&bytes[..end], 1000).1, is_boundary, "{end}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(0u8..70, 0..200)) {
            for chunk in 1..4 {
                prop_assert_eq!(read(&bytes, chunk), read(&bytes, 1000));
            }
        }
    }
}
