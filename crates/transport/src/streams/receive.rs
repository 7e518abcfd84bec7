//! Received stream frames (RFC 9000 §19.4, §19.5, §19.8 to §19.14).

use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, TransportErrorCode, frame};

use super::limits::TooManyStreams;
use super::{StreamEvent, Streams};
use crate::TransportError;

/// The part of a stream that a frame belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Sending,
    Receiving,
}

impl Streams {
    /// Processes a STREAM frame.
    pub(crate) fn on_stream(
        &mut self,
        now: Timestamp,
        frame: &frame::Stream<'_>,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Receiving)? else {
            return Ok(());
        };
        if let Some(stream) = self.table.get_mut(key) {
            stream.is_early |= self.is_receiving_early;
        }
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.receive.as_deref_mut())
        {
            part.on_stream(now, &mut self.flow, frame)?;
        }
        self.report_readable(key);
        self.settle(key);
        Ok(())
    }

    /// Processes a RESET_STREAM frame.
    pub(crate) fn on_reset_stream(
        &mut self,
        now: Timestamp,
        frame: &frame::ResetStream,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Receiving)? else {
            return Ok(());
        };
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.receive.as_deref_mut())
        {
            part.on_reset_stream(now, &mut self.flow, frame)?;
        }
        self.report_readable(key);
        self.settle(key);
        Ok(())
    }

    /// Processes a RESET_STREAM_AT frame.
    pub(crate) fn on_reset_stream_at(
        &mut self,
        now: Timestamp,
        frame: &frame::ResetStreamAt,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Receiving)? else {
            return Ok(());
        };
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.receive.as_deref_mut())
        {
            part.on_reset_stream_at(now, &mut self.flow, frame)?;
        }
        self.report_readable(key);
        self.settle(key);
        Ok(())
    }

    /// Processes a STOP_SENDING frame: the stream is reset with the same error code.
    pub(crate) fn on_stop_sending(
        &mut self,
        frame: &frame::StopSending,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Sending)? else {
            return Ok(());
        };
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.send.as_deref_mut()) {
            let (kept, unsent) = (part.buffered(), part.unsent());
            if part.on_stop_sending(frame.error_code) {
                let (id, code) = (frame.stream_id, frame.error_code);
                self.queues.events.push(StreamEvent::Stopped { id, code });
                self.release(key, kept);
                self.discard_unsent(unsent);
            }
        }
        self.settle(key);
        Ok(())
    }

    /// Processes a MAX_DATA frame.
    pub(crate) fn on_max_data(&mut self, frame: &frame::MaxData) {
        if self.flow.send.raise(frame.maximum.get()) {
            self.wake_for_credit();
        }
    }

    /// Processes a MAX_STREAM_DATA frame.
    pub(crate) fn on_max_stream_data(
        &mut self,
        frame: &frame::MaxStreamData,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Sending)? else {
            return Ok(());
        };
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.send.as_deref_mut()) {
            part.credit_mut().raise(frame.maximum.get());
        }
        self.wake_stream_for_credit(key);
        self.settle(key);
        Ok(())
    }

    /// Processes a MAX_STREAMS frame.
    pub(crate) fn on_max_streams(&mut self, frame: &frame::MaxStreams) {
        self.raise_stream_count(frame.direction, frame.maximum);
    }

    /// Processes a DATA_BLOCKED frame. If credit has been returned since the last update, a
    /// MAX_DATA frame is sent immediately.
    pub(crate) fn on_data_blocked(&mut self, frame: &frame::DataBlocked) {
        self.flow.on_peer_blocked(frame.limit.get());
    }

    /// Processes a STREAM_DATA_BLOCKED frame.
    pub(crate) fn on_stream_data_blocked(
        &mut self,
        frame: &frame::StreamDataBlocked,
    ) -> Result<(), TransportError> {
        let Some(key) = self.find_or_create(frame.stream_id, Part::Receiving)? else {
            return Ok(());
        };
        if let Some(part) = self.table.get_mut(key).and_then(|stream| stream.receive.as_deref_mut())
        {
            part.on_peer_blocked(&mut self.flow, frame.limit.get());
        }
        self.settle(key);
        Ok(())
    }

    /// Processes a STREAMS_BLOCKED frame.
    pub(crate) fn on_streams_blocked(&mut self, frame: &frame::StreamsBlocked) {
        self.remote.get_mut(frame.direction).on_peer_blocked(frame.limit.get());
    }

    /// Returns the stream that a frame belongs to. The first frame of a peer's stream opens that
    /// stream and all lower-numbered ones (RFC 9000 §3.2). Returns `None` if the stream has ended
    /// and the frame is late.
    fn find_or_create(
        &mut self,
        id: StreamId,
        part: Part,
    ) -> Result<Option<usize>, TransportError> {
        let is_local = self.is_local(id);
        let direction = id.direction();
        if direction == Direction::Unidirectional && is_local != (part == Part::Sending) {
            let violation = "a frame for the wrong direction of a unidirectional stream";
            return Err(state_error(violation, "RFC 9000 §2.1"));
        }
        if let Some(key) = self.table.key(id) {
            return Ok(Some(key));
        }
        if is_local {
            let is_over = id.index() < self.local.get(direction).opened();
            return match is_over {
                true => Ok(None),
                false => {
                    let violation = "a frame for a stream that this endpoint has not opened";
                    Err(state_error(violation, "RFC 9000 §19.8"))
                }
            };
        }
        let new = self.remote.get_mut(direction).on_used(id.index()).map_err(|TooManyStreams| {
            TransportError::rule(
                TransportErrorCode::STREAM_LIMIT_ERROR,
                "the peer exceeded the stream limit",
                "RFC 9000 §4.6",
            )
        })?;
        if new.is_empty() {
            return Ok(None);
        }
        self.queues.events.push_opened(direction);
        let initiator = self.side.peer().initiator();
        for index in new {
            let Some(id) = StreamId::new(initiator, direction, index) else { break };
            self.create(id);
        }
        Ok(self.table.key(id))
    }
}

fn state_error(violation: &'static str, section: &'static str) -> TransportError {
    TransportError::rule(TransportErrorCode::STREAM_STATE_ERROR, violation, section)
}
