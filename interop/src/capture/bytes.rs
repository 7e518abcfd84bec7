//! Reads fields from a slice of bytes.

/// A read position in a slice. Every read returns `None` at the end of the slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads an unsigned integer of `length` bytes in network byte order.
    pub(crate) fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.take(length)?;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    pub(crate) fn variable(&mut self) -> Option<u64> {
        let length = 1_usize << (self.rest.first()? >> 6);
        let mask = u64::MAX >> (66 - 8 * length as u32);
        Some(self.number(length)? & mask)
    }

    /// Reads a byte string whose length precedes it as a variable-length integer.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.variable()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Reads a byte string whose length precedes it as an integer of `width` bytes.
    pub(crate) fn vector(&mut self, width: usize) -> Option<&'a [u8]> {
        let length = self.number(width)?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn the_samples_of_rfc_9000_are_read() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(Bytes::new(bytes).variable(), Some(value));
        }
        assert_eq!(Bytes::new(&[0x40]).variable(), None);
    }
}
