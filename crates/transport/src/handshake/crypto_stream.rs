use core::ops::Range;
use std::collections::BTreeMap;

use clearway_wire::{TransportErrorCode, VarInt, frame};

use super::ranges::RangeSet;
use crate::TransportError;
use crate::contents::PacketContents;
use clearway_units::memory::release_empty_map;

/// The receive window beyond the bytes already read (RFC 9000 §7.5 requires at least 4096 bytes).
pub(crate) const RECEIVE_WINDOW: u64 = 64 << 10;
/// The maximum number of buffered non-adjacent fragments. Each fragment takes memory in addition to
/// its bytes, so if only the window were limited, a peer could make this endpoint use more memory
/// than it sends.
pub(crate) const MAX_FRAGMENTS: usize = 256;

/// The stream of TLS messages in one packet number space (RFC 9000 §7.5, §19.6).
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    send: SendBuffer,
    receive: ReceiveBuffer,
    /// All written bytes, if acknowledged bytes may have to be sent again.
    repeatable: Option<Box<Repeatable>>,
}

/// Bytes that a peer may have acknowledged without having read them.
#[derive(Debug)]
struct Repeatable {
    bytes: Vec<u8>,
    /// The remaining number of times that the bytes may be sent again.
    left: u8,
}

/// The maximum number of times that acknowledged bytes are retransmitted.
const MAX_REPETITIONS: u8 = 3;

impl CryptoStream {
    /// Appends bytes to be sent.
    pub(crate) fn write(&mut self, mut bytes: Vec<u8>) {
        if let Some(repeatable) = &mut self.repeatable {
            repeatable.bytes.extend_from_slice(&bytes);
        }
        if self.send.bytes.is_empty() {
            self.send.bytes = bytes;
        } else {
            self.send.bytes.append(&mut bytes);
        }
    }

    /// Retains bytes written from here on for [`Self::repeat_acked`], if nothing has been written
    /// yet.
    pub(crate) fn make_repeatable(&mut self) {
        if self.send.end() == 0 {
            let repeatable = Repeatable { bytes: Vec::new(), left: MAX_REPETITIONS };
            self.repeatable = Some(Box::new(repeatable));
        }
    }

    /// Sends everything again, if it was all acknowledged and can be repeated; limited to a few
    /// times.
    pub(crate) fn repeat_acked(&mut self) {
        let is_acked = self.send.bytes.is_empty() && self.send.base > 0;
        if let Some(repeatable) = self.repeatable.as_mut().filter(|it| is_acked && it.left > 0) {
            repeatable.left = repeatable.left.saturating_sub(1);
            self.send = SendBuffer { bytes: repeatable.bytes.clone(), ..SendBuffer::default() };
        }
    }

    /// Creates a stream with this many bytes written and acknowledged, and nothing received.
    pub(crate) fn after(written: u64) -> Self {
        let send = SendBuffer { base: written, sent_end: written, ..SendBuffer::default() };
        Self { send, ..Self::default() }
    }

    /// Returns the number of bytes written, if that is the only state: [`Self::after`] recreates
    /// the stream.
    pub(crate) fn settled(&self) -> Option<u64> {
        let Self { send, receive, repeatable } = self;
        let is_sent = send.bytes.is_empty() && send.base == send.sent_end && repeatable.is_none();
        (is_sent && receive.received_end == 0).then_some(send.base)
    }

    /// Releases excess capacity.
    pub(crate) fn compact(&mut self) {
        self.send.bytes.shrink_to_fit();
        self.send.acked.compact();
        self.send.lost.compact();
        release_empty_map(&mut self.receive.fragments);
    }

    /// Returns whether there is anything to send: new bytes or lost ones.
    pub(crate) fn has_pending(&self) -> bool {
        self.send.next_range().is_some()
    }

    /// Returns whether the peer has acknowledged everything that was written.
    #[cfg(test)]
    pub(crate) fn is_fully_acked(&self) -> bool {
        self.send.bytes.is_empty()
    }

    /// Fills `contents` with CRYPTO frames in ascending order of their offsets. Returns whether any
    /// was written.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) -> bool {
        let mut is_any_written = false;
        while let Some(length) = self.write_frame(contents) {
            is_any_written |= length > 0;
        }
        is_any_written
    }

    /// Writes one frame; returns `None` if there is no data or no room.
    fn write_frame(&mut self, contents: &mut PacketContents<'_, '_>) -> Option<usize> {
        let range = self.send.next_range()?;
        let offset = VarInt::new(range.start)?;
        let available = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let wanted = available.min(contents.remaining());
        // A shorter frame never has a longer header, so one step is enough.
        let header = frame::Crypto::header_len(offset, wanted);
        let length = wanted.min(contents.remaining().checked_sub(header)?);
        if length == 0 {
            return None;
        }
        let end = range.start.checked_add(length as u64)?;
        let room = contents.push_crypto(offset, length).ok()?;
        room.copy_from_slice(self.send.get(range.start..end)?);
        self.send.on_sent(range.start..end);
        Some(length)
    }

    /// Handles the acknowledgment of these bytes.
    pub(crate) fn on_acked(&mut self, offset: u64, length: u64) {
        self.send.on_acked(offset..offset.saturating_add(length));
    }

    /// Handles the loss of a packet that contained these bytes: the unacknowledged ones are
    /// retransmitted.
    pub(crate) fn on_lost(&mut self, offset: u64, length: u64) {
        self.send.on_lost(offset..offset.saturating_add(length));
    }

    /// Returns the number of bytes from the first unacknowledged byte on.
    pub(crate) fn unacked_len(&self) -> usize {
        self.send.bytes.len()
    }

    /// Sends all unacknowledged bytes again. Each byte is pending once, however often this is
    /// called.
    pub(crate) fn retransmit_all_unacked(&mut self) {
        self.send.on_lost(0..u64::MAX);
    }

    /// Processes the data of a CRYPTO frame.
    ///
    /// # Errors
    /// Returns CRYPTO_BUFFER_EXCEEDED beyond the limits on buffered bytes and fragments (RFC 9000
    /// §7.5).
    pub(crate) fn receive(&mut self, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        self.receive.insert(offset, data)
    }

    /// Processes the data of a CRYPTO frame like [`Self::receive`], but returns bytes that are next
    /// in order, so that they need not be buffered; returns nothing if other bytes are waiting to
    /// be read.
    ///
    /// # Errors
    /// Returns the same error as [`Self::receive`].
    pub(crate) fn receive_next<'a>(
        &mut self,
        offset: u64,
        data: &'a [u8],
    ) -> Result<&'a [u8], TransportError> {
        match self.receive.pass(offset, data) {
            Some(next) => Ok(next),
            None => self.receive.insert(offset, data).map(|()| &[][..]),
        }
    }

    /// Returns the next bytes in order, if they have arrived.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        self.receive.take()
    }

    /// Returns the number of bytes read.
    pub(crate) fn read_offset(&self) -> u64 {
        self.receive.read_offset
    }

    /// Returns the end of the received bytes, with or without gaps before it.
    pub(crate) fn received_end(&self) -> u64 {
        self.receive.received_end
    }

    /// Returns whether there are buffered, unread bytes.
    pub(crate) fn has_unread(&self) -> bool {
        !self.receive.fragments.is_empty()
    }
}

/// The written bytes that are not acknowledged yet.
#[derive(Debug, Default)]
struct SendBuffer {
    /// The stream offset of the first byte of `bytes`. All bytes below this offset are
    /// acknowledged.
    base: u64,
    bytes: Vec<u8>,
    /// The end of the bytes sent at least once.
    sent_end: u64,
    /// The acknowledged ranges above `base`.
    acked: RangeSet,
    /// The ranges to send again: disjoint from `acked`, below `sent_end`.
    lost: RangeSet,
}

impl SendBuffer {
    fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes.len() as u64)
    }

    /// Returns the range to send next. Lost bytes have smaller offsets than new ones.
    fn next_range(&self) -> Option<Range<u64>> {
        let unsent = self.sent_end..self.end();
        self.lost.first().or_else(|| (!unsent.is_empty()).then_some(unsent))
    }

    fn get(&self, range: Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.base)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.base)?).ok()?;
        self.bytes.get(start..end)
    }

    /// Returns the part of `range` that was sent and may still be unacknowledged.
    fn clip(&self, range: &Range<u64>) -> Range<u64> {
        range.start.max(self.base)..range.end.min(self.sent_end)
    }

    fn on_sent(&mut self, range: Range<u64>) {
        self.sent_end = self.sent_end.max(range.end);
        self.lost.remove(range);
    }

    fn on_acked(&mut self, range: Range<u64>) {
        let range = self.clip(&range);
        self.lost.remove(range.clone());
        self.acked.insert(range);
        let Some(first) = self.acked.first().filter(|first| first.start == self.base) else {
            return;
        };
        let length = first.end.saturating_sub(first.start);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..length);
        self.base = first.end;
        self.acked.remove(first);
    }

    fn on_lost(&mut self, range: Range<u64>) {
        self.lost.insert(self.clip(&range));
        for acked in self.acked.iter() {
            self.lost.remove(acked.clone());
        }
    }
}

/// The received bytes that cannot be read in order yet.
#[derive(Debug, Default)]
struct ReceiveBuffer {
    read_offset: u64,
    received_end: u64,
    /// Disjoint fragments at or above `read_offset`, keyed by their first offset.
    fragments: BTreeMap<u64, Vec<u8>>,
}

impl ReceiveBuffer {
    fn insert(&mut self, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.read_offset.saturating_add(RECEIVE_WINDOW) {
            return Err(TransportError::rule(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "a CRYPTO frame exceeds the buffer limit",
                "RFC 9000 §7.5",
            ));
        }
        self.received_end = self.received_end.max(end);
        // Bytes that are already buffered are kept; only gaps are filled.
        let mut position = offset.max(self.read_offset);
        while position < end {
            let covered_to = self.fragment_end_before(position);
            if covered_to > position {
                position = covered_to;
                continue;
            }
            let next_start =
                self.fragments.range(position..).next().map_or(end, |(start, _)| *start);
            let gap = position..next_start.min(end);
            position = gap.end;
            self.fill(gap, offset, data)?;
        }
        Ok(())
    }

    /// Returns the new bytes of `data`, if it is next in order, nothing is buffered, and it is
    /// within the window.
    fn pass<'a>(&mut self, offset: u64, data: &'a [u8]) -> Option<&'a [u8]> {
        let known = usize::try_from(self.read_offset.checked_sub(offset)?).ok()?;
        let next = data.get(known..).filter(|next| !next.is_empty())?;
        let length = next.len() as u64;
        if !self.fragments.is_empty() || length > RECEIVE_WINDOW {
            return None;
        }
        self.read_offset = self.read_offset.saturating_add(length);
        self.received_end = self.received_end.max(self.read_offset);
        Some(next)
    }

    /// Returns the end of the last fragment that begins at or below `position`; 0 if there is none.
    fn fragment_end_before(&self, position: u64) -> u64 {
        let fragment = self.fragments.range(..=position).next_back();
        fragment.map_or(0, |(start, bytes)| start.saturating_add(bytes.len() as u64))
    }

    /// Stores the bytes of `gap`, taken from `data`, which begins at `offset`.
    fn fill(&mut self, gap: Range<u64>, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = data.get(index(gap.start)..index(gap.end)).unwrap_or_default();
        // Appending is cheap; with prepending, each one-byte frame could cause a copy of the entire
        // window.
        if self.fragment_end_before(gap.start) == gap.start
            && let Some((_, fragment)) = self.fragments.range_mut(..gap.start).next_back()
        {
            fragment.extend_from_slice(bytes);
            return Ok(());
        }
        if self.fragments.len() >= MAX_FRAGMENTS {
            return Err(TransportError::rule(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "too many CRYPTO frames out of order",
                "RFC 9000 §7.5",
            ));
        }
        self.fragments.insert(gap.start, bytes.to_vec());
        Ok(())
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let first = self.fragments.first_entry()?;
        if *first.key() != self.read_offset {
            return None;
        }
        let bytes = first.remove();
        self.read_offset = self.read_offset.saturating_add(bytes.len() as u64);
        Some(bytes)
    }
}

#[cfg(test)]
#[path = "crypto_stream_tests.rs"]
mod tests;
