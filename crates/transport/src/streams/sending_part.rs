use core::ops::Range;
use std::collections::VecDeque;

use bytes::Bytes;
use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_wire::VarInt;

use super::flow::SendCredit;
use super::range_set::RangeSet;
use super::state::{Delivery, SendInput, SendState, StreamEnd};
use super::{StreamProgress, WriteError};
use clearway_units::memory::{OnDemand, Unused};

/// The data of one write, at its offset in the stream.
#[derive(Debug)]
struct Segment {
    start: u64,
    data: Bytes,
}

/// Data that is not yet acknowledged.
#[derive(Debug, Default)]
struct SendData {
    segments: VecDeque<Segment>,
    acknowledged: RangeSet,
    lost: RangeSet,
}

impl Unused for SendData {
    fn unused() -> &'static Self {
        static UNUSED: SendData = SendData {
            segments: VecDeque::new(),
            acknowledged: RangeSet::new(),
            lost: RangeSet::new(),
        };
        &UNUSED
    }
}

/// The contents of a STREAM frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chunk {
    /// The range of the data.
    pub(super) range: Range<u64>,
    /// Whether the FIN bit is set.
    pub(super) fin: bool,
}

/// The capacity, in segments, that is kept for reuse by another stream.
const SPARE_SEGMENTS: usize = 8;

/// The kinds of data and frames that a sending part has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SendNeeds {
    /// A RESET_STREAM, RESET_STREAM_AT or STREAM_DATA_BLOCKED frame.
    pub(super) control: bool,
    /// Data that can be sent without credit: see [`SendingPart::next_creditless`].
    pub(super) creditless: bool,
    /// New data within the limit on the stream.
    pub(super) fresh: bool,
    /// New data is blocked by the limit on the stream.
    pub(super) blocked: bool,
}

/// The sending part of a stream: the data that is not yet acknowledged, and the ranges of it to send.
///
/// Every byte below `base` is acknowledged. Every byte between `base` and the first unsent one is
/// acknowledged, lost or in flight: it is in one of the two range sets, or in neither.
#[derive(Debug)]
pub(super) struct SendingPart {
    state: SendState,
    /// The peer's limit. The credit used is the offset of the first byte that was never sent.
    credit: SendCredit,
    data: OnDemand<SendData>,
    base: u64,
    written: u64,
}

/// Packs a sending part that [is plain](SendingPart::is_plain); no other can be packed.
impl Pack for SendingPart {
    fn pack(&self, into: &mut Packer) {
        self.state.pack(into);
        self.credit.pack(into);
        self.base.pack(into);
        self.written.pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self {
            state: Pack::unpack(from),
            credit: Pack::unpack(from),
            base: Pack::unpack(from),
            written: Pack::unpack(from),
            ..Self::new(0)
        }
    }
}

impl SendingPart {
    /// Creates the sending part of a stream with a limit of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            state: SendState::Ready(None),
            credit: SendCredit::new(limit),
            data: OnDemand::default(),
            base: 0,
            written: 0,
        }
    }

    /// Reuses the [emptied](Self::empty) part of an ended stream for another stream.
    pub(super) fn renew(&mut self, limit: u64) {
        let data = core::mem::take(&mut self.data);
        *self = Self { data, ..Self::new(limit) };
    }

    /// Discards all data, but keeps a little memory for reuse by another stream.
    pub(super) fn empty(&mut self) {
        let Some(SendData { segments, acknowledged, lost }) = self.data.used() else { return };
        if segments.capacity() > SPARE_SEGMENTS || !acknowledged.is_empty() || !lost.is_empty() {
            self.data.release();
        } else {
            segments.clear();
        }
    }

    /// Handles the rejection of early data: the peer has received nothing, and its limit is not
    /// known yet.
    pub(super) fn restart(&mut self) {
        self.credit = SendCredit::new(0);
        self.data.lost.clear();
        match &mut self.state {
            SendState::Send(_) | SendState::DataSent(..) => {
                self.state = SendState::Ready(self.state.end());
            }
            SendState::ResetSent { is_owed, .. } => *is_owed = true,
            SendState::Ready(_) | SendState::DataReceived(_) | SendState::ResetReceived { .. } => {}
        }
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        if self.buffered() == 0 {
            self.data.release();
        }
    }

    /// Returns whether there is no data, and the stream was neither reset nor stopped.
    pub(super) fn is_plain(&self) -> bool {
        !self.data.is_used() && self.state.is_plain()
    }

    /// Returns the state of RFC 9000 §3.1.
    pub(super) const fn state(&self) -> SendState {
        self.state
    }

    /// Returns the peer's limit.
    pub(super) fn credit_mut(&mut self) -> &mut SendCredit {
        &mut self.credit
    }

    /// Returns whether the FIN was sent.
    pub(super) const fn has_sent_end(&self) -> bool {
        matches!(self.state, SendState::DataSent(..) | SendState::DataReceived(_))
    }

    /// Checks whether the application may write.
    pub(super) fn check_writable(&self) -> Result<(), WriteError> {
        match self.state {
            SendState::Ready(None) | SendState::Send(None) => Ok(()),
            SendState::ResetSent { stopped: Some(code), .. }
            | SendState::ResetReceived { stopped: Some(code) } => Err(WriteError::Stopped(code)),
            _ => Err(WriteError::Closed),
        }
    }

    /// Appends `data`.
    pub(super) fn write(&mut self, data: Bytes) {
        let start = self.written;
        self.written = start.saturating_add(data.len() as u64);
        if !data.is_empty() {
            self.data.segments.push_back(Segment { start, data });
        }
    }

    /// Ends the stream after the data written so far.
    pub(super) fn finish(&mut self) {
        if let SendState::Ready(end @ None) | SendState::Send(end @ None) = &mut self.state {
            *end = Some(StreamEnd::Fin);
        }
    }

    /// Returns the end of the data that is kept until it is acknowledged.
    const fn kept_end(&self) -> u64 {
        match self.state.end() {
            Some(StreamEnd::ResetAt { reliable_size, .. }) => reliable_size,
            _ => self.written,
        }
    }

    /// Returns the number of bytes that are kept.
    pub(super) const fn buffered(&self) -> u64 {
        if self.state.carries_data() { self.kept_end().saturating_sub(self.base) } else { 0 }
    }

    /// Returns the number of written bytes that were never sent.
    pub(super) const fn unsent(&self) -> u64 {
        if self.state.carries_data() { self.written.saturating_sub(self.credit.used()) } else { 0 }
    }

    /// Returns how many more bytes may be written within the limit on this stream.
    pub(super) fn permitted(&self) -> u64 {
        match self.check_writable() {
            Ok(()) => self.credit.limit().saturating_sub(self.written.max(self.credit.used())),
            Err(_) => 0,
        }
    }

    /// Returns how much of the written data the peer has acknowledged.
    pub(super) fn progress(&self) -> StreamProgress {
        let outstanding = self.buffered();
        let is_blocked =
            outstanding > 0 && self.written > self.credit.used() && self.credit.available() == 0;
        StreamProgress { acknowledged: self.base, outstanding, is_blocked, received: 0 }
    }

    /// Abandons unacknowledged data; RESET_STREAM has to be sent. Returns whether that was still
    /// possible.
    pub(super) fn reset(&mut self, code: VarInt) -> bool {
        // The error code must not change (draft-ietf-quic-reliable-stream-reset §5.2).
        let code = self.partial_code().unwrap_or(code);
        if !self.advance(SendInput::Resets(code)) {
            return false;
        }
        self.data.release();
        true
    }

    /// Abandons the data from `reliable_size` on. Data before that is delivered, and then
    /// RESET_STREAM_AT has to be sent. Does nothing if everything is acknowledged, or an earlier
    /// reset leaves no more to be delivered.
    pub(super) fn reset_at(&mut self, code: VarInt, reliable_size: u64) {
        let (kept, before) = (self.kept_end(), self.partial_code());
        let reliable_size = reliable_size.min(kept);
        if before.is_some() && kept <= reliable_size {
            return;
        }
        let new = StreamEnd::ResetAt { code: before.unwrap_or(code), reliable_size };
        match &mut self.state {
            SendState::Ready(end) | SendState::Send(end) => *end = Some(new),
            SendState::DataSent(end, delivery) => (*end, *delivery) = (new, Delivery::Owed),
            _ => return,
        }
        // The final size: what was already sent, and what still has to be sent.
        self.written = self.credit.used().max(reliable_size);
        self.data.lost.remove(reliable_size..u64::MAX);
        while let Some(last) = self.data.segments.back_mut()
            && last.start.saturating_add(last.data.len() as u64) > reliable_size
        {
            let kept = usize::try_from(reliable_size.saturating_sub(last.start));
            last.data.truncate(kept.unwrap_or(usize::MAX));
            if !last.data.is_empty() {
                break;
            }
            self.data.segments.pop_back();
        }
    }

    /// Returns the error code, final size and reliable size of the RESET_STREAM_AT frame to send,
    /// if any. It is sent after the data before the reliable size, so that the peer's limits allow
    /// the final size.
    pub(super) fn pending_reset_at(&self) -> Option<(VarInt, u64, u64)> {
        let StreamEnd::ResetAt { code, reliable_size } = self.state.owed_end()? else {
            return None;
        };
        (self.credit.used() == self.written).then_some((code, self.written, reliable_size))
    }

    /// Records that the RESET_STREAM_AT frame was sent.
    pub(super) fn on_reset_at_sent(&mut self) {
        self.on_end_sent();
    }

    /// Records that the frame that ends the stream was sent.
    fn on_end_sent(&mut self) {
        self.advance(SendInput::SendsFrame);
        if let Some(end) = self.state.owed_end()
            && !self.advance(SendInput::SendsEnd(end))
        {
            self.state = SendState::DataSent(end, Delivery::InFlight);
        }
    }

    /// Handles the loss of the frame that ends the stream.
    fn on_end_lost(&mut self) {
        if let SendState::DataSent(_, delivery @ Delivery::InFlight) = &mut self.state {
            *delivery = Delivery::Owed;
        }
    }

    /// Handles the acknowledgment of the frame that ends the stream.
    fn on_end_acknowledged(&mut self) {
        if let SendState::DataSent(_, delivery) = &mut self.state {
            *delivery = Delivery::Acknowledged;
        }
    }

    /// Handles the loss of a RESET_STREAM_AT frame with `reliable_size`.
    pub(super) fn on_reset_at_lost(&mut self, reliable_size: u64) {
        if self.is_newest_reset_at(reliable_size) {
            self.on_end_lost();
        }
    }

    /// Handles the acknowledgment of a RESET_STREAM_AT frame with `reliable_size`. Returns whether
    /// this ends the stream.
    pub(super) fn on_reset_at_acknowledged(&mut self, reliable_size: u64) -> bool {
        if self.is_newest_reset_at(reliable_size) {
            self.on_end_acknowledged();
        }
        self.end_if_acknowledged()
    }

    fn is_newest_reset_at(&self, size: u64) -> bool {
        let end = self.state.end();
        matches!(end, Some(StreamEnd::ResetAt { reliable_size, .. }) if reliable_size == size)
    }

    /// Returns the error code of a reset after which the beginning of the stream is still
    /// delivered.
    const fn partial_code(&self) -> Option<VarInt> {
        match self.state.end() {
            Some(StreamEnd::ResetAt { code, .. }) => Some(code),
            _ => None,
        }
    }

    /// Returns whether anything was written.
    pub(super) const fn has_any(&self) -> bool {
        self.written > 0
    }

    /// Returns whether a reset leaves the beginning of the stream to be delivered.
    pub(super) const fn is_partially_reset(&self) -> bool {
        self.partial_code().is_some()
    }

    /// Handles STOP_SENDING: the stream is reset with its error code (RFC 9000 §3.5). Returns
    /// whether this is new to the application.
    pub(super) fn on_stop_sending(&mut self, code: VarInt) -> bool {
        let resets = self.reset(code);
        if let SendState::ResetSent { stopped, .. } = &mut self.state
            && resets
        {
            *stopped = Some(code);
        }
        resets
    }

    /// Returns the error code and final size of the RESET_STREAM frame to send, if any.
    pub(super) fn pending_reset(&self) -> Option<(VarInt, u64)> {
        match self.state {
            SendState::ResetSent { code, is_owed: true, .. } => Some((code, self.credit.used())),
            _ => None,
        }
    }

    /// Records that the RESET_STREAM frame was sent.
    pub(super) fn on_reset_sent(&mut self) {
        self.set_reset_owed(false);
    }

    /// Handles the loss of the RESET_STREAM frame.
    pub(super) fn on_reset_lost(&mut self) {
        self.set_reset_owed(true);
    }

    fn set_reset_owed(&mut self, is_owed: bool) {
        if let SendState::ResetSent { is_owed: before, .. } = &mut self.state {
            *before = is_owed;
        }
    }

    /// Handles the acknowledgment of the RESET_STREAM frame. Returns whether it is the first one.
    pub(super) fn on_reset_acknowledged(&mut self) -> bool {
        self.advance(SendInput::ResetAcknowledged)
    }

    /// Records that a STREAM or STREAM_DATA_BLOCKED frame was sent.
    pub(super) fn on_frame_sent(&mut self) {
        self.advance(SendInput::SendsFrame);
    }

    /// Returns whether new data is blocked by the limit on this stream.
    pub(super) const fn is_blocked(&self) -> bool {
        self.state.carries_data()
            && self.written > self.credit.used()
            && self.credit.available() == 0
    }

    /// Returns whether a STREAM_DATA_BLOCKED frame has to be sent.
    pub(super) fn is_blocked_report_pending(&self) -> bool {
        self.is_blocked() && self.credit.is_report_pending()
    }

    /// Returns how many new bytes the limit on this stream allows.
    pub(super) fn fresh_allowed(&self) -> u64 {
        if !self.state.carries_data() {
            return 0;
        }
        self.written.saturating_sub(self.credit.used()).min(self.credit.available())
    }

    /// Returns what has to be sent.
    #[inline]
    pub(super) fn needs(&self) -> SendNeeds {
        if !self.state.carries_data() {
            let control = matches!(self.state, SendState::ResetSent { is_owed: true, .. });
            return SendNeeds { control, ..SendNeeds::default() };
        }
        let has_fresh = self.written > self.credit.used();
        let is_blocked = has_fresh && self.credit.available() == 0;
        let end = if has_fresh { None } else { self.state.owed_end() };
        let resets_at = matches!(end, Some(StreamEnd::ResetAt { .. }));
        let is_finished = matches!(end, Some(StreamEnd::Fin));
        SendNeeds {
            control: resets_at || is_blocked && self.credit.is_report_pending(),
            creditless: is_finished || !self.data.lost.is_empty(),
            fresh: has_fresh && !is_blocked,
            blocked: is_blocked,
        }
    }

    /// Returns the next new data, at most `max` bytes, with the FIN if it reaches the end.
    pub(super) fn next_fresh(&self, max: u64) -> Option<Chunk> {
        let bytes = self.fresh_allowed().min(max);
        let start = self.credit.used();
        (bytes > 0).then(|| self.chunk(start..start.saturating_add(bytes)))
    }

    /// Returns data that can be sent without credit: lost bytes, or a FIN without data.
    pub(super) fn next_creditless(&self) -> Option<Chunk> {
        if !self.state.carries_data() {
            return None;
        }
        if let Some(range) = self.data.lost.first() {
            return Some(self.chunk(range));
        }
        let bare_end = self.owes_fin() && self.credit.used() == self.written;
        bare_end.then(|| self.chunk(self.written..self.written))
    }

    fn chunk(&self, range: Range<u64>) -> Chunk {
        let fin = self.owes_fin() && range.end == self.written;
        Chunk { range, fin }
    }

    fn owes_fin(&self) -> bool {
        self.state.owed_end() == Some(StreamEnd::Fin)
    }

    /// Copies the data from `offset` on into `space`.
    pub(super) fn copy_to(&self, offset: u64, mut space: &mut [u8]) {
        let after = self.data.segments.partition_point(|segment| segment.start <= offset);
        let mut skip = self
            .data
            .segments
            .get(after.saturating_sub(1))
            .map_or(0, |segment| offset.saturating_sub(segment.start) as usize);
        for segment in self.data.segments.range(after.saturating_sub(1)..) {
            let data = segment.data.get(skip..).unwrap_or_default();
            let length = data.len().min(space.len());
            let (filled, rest) = space.split_at_mut(length);
            filled.copy_from_slice(data.get(..length).unwrap_or_default());
            space = rest;
            skip = 0;
            if space.is_empty() {
                break;
            }
        }
        debug_assert!(space.is_empty(), "data to be sent is kept");
    }

    /// Records that `sent` was written into a packet. Returns how many of its bytes are new.
    pub(super) fn on_sent(&mut self, sent: &Chunk) -> u64 {
        let fresh = sent.range.end.saturating_sub(self.credit.used());
        let permitted = self.credit.consume(fresh);
        debug_assert!(permitted, "a frame stays within the limit");
        if fresh == 0 {
            self.data.lost.remove(sent.range.clone());
        }
        if sent.fin {
            self.on_end_sent();
        } else {
            self.advance(SendInput::SendsFrame);
        }
        fresh
    }

    /// Handles the acknowledgment of a frame with `range`, and the FIN if `fin`. Returns how many
    /// bytes are no longer kept.
    pub(super) fn on_acknowledged(&mut self, range: Range<u64>, fin: bool) -> u64 {
        if !self.state.carries_data() {
            return 0;
        }
        let kept = self.buffered();
        self.data.lost.remove(range.clone());
        if range.start > self.base {
            self.data.acknowledged.insert(range);
        } else {
            self.base = self.base.max(range.end);
            while let Some(next) =
                self.data.acknowledged.first().filter(|next| next.start <= self.base)
            {
                self.base = self.base.max(next.end);
                self.data.acknowledged.remove(next);
            }
        }
        self.release_segments();
        // After a partial reset, the FIN, which may have been sent before it, is useful only if all
        // data arrives.
        if fin && (!self.is_partially_reset() || self.base == self.written) {
            self.on_end_acknowledged();
        }
        self.end_if_acknowledged();
        kept.saturating_sub(self.buffered())
    }

    /// Ends the stream if everything that has to be delivered is acknowledged. Returns whether it
    /// ended just now.
    fn end_if_acknowledged(&mut self) -> bool {
        matches!(self.state, SendState::DataSent(_, Delivery::Acknowledged))
            && self.base >= self.kept_end()
            && self.advance(SendInput::AllAcknowledged)
    }

    /// Handles the loss of a frame with `range`, and the FIN if `fin`. The unacknowledged parts are
    /// retransmitted.
    pub(super) fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if !self.state.carries_data() {
            return;
        }
        let unacknowledged = range.start.max(self.base)..range.end.min(self.kept_end());
        let SendData { acknowledged, lost, .. } = &mut *self.data;
        for gap in acknowledged.gaps(unacknowledged) {
            lost.insert(gap);
        }
        if fin && !self.is_partially_reset() {
            self.on_end_lost();
        }
    }

    fn release_segments(&mut self) {
        let Some(SendData { segments, .. }) = self.data.used() else { return };
        while let Some(segment) = segments.front()
            && segment.start.saturating_add(segment.data.len() as u64) <= self.base
        {
            segments.pop_front();
        }
    }

    /// Checks that all data that may have to be sent is present, and that [`needs`](Self::needs) is
    /// correct.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        let SendData { segments, acknowledged, lost } = &*self.data;
        let known = self.base..self.credit.used().min(self.kept_end());
        for range in acknowledged.all().chain(lost.all()).filter(|_| self.state.carries_data()) {
            assert!(range.start >= known.start && range.end <= self.credit.used(), "{range:?}");
        }
        assert!(lost.all().all(|range| acknowledged.is_disjoint(range) && range.end <= known.end));
        let mut end = segments.front().map_or(self.base, |first| first.start);
        assert!(end <= self.base || !self.state.carries_data(), "{end} is after {}", self.base);
        for Segment { start, data } in segments {
            assert_eq!(*start, end, "segments are contiguous");
            end = start.saturating_add(data.len() as u64);
        }
        let is_whole = end.max(self.base) == self.kept_end().max(self.base);
        assert!(is_whole || !self.state.carries_data(), "{end}, not {}", self.kept_end());
        let resets = self.pending_reset().is_some() || self.pending_reset_at().is_some();
        let needs = SendNeeds {
            control: resets || self.is_blocked_report_pending(),
            creditless: self.next_creditless().is_some(),
            fresh: self.fresh_allowed() > 0,
            blocked: self.is_blocked(),
        };
        assert_eq!(self.needs(), needs, "which data and frames wait to be sent");
    }

    fn advance(&mut self, input: SendInput) -> bool {
        match self.state.after(input) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
#[path = "sending_part_tests.rs"]
mod tests;
