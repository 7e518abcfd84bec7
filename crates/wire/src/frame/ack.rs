use core::ops::RangeInclusive;

use crate::{DecodeError, EncodeError, PacketNumber, Reader, VarInt, Writer};

/// The ACK frame (RFC 9000 §19.3). It is validated when decoded, so that iterating over its ranges
/// cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// The largest acknowledged packet number.
    pub largest: PacketNumber,
    /// The ACK Delay field as encoded, that is, not scaled by the exponent.
    pub delay: VarInt,
    /// The number of packets below `largest` in the first range.
    pub(crate) first_range: VarInt,
    /// The number of (gap, length) pairs that follow.
    pub(crate) range_count: VarInt,
    /// The encoded (gap, length) pairs, already validated.
    pub(crate) ranges: &'a [u8],
    /// The ECN counts, if the frame is of type 0x03.
    pub ecn: Option<EcnCounts>,
}

/// The ECN counts in an ACK frame (RFC 9000 §19.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// The number of packets received with ECT(0).
    pub ect0: VarInt,
    /// The number of packets received with ECT(1).
    pub ect1: VarInt,
    /// The number of packets received with CE.
    pub ce: VarInt,
}

impl EcnCounts {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            ect0: VarInt::decode(reader, "ECT0 Count")?,
            ect1: VarInt::decode(reader, "ECT1 Count")?,
            ce: VarInt::decode(reader, "ECN-CE Count")?,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.ect0.encode(writer)?;
        self.ect1.encode(writer)?;
        self.ce.encode(writer)
    }

    fn encoded_len(&self) -> usize {
        self.ect0
            .encoded_len()
            .saturating_add(self.ect1.encoded_len())
            .saturating_add(self.ce.encoded_len())
    }
}

impl<'a> Ack<'a> {
    pub(super) const TYPE: u8 = 0x02;
    pub(super) const TYPE_WITH_ECN: u8 = 0x03;
    /// The maximum number of ranges written to one frame: the first range, and as many additional
    /// ones as a two-byte ACK Range Count can represent.
    const MAX_RANGES: usize = 1 << 14;

    pub(super) fn decode(reader: &mut Reader<'a>, with_ecn: bool) -> Result<Self, DecodeError> {
        let largest = VarInt::decode(reader, "Largest Acknowledged")?;
        let delay = VarInt::decode(reader, "ACK Delay")?;
        let range_count = VarInt::decode(reader, "ACK Range Count")?;
        let first_range = VarInt::decode(reader, "First ACK Range")?;
        let largest = PacketNumber::new(largest.get())
            .ok_or(DecodeError::invalid("Largest Acknowledged", "is not a packet number"))?;
        let mut smallest = largest
            .get()
            .checked_sub(first_range.get())
            .ok_or(DecodeError::invalid("First ACK Range", "extends below packet number 0"))?;
        let start = reader.rest();
        // Each iteration consumes at least two bytes from the reader, so the length of the input
        // bounds the loop, regardless of the count.
        for _ in 0..range_count.get() {
            smallest = decode_range(reader, smallest)?.1;
        }
        let length = start.len().saturating_sub(reader.remaining());
        let ranges = start.get(..length).unwrap_or_default();
        let ecn = if with_ecn { Some(EcnCounts::decode(reader)?) } else { None };
        Ok(Self { largest, delay, first_range, range_count, ranges, ecn })
    }

    /// Returns the acknowledged packet numbers in descending ranges. Never empty; ranges are
    /// neither adjacent nor overlapping.
    pub fn ranges(&self) -> AckRanges<'a> {
        let smallest = self.largest.get().saturating_sub(self.first_range.get());
        AckRanges { next: Some((self.largest.get(), smallest)), pairs: Reader::new(self.ranges) }
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(self.wire_type())?;
        VarInt::saturating(self.largest.get()).encode(writer)?;
        self.delay.encode(writer)?;
        self.range_count.encode(writer)?;
        self.first_range.encode(writer)?;
        writer.bytes(self.ranges)?;
        self.ecn.map_or(Ok(()), |ecn| ecn.encode(writer))
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        1_usize
            .saturating_add(VarInt::saturating(self.largest.get()).encoded_len())
            .saturating_add(self.delay.encoded_len())
            .saturating_add(self.range_count.encoded_len())
            .saturating_add(self.first_range.encoded_len())
            .saturating_add(self.ranges.len())
            .saturating_add(self.ecn.map_or(0, |ecn| ecn.encoded_len()))
    }

    pub(super) fn wire_type(&self) -> u8 {
        Self::type_for(self.ecn)
    }

    fn type_for(ecn: Option<EcnCounts>) -> u8 {
        if ecn.is_some() { Self::TYPE_WITH_ECN } else { Self::TYPE }
    }

    /// Writes an ACK frame with as many of `ranges` as fit, and returns how many were written.
    ///
    /// `ranges` must be in descending order with at least one packet number between any two of
    /// them; `delay` is already scaled by the exponent. At most 2^14 ranges are written.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if `ranges` is empty, not even one range fits, or a
    /// range is out of order.
    pub fn encode_ranges(
        writer: &mut Writer<'_>,
        delay: VarInt,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
        ecn: Option<EcnCounts>,
    ) -> Result<usize, EncodeError> {
        let start = writer.written();
        let result = Self::try_encode_ranges(writer, delay, ranges, ecn);
        if result.is_err() {
            writer.truncate(start);
        }
        result
    }

    fn try_encode_ranges(
        writer: &mut Writer<'_>,
        delay: VarInt,
        mut ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
        ecn: Option<EcnCounts>,
    ) -> Result<usize, EncodeError> {
        let (smallest, largest) = ranges.next().ok_or(EncodeError)?.into_inner();
        let mut smallest = smallest.get();
        writer.u8(Self::type_for(ecn))?;
        VarInt::saturating(largest.get()).encode(writer)?;
        delay.encode(writer)?;
        let count_at = writer.written();
        writer.u8(0)?;
        difference(largest.get(), smallest)?.encode(writer)?;
        let ecn_len = ecn.map_or(0, |ecn| ecn.encoded_len());

        let mut written: usize = 1;
        for range in ranges {
            let (range_smallest, range_largest) = range.into_inner();
            let above = smallest.checked_sub(2).ok_or(EncodeError)?;
            let gap = difference(above, range_largest.get())?;
            let length = difference(range_largest.get(), range_smallest.get())?;
            // From the 64th pair on, the count takes two bytes.
            let widening = usize::from(written == 64);
            let needed = gap
                .encoded_len()
                .saturating_add(length.encoded_len())
                .saturating_add(widening)
                .saturating_add(ecn_len);
            if written == Self::MAX_RANGES || writer.remaining() < needed {
                break;
            }
            if widening == 1 {
                insert_byte(writer, count_at)?;
            }
            gap.encode(writer)?;
            length.encode(writer)?;
            smallest = range_smallest.get();
            written = written.saturating_add(1);
        }
        set_range_count(writer, count_at, written.saturating_sub(1))?;
        ecn.map_or(Ok(()), |ecn| ecn.encode(writer))?;
        Ok(written)
    }
}

/// Returns `larger - smaller`, or an error if the numbers are in the wrong order.
fn difference(larger: u64, smaller: u64) -> Result<VarInt, EncodeError> {
    larger.checked_sub(smaller).and_then(VarInt::new).ok_or(EncodeError)
}

/// Moves everything that was written from `position` on back by one byte.
fn insert_byte(writer: &mut Writer<'_>, position: usize) -> Result<(), EncodeError> {
    writer.u8(0)?;
    let moved = writer.filled_mut().get_mut(position..).ok_or(EncodeError)?;
    moved.copy_within(..moved.len().saturating_sub(1), 1);
    Ok(())
}

/// Writes the ACK Range Count: in one byte if it fits, otherwise in two.
fn set_range_count(
    writer: &mut Writer<'_>,
    position: usize,
    count: usize,
) -> Result<(), EncodeError> {
    let mut encoded = [0; 2];
    let mut count_writer = Writer::new(&mut encoded);
    VarInt::saturating(count as u64).encode(&mut count_writer)?;
    let count = count_writer.filled();
    let field = writer.filled_mut().get_mut(position..).ok_or(EncodeError)?;
    field.get_mut(..count.len()).ok_or(EncodeError)?.copy_from_slice(count);
    Ok(())
}

/// Reads a (gap, length) pair. Returns the largest and the smallest packet number of its range,
/// which is the next range below the one that ends at `smallest`.
fn decode_range(reader: &mut Reader<'_>, smallest: u64) -> Result<(u64, u64), DecodeError> {
    let gap = VarInt::decode(reader, "Gap")?;
    let length = VarInt::decode(reader, "ACK Range Length")?;
    let largest = smallest
        .checked_sub(gap.get())
        .and_then(|largest| largest.checked_sub(2))
        .ok_or(DecodeError::invalid("Gap", "extends below packet number 0"))?;
    let smallest = largest
        .checked_sub(length.get())
        .ok_or(DecodeError::invalid("ACK Range Length", "extends below packet number 0"))?;
    Ok((largest, smallest))
}

/// The ranges of an [`Ack`], in descending order.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    /// The largest and the smallest packet number of the next range.
    next: Option<(u64, u64)>,
    pairs: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<PacketNumber>;

    fn next(&mut self) -> Option<Self::Item> {
        let (largest, smallest) = self.next.take()?;
        if !self.pairs.is_empty() {
            self.next = decode_range(&mut self.pairs, smallest).ok();
        }
        Some(PacketNumber::new(smallest)?..=PacketNumber::new(largest)?)
    }
}

#[cfg(test)]
#[path = "ack_tests.rs"]
mod tests;
