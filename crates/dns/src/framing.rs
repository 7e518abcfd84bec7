//! Messages with a 2-octet length field: any number on a TCP stream (RFC 1035 §4.2.2), and one on a
//! QUIC stream (RFC 9250 §4.2).

use std::io;

use bytes::{Buf, Bytes, BytesMut};

use crate::violation::Violation;

/// Size of the length field.
pub(crate) const PREFIX: usize = 2;

/// The reason why a stream does not contain exactly one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingError {
    Violation(Violation),
    /// The announced length exceeds this endpoint's limit.
    TooLong,
}

/// Reads the only message of a stream, chunk by chunk. Memory is allocated only for data that has
/// arrived, not for an announced length.
#[derive(Debug)]
pub(crate) struct MessageReader {
    limit: usize,
    /// The first chunk, which usually contains the entire message.
    first: Bytes,
    /// All chunks received so far, if there is more than one.
    joined: BytesMut,
}

impl MessageReader {
    /// Creates a reader of a message of at most `limit` octets.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, first: Bytes::new(), joined: BytesMut::new() }
    }

    /// Adds the next chunk.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Result<(), FramingError> {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = chunk;
        } else {
            let first = std::mem::take(&mut self.first);
            self.joined.extend_from_slice(&first);
            self.joined.extend_from_slice(&chunk);
        }
        let Some(announced) = announced(self.received()) else { return Ok(()) };
        if announced > self.limit {
            return Err(FramingError::TooLong);
        }
        match self.received().len().saturating_sub(PREFIX) > announced {
            true => Err(FramingError::Violation(Violation::SecondMessage)),
            false => Ok(()),
        }
    }

    /// Returns the message at the end of the stream.
    pub(crate) fn finish(mut self) -> Result<Bytes, FramingError> {
        let truncated = FramingError::Violation(Violation::Truncated);
        let announced = announced(self.received()).ok_or(truncated)?;
        if self.received().len().saturating_sub(PREFIX) < announced {
            return Err(truncated);
        }
        let mut whole = match self.joined.is_empty() {
            true => std::mem::take(&mut self.first),
            false => self.joined.freeze(),
        };
        Ok(whole.split_off(PREFIX))
    }

    fn received(&self) -> &[u8] {
        match self.joined.is_empty() {
            true => &self.first,
            false => &self.joined,
        }
    }
}

/// Removes the first complete message from the received part of a TCP stream.
pub(crate) fn next_message(received: &mut BytesMut, limit: usize) -> io::Result<Option<Bytes>> {
    let Some(prefix) = received.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*prefix));
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    if received.len() < length.saturating_add(PREFIX) {
        return Ok(None);
    }
    received.advance(PREFIX);
    Ok(Some(received.split_to(length).freeze()))
}

fn announced(received: &[u8]) -> Option<usize> {
    received.first_chunk::<PREFIX>().map(|prefix| usize::from(u16::from_be_bytes(*prefix)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(limit: usize, chunks: &[&[u8]]) -> Result<Bytes, FramingError> {
        let mut reader = MessageReader::new(limit);
        for chunk in chunks {
            reader.push(Bytes::copy_from_slice(chunk))?;
        }
        reader.finish()
    }

    #[test]
    fn a_stream_has_exactly_one_message() {
        let violation = |violation| Err(FramingError::Violation(violation));
        assert_eq!(read(9, &[&[0, 3, 1, 2, 3]]), Ok(Bytes::from_static(&[1, 2, 3])));
        assert_eq!(read(9, &[&[0], &[3, 1], &[], &[2, 3]]), Ok(Bytes::from_static(&[1, 2, 3])));
        for short in [&[][..], &[&[0][..]], &[&[0, 1]], &[&[0, 3, 1, 2]], &[&[0], &[3], &[1]]] {
            assert_eq!(read(9, short), violation(Violation::Truncated), "{short:?}");
        }
        for long in [&[&[0, 1, 1, 2][..]][..], &[&[0, 1, 1], &[2]], &[&[0, 1, 7, 0, 1, 7]]] {
            assert_eq!(read(9, long), violation(Violation::SecondMessage), "{long:?}");
        }
        assert_eq!(read(9, &[&[0, 10]]), Err(FramingError::TooLong));
        assert_eq!(read(9, &[&[255, 255]]), Err(FramingError::TooLong));
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            message in proptest::collection::vec(any::<u8>(), 0..600),
            cuts in proptest::collection::vec(1usize..40, 0..40),
        ) {
            let mut stream = (message.len() as u16).to_be_bytes().to_vec();
            stream.extend_from_slice(&message);
            let mut rest = &stream[..];
            let mut reader = MessageReader::new(usize::from(u16::MAX));
            for cut in cuts {
                let (chunk, remaining) = rest.split_at(cut.min(rest.len()));
                reader.push(Bytes::copy_from_slice(chunk)).unwrap();
                rest = remaining;
            }
            reader.push(Bytes::copy_from_slice(rest)).unwrap();
            prop_assert_eq!(reader.finish(), Ok(Bytes::from(message)));
        }
    }
}
