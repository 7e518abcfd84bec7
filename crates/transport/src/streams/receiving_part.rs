use clearway_units::Timestamp;
use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_wire::{TransportErrorCode, VarInt, frame};

use super::flow::{ConnectionFlow, Exceeded, ReceiveWindow};
use super::reassembly::{Reassembly, TooManyGaps};
use super::state::{ReceiveInput, ReceiveState};
use super::{ReadError, ReadOutcome, UnknownStream};
use crate::TransportError;

/// A reset with RESET_STREAM_AT, after which the beginning of the stream is still delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PartialReset {
    code: VarInt,
    /// The smallest reliable size received.
    reliable_size: u64,
}

/// The receiving part of a stream.
#[derive(Debug)]
pub(super) struct ReceivingPart {
    /// The state machine of RFC 9000 §3.2.
    state: ReceiveState,
    data: Reassembly,
    window: ReceiveWindow,
    final_size: Option<u64>,
    reset_code: Option<VarInt>,
    partial: Option<PartialReset>,
    /// The error code with which the application has stopped the stream, if it has.
    stopped: Option<VarInt>,
    pending_stop: bool,
    pending_limit: bool,
    /// Whether an event has to report when there is something to read, because the application
    /// found nothing to read or has not been notified of the peer's reset.
    pub(super) awaits_data: bool,
}

/// Packs a receiving part that [is plain](ReceivingPart::is_plain); no other can be packed.
impl Pack for ReceivingPart {
    fn pack(&self, into: &mut Packer) {
        self.state.pack(into);
        self.data.read_offset().pack(into);
        self.window.pack(into);
        self.final_size.pack(into);
        self.awaits_data.pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let state = Pack::unpack(from);
        let data = Reassembly::at(Pack::unpack(from));
        let window = Pack::unpack(from);
        let (final_size, awaits_data) = Pack::unpack(from);
        Self { state, data, final_size, awaits_data, ..Self::new(window) }
    }
}

impl ReceivingPart {
    /// Creates the receiving part of a stream whose peer is limited by `window`.
    pub(super) fn new(window: ReceiveWindow) -> Self {
        Self {
            state: ReceiveState::Receive,
            data: Reassembly::default(),
            window,
            final_size: None,
            reset_code: None,
            partial: None,
            stopped: None,
            pending_stop: false,
            pending_limit: false,
            awaits_data: true,
        }
    }

    /// Reuses the [emptied](Self::empty) part of an ended stream for another stream.
    pub(super) fn renew(&mut self, window: ReceiveWindow) {
        let mut data = core::mem::take(&mut self.data);
        data.restart();
        *self = Self { data, ..Self::new(window) };
    }

    /// Discards all data, but keeps a little memory for reuse by another stream.
    pub(super) fn empty(&mut self) {
        self.data.empty();
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        self.data.compact();
    }

    /// Returns whether there is no data and nothing to be sent, and the stream was neither reset
    /// nor stopped.
    pub(super) const fn is_plain(&self) -> bool {
        self.data.is_empty()
            && self.reset_code.is_none()
            && self.partial.is_none()
            && self.stopped.is_none()
            && !self.pending_stop
            && !self.pending_limit
    }

    /// Returns the stream's receive window.
    pub(super) const fn window(&self) -> &ReceiveWindow {
        &self.window
    }

    /// Returns whether nothing more can happen that the application or the peer would notice.
    pub(super) const fn is_done(&self) -> bool {
        self.state.is_terminal() || (self.stopped.is_some() && self.final_size.is_some())
    }

    /// Returns the known length of the stream, in bytes.
    pub(super) const fn received(&self) -> u64 {
        self.window.received()
    }

    /// Returns how many bytes can be read.
    pub(super) fn readable(&self) -> u64 {
        match self.partial {
            Some(partial) => {
                let rest = partial.reliable_size.saturating_sub(self.data.read_offset());
                self.data.readable().min(rest)
            }
            None => self.data.readable(),
        }
    }

    /// Returns the reliable size of a RESET_STREAM_AT, if one was received.
    pub(super) fn reliable_size(&self) -> Option<u64> {
        self.partial.map(|partial| partial.reliable_size)
    }

    /// Returns whether a read would return data, the end or a reset.
    pub(super) fn has_unread(&self) -> bool {
        self.stopped.is_none()
            && (self.readable() > 0
                || matches!(self.state, ReceiveState::DataReceived | ReceiveState::ResetReceived))
    }

    /// Returns whether the application is waiting for data or the end, and more data can be
    /// received.
    pub(super) const fn is_waited_for(&self) -> bool {
        self.awaits_data && self.stopped.is_none() && self.state.takes_data()
    }

    /// Returns whether data is known to be missing, either before other received data or before the
    /// final size.
    pub(super) fn misses_data(&self) -> bool {
        let end = self.partial.map_or(self.window.received(), |partial| partial.reliable_size);
        end > self.data.end()
    }

    /// Processes a STREAM frame. Returns the number of bytes by which the known length of the
    /// stream has grown.
    pub(super) fn on_stream(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        frame: &frame::Stream<'_>,
    ) -> Result<u64, TransportError> {
        let end = frame.offset.get().saturating_add(frame.data.len() as u64);
        self.check_final_size(end, frame.fin)?;
        let added = self.extend(now, connection, end)?;
        if frame.fin {
            self.final_size = Some(end);
            self.pending_limit = false;
            self.pending_stop = false;
            self.advance(ReceiveInput::End);
        }
        if self.stopped.is_some() {
            self.give_back_all(now, connection);
        } else if self.state.takes_data() {
            self.data.insert(frame.offset.get(), frame.data).map_err(too_many_gaps)?;
            self.note_all_received();
        }
        Ok(added)
    }

    /// Updates the state if everything to be delivered has been received: up to the final size, or
    /// up to the reliable size of a reset.
    fn note_all_received(&mut self) {
        let end = self.partial.map(|partial| partial.reliable_size).or(self.final_size);
        if end.is_some_and(|end| self.data.end() >= end) {
            self.advance(ReceiveInput::AllReceived);
        }
    }

    /// Processes a RESET_STREAM_AT frame, which ends the stream as a FIN does, except for data
    /// beyond the reliable size (draft-ietf-quic-reliable-stream-reset §5.3). Returns the number of
    /// bytes by which the known length of the stream has grown.
    pub(super) fn on_reset_stream_at(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        frame: &frame::ResetStreamAt,
    ) -> Result<u64, TransportError> {
        let final_size = frame.final_size.get();
        self.check_final_size(final_size, true)?;
        self.check_code(frame.error_code, self.reset_code)?;
        let added = self.extend(now, connection, final_size)?;
        self.final_size = Some(final_size);
        self.pending_limit = false;
        self.pending_stop = false;
        // Everything that follows is discarded or was already delivered, so the reset changes
        // nothing.
        if self.stopped.is_some() {
            self.give_back_all(now, connection);
            return Ok(added);
        }
        if !self.state.takes_data() {
            return Ok(added);
        }
        let reliable_size = frame.reliable_size.get();
        // A frame with a larger size was sent earlier (§5.2).
        let reliable_size =
            self.partial.map_or(reliable_size, |it| it.reliable_size.min(reliable_size));
        self.partial = Some(PartialReset { code: frame.error_code, reliable_size });
        self.advance(ReceiveInput::End);
        self.note_all_received();
        Ok(added)
    }

    /// Checks that the error code of a reset is the one in the RESET_STREAM_AT before it or,
    /// without a RESET_STREAM_AT, the code `before`, if any (draft-ietf-quic-reliable-stream-reset
    /// §5.2).
    fn check_code(&self, code: VarInt, before: Option<VarInt>) -> Result<(), TransportError> {
        let before = self.partial.map(|partial| partial.code).or(before);
        if before.is_some_and(|before| before != code) {
            return Err(TransportError::rule(
                TransportErrorCode::STREAM_STATE_ERROR,
                "the error code of a stream's reset changed",
                "draft-ietf-quic-reliable-stream-reset §5.2",
            ));
        }
        Ok(())
    }

    /// Processes a RESET_STREAM frame. Returns the number of bytes by which the known length of the
    /// stream has grown.
    pub(super) fn on_reset_stream(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        frame: &frame::ResetStream,
    ) -> Result<u64, TransportError> {
        self.check_final_size(frame.final_size.get(), true)?;
        self.check_code(frame.error_code, None)?;
        let added = self.extend(now, connection, frame.final_size.get())?;
        self.final_size = Some(frame.final_size.get());
        self.pending_limit = false;
        self.pending_stop = false;
        if self.advance(ReceiveInput::Reset) {
            self.partial = None;
            self.reset_code = Some(frame.error_code);
            // The reset is reported even if the application does not read the data before it.
            self.awaits_data = true;
            self.data.clear();
            self.give_back_all(now, connection);
        }
        Ok(added)
    }

    /// Checks that the final size does not change, and that no data is beyond it (RFC 9000 §4.5).
    fn check_final_size(&self, end: u64, is_final: bool) -> Result<(), TransportError> {
        let violation = match self.final_size {
            Some(final_size) if end > final_size => "data beyond the final size of a stream",
            Some(final_size) if is_final && end != final_size => "a stream's final size changed",
            None if is_final && end < self.window.received() => {
                "a stream's final size is below the data received"
            }
            _ => return Ok(()),
        };
        Err(TransportError::rule(TransportErrorCode::FINAL_SIZE_ERROR, violation, "RFC 9000 §4.5"))
    }

    /// Extends the stream to `end`, if the limits of the stream and the connection allow it (RFC
    /// 9000 §4.1).
    fn extend(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        end: u64,
    ) -> Result<u64, TransportError> {
        let added = end.saturating_sub(self.window.received());
        let code = TransportErrorCode::FLOW_CONTROL_ERROR;
        let exceeded =
            |violation| move |Exceeded| TransportError::rule(code, violation, "RFC 9000 §4.1");
        self.window
            .receive(now, added)
            .map_err(exceeded("data beyond the stream's flow control limit"))?;
        connection
            .receive(now, added)
            .map_err(exceeded("data beyond the connection's flow control limit"))?;
        Ok(added)
    }

    /// Handles the peer's report that it is blocked at `limit`.
    pub(super) fn on_peer_blocked(&mut self, connection: &mut ConnectionFlow, limit: u64) {
        if self.needs_limit() {
            let before = self.window.window();
            self.pending_limit |= self.window.on_peer_blocked(limit);
            if self.window.window() > before {
                connection.fit_grown_window(self.window.window());
            }
        }
    }

    /// Reads up to `max` bytes or the end, and returns the flow control credit of the bytes read.
    pub(super) fn read(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        let outcome = self.read_ahead(max);
        match &outcome {
            Ok(ReadOutcome::Data(_)) => self.return_credit(now, connection, u64::MAX),
            Ok(ReadOutcome::Finished) => {
                self.return_credit(now, connection, u64::MAX);
                self.advance(ReceiveInput::AllRead);
            }
            Err(ReadError::Reset(_)) => self.end_reset(now, connection),
            Ok(ReadOutcome::Blocked) | Err(ReadError::UnknownStream) => {}
        }
        outcome
    }

    /// Reads up to `max` bytes or the end, without counting them as read: [`Self::return_credit`] returns the credit, and the
    /// part ends when [`Self::read`] reaches the end.
    pub(super) fn read_ahead(&mut self, max: usize) -> Result<ReadOutcome, ReadError> {
        if self.stopped.is_some() {
            return Err(ReadError::UnknownStream);
        }
        if let Some(code) = self.reset_code {
            return Err(ReadError::Reset(code));
        }
        let readable = self.readable();
        if readable > 0 {
            let most = usize::try_from(readable).unwrap_or(usize::MAX);
            return Ok(ReadOutcome::Data(self.data.read(max.clamp(1, most))));
        }
        if let Some(code) = self.reset_after_data() {
            return Err(ReadError::Reset(code));
        }
        if matches!(self.state, ReceiveState::DataReceived | ReceiveState::DataRead) {
            return Ok(ReadOutcome::Finished);
        }
        self.awaits_data = true;
        Ok(ReadOutcome::Blocked)
    }

    /// Returns the error code of a partial reset, if all data before the reset was read.
    fn reset_after_data(&self) -> Option<VarInt> {
        let partial = self.partial.filter(|it| self.data.read_offset() >= it.reliable_size);
        partial.map(|partial| partial.code)
    }

    /// Ends the receiving part, because the peer's reset was reported to the application.
    fn end_reset(&mut self, now: Timestamp, connection: &mut ConnectionFlow) {
        self.advance(ReceiveInput::ResetRead);
        // A partial reset uses the states of a FIN.
        if self.advance(ReceiveInput::AllRead) {
            self.data.clear();
            self.give_back_all(now, connection);
        }
    }

    /// Returns whether the peer has reset the stream and all of its data is discarded.
    pub(super) fn is_reset(&self) -> bool {
        self.stopped.is_none() && self.reset_code.is_some()
    }

    /// Returns the error code of the peer's reset, if there is one. The reset then counts as read
    /// (RFC 9000 §3.2). A partial reset is found by reading the data before it.
    pub(super) fn received_reset(&mut self) -> Result<Option<VarInt>, UnknownStream> {
        if self.stopped.is_some() {
            return Err(UnknownStream);
        }
        if self.reset_code.is_some() {
            self.advance(ReceiveInput::ResetRead);
        }
        Ok(self.reset_code)
    }

    /// Returns the credit of `bytes` that were read ahead; if fewer bytes were read ahead, returns
    /// the credit of all of them.
    pub(super) fn return_credit(
        &mut self,
        now: Timestamp,
        connection: &mut ConnectionFlow,
        bytes: u64,
    ) {
        let held = self.data.read_offset().saturating_sub(self.window.consumed());
        let bytes = bytes.min(held);
        if bytes == 0 {
            return;
        }
        let rises = self.window.consume(now, connection.round_trip, bytes);
        self.pending_limit |= rises && self.needs_limit();
        if rises {
            connection.fit_stream_window(self.window.window());
        }
        connection.return_credit(now, bytes);
    }

    /// Raises the limit by the bytes consumed since the last update, however few, because the
    /// application is waiting for data that the peer may have no credit to send. Other streams may
    /// hold the rest of the connection's window, and a receiver must not wait for
    /// STREAM_DATA_BLOCKED or DATA_BLOCKED (RFC 9000 §4.1).
    pub(super) fn replenish_peer(&mut self, connection: &mut ConnectionFlow) {
        if self.is_waited_for() {
            self.pending_limit |= self.window.replenish() && self.needs_limit();
            connection.replenish();
        }
    }

    /// Stops reading: all data, received or future, is discarded.
    pub(super) fn stop(&mut self, now: Timestamp, connection: &mut ConnectionFlow, code: VarInt) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(code);
        self.pending_stop = self.final_size.is_none();
        self.pending_limit = false;
        self.data.clear();
        self.give_back_all(now, connection);
    }

    /// Returns the error code of the STOP_SENDING frame to send, if any.
    pub(super) fn pending_stop(&self) -> Option<VarInt> {
        self.stopped.filter(|_| self.pending_stop)
    }

    /// Records that the STOP_SENDING frame was sent.
    pub(super) fn on_stop_sent(&mut self) {
        self.pending_stop = false;
    }

    /// Handles the loss of the STOP_SENDING frame. The frame is needed until the final size is
    /// known.
    pub(super) fn on_stop_lost(&mut self) {
        self.pending_stop = self.stopped.is_some() && self.final_size.is_none();
    }

    /// Returns whether a STOP_SENDING or MAX_STREAM_DATA frame has to be sent.
    pub(super) const fn has_pending_control(&self) -> bool {
        self.pending_limit || (self.pending_stop && self.stopped.is_some())
    }

    /// Returns the limit of the MAX_STREAM_DATA frame to send, if any.
    pub(super) fn pending_limit(&mut self) -> Option<u64> {
        self.pending_limit.then(|| {
            self.window.renew();
            self.window.limit()
        })
    }

    /// Records that the MAX_STREAM_DATA frame was sent.
    pub(super) fn on_limit_sent(&mut self) {
        self.pending_limit = false;
    }

    /// Handles the loss of a MAX_STREAM_DATA frame. The limit is needed while more data may arrive.
    pub(super) fn on_limit_lost(&mut self) {
        self.window.on_update_lost();
        self.pending_limit = self.needs_limit();
    }

    /// Handles the acknowledgment of a MAX_STREAM_DATA frame.
    pub(super) fn on_limit_acknowledged(&mut self) {
        self.window.on_update_acknowledged();
    }

    /// Checks that the counts agree with the data.
    ///
    /// # Panics
    /// If a count does not agree, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        self.data.check_caches();
        let (received, consumed) = (self.window.received(), self.window.consumed());
        assert!(consumed <= received && received <= self.window.limit(), "{:?}", self.window);
        let is_kept = self.stopped.is_none() && self.reset_code.is_none();
        assert!(!is_kept || consumed <= self.data.read_offset() || self.is_done());
        assert!(self.data.end() <= received, "{} bytes of {received}", self.data.end());
        assert!(self.final_size.is_none_or(|size| size == received), "{:?}", self.final_size);
    }

    fn needs_limit(&self) -> bool {
        self.state == ReceiveState::Receive && self.stopped.is_none()
    }

    /// Returns the connection credit of received data that will not be read. For the stream, the
    /// credit is only recorded as returned.
    fn give_back_all(&mut self, now: Timestamp, connection: &mut ConnectionFlow) {
        let bytes = self.window.received().saturating_sub(self.window.consumed());
        self.window.consume(now, None, bytes);
        connection.return_credit(now, bytes);
    }

    fn advance(&mut self, input: ReceiveInput) -> bool {
        match self.state.after(input) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }
}

fn too_many_gaps(TooManyGaps: TooManyGaps) -> TransportError {
    TransportError::internal("a stream arrived in too many fragments")
}
