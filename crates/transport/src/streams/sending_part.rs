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

/// Data that is not acknowledged.
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
    /// Whether the frame has the FIN.
    pub(super) fin: bool,
}

/// The memory for this many segments is kept for another stream.
const SPARE_SEGMENTS: usize = 8;

/// What a sending part has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SendNeeds {
    /// A RESET_STREAM, RESET_STREAM_AT or STREAM_DATA_BLOCKED.
    pub(super) control: bool,
    /// Data that can be sent without credit: see [`SendingPart::next_creditless`].
    pub(super) creditless: bool,
    /// New data that the limit on the stream permits.
    pub(super) fresh: bool,
    /// New data is blocked by the limit on the stream.
    pub(super) blocked: bool,
}

/// The sending part of a stream: the data that is not yet acknowledged, and the ranges of it to send.
///
/// Every byte below `base` is acknowledged. Every byte between `base` and the first unsent one is acknowledged, lost or in
/// flight: it is in one of the two range sets, or in neither.
#[derive(Debug)]
pub(super) struct SendingPart {
    state: SendState,
    /// The peer's limit. The credit used is the offset of the first byte that was never sent.
    credit: SendCredit,
    data: OnDemand<SendData>,
    base: u64,
    written: u64,
}

/// Only one that [is plain](SendingPart::is_plain) is packed.
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
    /// A stream with a limit of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            state: SendState::Ready(None),
            credit: SendCredit::new(limit),
            data: OnDemand::default(),
            base: 0,
            written: 0,
        }
    }

    /// Makes the part of a stream that has ended, and that is [empty](Self::empty), that of another stream.
    pub(super) fn renew(&mut self, limit: u64) {
        let data = core::mem::take(&mut self.data);
        *self = Self { data, ..Self::new(limit) };
    }

    /// Discards all data, but keeps a little memory for that of another stream.
    pub(super) fn empty(&mut self) {
        let Some(SendData { segments, acknowledged, lost }) = self.data.used() else { return };
        if segments.capacity() > SPARE_SEGMENTS || !acknowledged.is_empty() || !lost.is_empty() {
            self.data.give_back();
        } else {
            segments.clear();
        }
    }

    /// The peer rejected early data: nothing was sent, so far as it is concerned, and its limit is not known yet.
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

    /// Gives back the memory for more data than there is.
    pub(super) fn rest(&mut self) {
        if self.buffered() == 0 {
            self.data.give_back();
        }
    }

    /// Whether there is no data, and nobody has reset or stopped the stream.
    pub(super) fn is_plain(&self) -> bool {
        !self.data.is_used() && self.state.is_plain()
    }

    /// The state of RFC 9000 §3.1.
    pub(super) const fn state(&self) -> SendState {
        self.state
    }

    /// The peer's limit.
    pub(super) fn credit_mut(&mut self) -> &mut SendCredit {
        &mut self.credit
    }

    /// Whether the FIN was sent.
    pub(super) const fn has_sent_end(&self) -> bool {
        matches!(self.state, SendState::DataSent(..) | SendState::DataReceived(_))
    }

    /// Whether the application may write.
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

    /// The application writes no more.
    pub(super) fn finish(&mut self) {
        if let SendState::Ready(end @ None) | SendState::Send(end @ None) = &mut self.state {
            *end = Some(StreamEnd::Fin);
        }
    }

    /// The end of the data that is kept until it is acknowledged.
    const fn kept_end(&self) -> u64 {
        match self.state.end() {
            Some(StreamEnd::ResetAt { reliable_size, .. }) => reliable_size,
            _ => self.written,
        }
    }

    /// The number of bytes that are kept.
    pub(super) const fn buffered(&self) -> u64 {
        if self.state.carries_data() { self.kept_end().saturating_sub(self.base) } else { 0 }
    }

    /// The number of written bytes that were never sent.
    pub(super) const fn unsent(&self) -> u64 {
        if self.state.carries_data() { self.written.saturating_sub(self.credit.used()) } else { 0 }
    }

    /// How many more bytes may be written that the limit on this stream permits to send.
    pub(super) fn permitted(&self) -> u64 {
        match self.check_writable() {
            Ok(()) => self.credit.limit().saturating_sub(self.written.max(self.credit.used())),
            Err(_) => 0,
        }
    }

    /// How much of the written data the peer has.
    pub(super) fn progress(&self) -> StreamProgress {
        let outstanding = self.buffered();
        let is_blocked =
            outstanding > 0 && self.written > self.credit.used() && self.credit.available() == 0;
        StreamProgress { acknowledged: self.base, outstanding, is_blocked, received: 0 }
    }

    /// Abandons data that is not acknowledged; a RESET_STREAM is to be sent. Returns whether that was still possible.
    pub(super) fn reset(&mut self, code: VarInt) -> bool {
        // The error code must not change (draft-ietf-quic-reliable-stream-reset §5.2).
        let code = self.partial_code().unwrap_or(code);
        if !self.advance(SendInput::Resets(code)) {
            return false;
        }
        self.data.give_back();
        true
    }

    /// Abandons the data from `reliable_size` on; what is before it is delivered, and then a RESET_STREAM_AT is to be sent.
    /// Does nothing if everything is acknowledged, or a reset before this one leaves no more to be delivered.
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
        // The final size: what was sent already, and what is still to be sent.
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

    /// The error code, final size and reliable size of the RESET_STREAM_AT to send, if any. It follows the data before the
    /// reliable size, so that the peer's limits permit the final size.
    pub(super) fn pending_reset_at(&self) -> Option<(VarInt, u64, u64)> {
        let StreamEnd::ResetAt { code, reliable_size } = self.state.owed_end()? else {
            return None;
        };
        (self.credit.used() == self.written).then_some((code, self.written, reliable_size))
    }

    /// The RESET_STREAM_AT was sent.
    pub(super) fn on_reset_at_sent(&mut self) {
        self.on_end_sent();
    }

    /// The frame with the end was sent.
    fn on_end_sent(&mut self) {
        self.advance(SendInput::SendsFrame);
        if let Some(end) = self.state.owed_end()
            && !self.advance(SendInput::SendsEnd(end))
        {
            self.state = SendState::DataSent(end, Delivery::InFlight);
        }
    }

    /// The frame with the end was lost.
    fn on_end_lost(&mut self) {
        if let SendState::DataSent(_, delivery @ Delivery::InFlight) = &mut self.state {
            *delivery = Delivery::Owed;
        }
    }

    /// The frame with the end was acknowledged.
    fn on_end_acknowledged(&mut self) {
        if let SendState::DataSent(_, delivery) = &mut self.state {
            *delivery = Delivery::Acknowledged;
        }
    }

    /// A RESET_STREAM_AT with `reliable_size` was lost.
    pub(super) fn on_reset_at_lost(&mut self, reliable_size: u64) {
        if self.is_newest_reset_at(reliable_size) {
            self.on_end_lost();
        }
    }

    /// A RESET_STREAM_AT with `reliable_size` was acknowledged. Returns whether this ends the stream.
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

    /// The error code of a reset that leaves the beginning of the stream to be delivered.
    const fn partial_code(&self) -> Option<VarInt> {
        match self.state.end() {
            Some(StreamEnd::ResetAt { code, .. }) => Some(code),
            _ => None,
        }
    }

    /// Whether anything was written.
    pub(super) const fn has_any(&self) -> bool {
        self.written > 0
    }

    /// Whether a reset leaves the beginning of the stream to be delivered.
    pub(super) const fn is_partially_reset(&self) -> bool {
        self.partial_code().is_some()
    }

    /// A STOP_SENDING was received: the stream is reset with its code (RFC 9000 §3.5). Returns whether this is new to the
    /// application.
    pub(super) fn on_stop_sending(&mut self, code: VarInt) -> bool {
        let resets = self.reset(code);
        if let SendState::ResetSent { stopped, .. } = &mut self.state
            && resets
        {
            *stopped = Some(code);
        }
        resets
    }

    /// The error code and final size of the RESET_STREAM to send, if any.
    pub(super) fn pending_reset(&self) -> Option<(VarInt, u64)> {
        match self.state {
            SendState::ResetSent { code, is_owed: true, .. } => Some((code, self.credit.used())),
            _ => None,
        }
    }

    /// The RESET_STREAM was sent.
    pub(super) fn on_reset_sent(&mut self) {
        self.set_reset_owed(false);
    }

    /// The RESET_STREAM was lost.
    pub(super) fn on_reset_lost(&mut self) {
        self.set_reset_owed(true);
    }

    fn set_reset_owed(&mut self, is_owed: bool) {
        if let SendState::ResetSent { is_owed: before, .. } = &mut self.state {
            *before = is_owed;
        }
    }

    /// The RESET_STREAM was acknowledged. Returns whether for the first time.
    pub(super) fn on_reset_acknowledged(&mut self) -> bool {
        self.advance(SendInput::ResetAcknowledged)
    }

    /// A STREAM or STREAM_DATA_BLOCKED frame was sent.
    pub(super) fn on_frame_sent(&mut self) {
        self.advance(SendInput::SendsFrame);
    }

    /// Whether new data is blocked by the limit on this stream.
    pub(super) const fn is_blocked(&self) -> bool {
        self.state.carries_data()
            && self.written > self.credit.used()
            && self.credit.available() == 0
    }

    /// Whether a STREAM_DATA_BLOCKED is to be sent.
    pub(super) fn is_blocked_report_pending(&self) -> bool {
        self.is_blocked() && self.credit.is_report_pending()
    }

    /// How many new bytes the limit on this stream permits.
    pub(super) fn fresh_allowed(&self) -> u64 {
        if !self.state.carries_data() {
            return 0;
        }
        self.written.saturating_sub(self.credit.used()).min(self.credit.available())
    }

    /// What is to be sent.
    pub(super) fn needs(&self) -> SendNeeds {
        if !self.state.carries_data() {
            let control = matches!(self.state, SendState::ResetSent { is_owed: true, .. });
            return SendNeeds { control, ..SendNeeds::default() };
        }
        let has_fresh = self.written > self.credit.used();
        let is_blocked = has_fresh && self.credit.available() == 0;
        let end = self.state.owed_end().filter(|_| !has_fresh);
        let resets_at = matches!(end, Some(StreamEnd::ResetAt { .. }));
        SendNeeds {
            control: resets_at || is_blocked && self.credit.is_report_pending(),
            creditless: end == Some(StreamEnd::Fin) || !self.data.lost.is_empty(),
            fresh: has_fresh && !is_blocked,
            blocked: is_blocked,
        }
    }

    /// The next new data, at most `max` bytes, with the FIN if it reaches the end.
    pub(super) fn next_fresh(&self, max: u64) -> Option<Chunk> {
        let bytes = self.fresh_allowed().min(max);
        let start = self.credit.used();
        (bytes > 0).then(|| self.chunk(start..start.saturating_add(bytes)))
    }

    /// Data that can be sent without credit: lost bytes, or a FIN without data.
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
        debug_assert!(space.is_empty(), "what is to be sent is held");
    }

    /// `sent` was written into a packet. Returns how many of its bytes are new.
    pub(super) fn on_sent(&mut self, sent: &Chunk) -> u64 {
        let fresh = sent.range.end.saturating_sub(self.credit.used());
        let permitted = self.credit.consume(fresh);
        debug_assert!(permitted, "a frame keeps to the limit");
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

    /// A frame with `range`, and the FIN if `fin`, was acknowledged. Returns how many bytes are no longer kept.
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
        // After a partial reset the FIN, which may have been sent before it, is of use only if all data arrives.
        if fin && (!self.is_partially_reset() || self.base == self.written) {
            self.on_end_acknowledged();
        }
        self.end_if_acknowledged();
        kept.saturating_sub(self.buffered())
    }

    /// Ends the stream if everything that has to be delivered is acknowledged. Returns whether this was so just now.
    fn end_if_acknowledged(&mut self) -> bool {
        matches!(self.state, SendState::DataSent(_, Delivery::Acknowledged))
            && self.base >= self.kept_end()
            && self.advance(SendInput::AllAcknowledged)
    }

    /// A frame with `range`, and the FIN if `fin`, was lost. What of it is not acknowledged is sent again.
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

    /// Checks that the data is there that may have to be sent, and that [`needs`](Self::needs) says what there is to send.
    ///
    /// # Panics
    /// If not: a fault of this crate.
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
            assert_eq!(*start, end, "segments follow each other");
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
        assert_eq!(self.needs(), needs, "what there is to send");
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
