//! Sending of stream-related frames.

use clearway_wire::{Direction, EncodeError, Frame, StreamId, VarInt, frame};

use super::sending_part::{Chunk, SendingPart};
use super::{FlowControlBlock, Streams};
use crate::contents::PacketContents;
use crate::token::Token;

/// The minimum number of data bytes in a STREAM frame that does not contain all available data.
const LEAST_CUT: usize = 4;

const DIRECTIONS: [Direction; 2] = [Direction::Bidirectional, Direction::Unidirectional];

/// The kind of data to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DataKind {
    /// Lost data, or a FIN without data; the peer's limits do not apply.
    Creditless,
    /// Data that was never sent.
    Fresh,
}

/// The layout of a STREAM frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    /// PADDING before the frame, so that the frame ends with the packet.
    padding: usize,
    /// The number of bytes of data.
    length: usize,
    explicit_length: bool,
}

impl Streams {
    /// Returns whether a control frame has to be sent.
    pub(crate) fn has_control_pending(&self) -> bool {
        self.flow.pending_max_data
            || !self.queues.control.is_empty()
            || self.is_data_blocked_pending()
            || DIRECTIONS.into_iter().any(|direction| {
                self.remote.get(direction).pending_maximum().is_some()
                    || self.pending_streams_blocked(direction).is_some()
            })
    }

    /// Returns whether [`Self::write_stream_frames`] has anything to send.
    pub(crate) fn has_data_pending(&self) -> bool {
        self.next_turn().is_some()
    }

    /// Returns the limit that blocks the waiting data; `None` if no data is waiting, or if some of
    /// it can be sent.
    pub(crate) fn blocked_by(&self) -> Option<FlowControlBlock> {
        if self.has_data_pending() {
            None
        } else if !self.queues.fresh.is_empty() {
            Some(FlowControlBlock::Connection)
        } else {
            (self.blocked > 0).then_some(FlowControlBlock::Stream)
        }
    }

    /// Reports all limits that block data to the peer again.
    pub(crate) fn repeat_blocked(&mut self) {
        self.flow.send.on_report_lost();
        let keys: Vec<usize> = self.table.keys().collect();
        for key in keys {
            let send = self.table.get_mut(key).and_then(|stream| stream.send.as_deref_mut());
            if let Some(send) = send.filter(|send| send.is_blocked()) {
                send.credit_mut().on_report_lost();
                self.settle(key);
            }
        }
    }

    /// Writes all control frames that fit.
    pub(crate) fn write_control_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        let written = self.write_connection_control(contents);
        if written.is_err() {
            return;
        }
        for _ in 0..self.queues.control.len() {
            let Some(key) = self.queues.control.front().copied() else { return };
            let written = self.write_stream_control(key, contents);
            self.settle(key);
            if written.is_err() {
                return;
            }
        }
    }

    fn write_connection_control(
        &mut self,
        contents: &mut PacketContents<'_, '_>,
    ) -> Result<(), EncodeError> {
        if let Some(limit) = self.flow.pending_max_data() {
            let maximum = VarInt::saturating(limit);
            contents.push(&Frame::MaxData(frame::MaxData { maximum }), Some(Token::MaxData))?;
            self.flow.pending_max_data = false;
        }
        if self.is_data_blocked_pending() {
            let limit = VarInt::saturating(self.flow.send.limit());
            let frame = Frame::DataBlocked(frame::DataBlocked { limit });
            contents.push(&frame, Some(Token::DataBlocked))?;
            self.flow.send.on_reported();
        }
        for direction in DIRECTIONS {
            if let Some(maximum) = self.remote.get(direction).pending_maximum() {
                let frame = Frame::MaxStreams(frame::MaxStreams { direction, maximum });
                contents.push(&frame, Some(Token::MaxStreams { direction }))?;
                self.remote.get_mut(direction).on_maximum_sent();
            }
            if let Some(limit) = self.pending_streams_blocked(direction) {
                let frame = Frame::StreamsBlocked(frame::StreamsBlocked { direction, limit });
                contents.push(&frame, Some(Token::StreamsBlocked { direction }))?;
                self.local.get_mut(direction).on_blocked_sent();
            }
        }
        Ok(())
    }

    fn write_stream_control(
        &mut self,
        key: usize,
        contents: &mut PacketContents<'_, '_>,
    ) -> Result<(), EncodeError> {
        let Some(stream) = self.table.get_mut(key) else { return Ok(()) };
        let stream_id = stream.id;
        if let Some(send) = &mut stream.send {
            if let Some((error_code, final_size)) = send.pending_reset() {
                let final_size = VarInt::saturating(final_size);
                let reset = frame::ResetStream { stream_id, error_code, final_size };
                contents
                    .push(&Frame::ResetStream(reset), Some(Token::ResetStream { stream_id }))?;
                send.on_reset_sent();
            }
            if let Some((error_code, final_size, reliable)) = send.pending_reset_at() {
                let reset = frame::ResetStreamAt {
                    stream_id,
                    error_code,
                    final_size: VarInt::saturating(final_size),
                    reliable_size: VarInt::saturating(reliable),
                };
                let token = Token::ResetStreamAt { stream_id, reliable_size: reliable };
                contents.push(&Frame::ResetStreamAt(reset), Some(token))?;
                send.on_reset_at_sent();
            }
            if send.is_blocked_report_pending() {
                let limit = VarInt::saturating(send.credit_mut().limit());
                let blocked = frame::StreamDataBlocked { stream_id, limit };
                let token = Token::StreamDataBlocked { stream_id };
                contents.push(&Frame::StreamDataBlocked(blocked), Some(token))?;
                send.credit_mut().on_reported();
                send.on_frame_sent();
            }
        }
        if let Some(receive) = &mut stream.receive {
            if let Some(error_code) = receive.pending_stop() {
                let stop = frame::StopSending { stream_id, error_code };
                contents.push(&Frame::StopSending(stop), Some(Token::StopSending { stream_id }))?;
                receive.on_stop_sent();
            }
            if let Some(limit) = receive.pending_limit() {
                let maximum = VarInt::saturating(limit);
                let limit = frame::MaxStreamData { stream_id, maximum };
                let token = Token::MaxStreamData { stream_id };
                contents.push(&Frame::MaxStreamData(limit), Some(token))?;
                receive.on_limit_sent();
            }
        }
        Ok(())
    }

    fn is_data_blocked_pending(&self) -> bool {
        !self.queues.fresh.is_empty() && self.flow.send.is_report_pending()
    }

    fn pending_streams_blocked(&self, direction: Direction) -> Option<VarInt> {
        self.local.get(direction).pending_blocked().filter(|_| self.peer.are_known)
    }

    /// Writes STREAM frames until the packet is full or no data is waiting: lost data first, then
    /// by priority.
    pub(crate) fn write_stream_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        while let Some((kind, key)) = self.next_turn() {
            let Some(length) = self.write_stream_frame(kind, key, contents) else { return };
            let scheduler = match kind {
                DataKind::Creditless => &mut self.queues.creditless,
                DataKind::Fresh => &mut self.queues.fresh,
            };
            // The turn ends when the quantum is used up. `settle` ends it if the stream has no more
            // to send.
            scheduler.charge(length as u64);
            self.settle(key);
        }
    }

    /// Fills the packet with one STREAM frame of new data, if the stream whose turn it is has more
    /// than fits. The stream then stays in its queues, so that no other decision is needed.
    /// Otherwise, writes nothing.
    pub(crate) fn write_full_frame(&mut self, contents: &mut PacketContents<'_, '_>) {
        if self.has_more_than(contents.remaining())
            && let Some((_, key)) = self.next_turn()
            && let Some(length) = self.write_stream_frame(DataKind::Fresh, key, contents)
        {
            self.queues.fresh.charge(length as u64);
        }
    }

    /// Returns whether the stream whose turn it is has more than `bytes` of new data that may be
    /// sent.
    pub(crate) fn has_more_than(&self, bytes: usize) -> bool {
        let Some((DataKind::Fresh, key)) = self.next_turn() else { return false };
        let send = self.table.get(key).and_then(|stream| stream.send.as_deref());
        let allowed = send.map_or(0, SendingPart::fresh_allowed);
        allowed.min(self.flow.send.available()) > bytes as u64
    }

    fn next_turn(&self) -> Option<(DataKind, usize)> {
        let creditless = self.queues.creditless.front().map(|key| (DataKind::Creditless, key));
        let fresh = || {
            let key = self.queues.fresh.front().filter(|_| self.flow.send.available() > 0)?;
            Some((DataKind::Fresh, key))
        };
        creditless.or_else(fresh)
    }

    /// Writes one frame and returns the number of data bytes in it; `None` if the packet is full.
    fn write_stream_frame(
        &mut self,
        kind: DataKind,
        key: usize,
        contents: &mut PacketContents<'_, '_>,
    ) -> Option<usize> {
        let stream = self.table.get_mut(key)?;
        let send = stream.send.as_deref_mut()?;
        let chunk = match kind {
            DataKind::Creditless => send.next_creditless()?,
            DataKind::Fresh => send.next_fresh(self.flow.send.available())?,
        };
        let available = chunk.range.end.saturating_sub(chunk.range.start);
        let offset = VarInt::new(chunk.range.start)?;
        let layout = Layout::fit(contents.remaining(), stream.id, offset, available)?;
        let length = layout.length as u64;
        let end = chunk.range.start.saturating_add(length);
        let sent = Chunk { range: chunk.range.start..end, fin: chunk.fin && length == available };
        if layout.padding > 0 {
            let padding = frame::Padding { length: layout.padding };
            contents.push(&Frame::Padding(padding), None).ok()?;
        }
        let space = contents
            .push_stream(stream.id, offset, layout.length, sent.fin, layout.explicit_length)
            .ok()?;
        send.copy_to(sent.range.start, space);
        let fresh = send.on_sent(&sent);
        let permitted = self.flow.send.consume(fresh);
        debug_assert!(permitted, "a frame stays within the connection's limit");
        self.unsent = self.unsent.saturating_sub(fresh);
        let again = &mut self.statistics.bytes_retransmitted;
        *again = again.saturating_add(length.saturating_sub(fresh));
        let once = &mut self.statistics.bytes_sent;
        *once = once.saturating_add(fresh);
        Some(layout.length)
    }
}

impl Layout {
    /// Returns the layout of a frame with up to `available` bytes of data in `remaining` bytes;
    /// `None` if the frame is not worth its header. The frame has a Length field unless it fills
    /// the packet. If only a byte or two would be left over, PADDING precedes the frame, so that
    /// its last bytes do not need another packet.
    fn fit(remaining: usize, id: StreamId, offset: VarInt, available: u64) -> Option<Self> {
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        let room = remaining.checked_sub(frame::Stream::header_len(id, offset, None))?;
        if available >= room {
            let is_worth_it = room >= available.min(LEAST_CUT);
            return is_worth_it.then_some(Self {
                padding: 0,
                length: room,
                explicit_length: false,
            });
        }
        let header = frame::Stream::header_len(id, offset, Some(available));
        let explicit_length = header.saturating_add(available) <= remaining;
        let padding = if explicit_length { 0 } else { room.saturating_sub(available) };
        Some(Self { padding, length: available, explicit_length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId::from_varint(VarInt::ZERO);
    const OFFSET: VarInt = VarInt::from_u32(1000);
    /// The size of the type, ID and offset.
    const HEADER: usize = 4;

    #[test]
    fn data_that_fills_the_packet_goes_without_a_length() {
        let layout = Layout { padding: 0, length: 96, explicit_length: false };
        assert_eq!(Layout::fit(100, ID, OFFSET, 1000), Some(layout));
        assert_eq!(Layout::fit(100, ID, OFFSET, 96), Some(layout));
    }

    #[test]
    fn shorter_data_has_a_length_or_padding_before_it() {
        let layout = Layout { padding: 0, length: 93, explicit_length: true };
        assert_eq!(Layout::fit(HEADER + 95, ID, OFFSET, 93), Some(layout));
        let layout = Layout { padding: 1, length: 93, explicit_length: false };
        assert_eq!(Layout::fit(HEADER + 94, ID, OFFSET, 93), Some(layout));
        let layout = Layout { padding: 0, length: 0, explicit_length: true };
        assert_eq!(Layout::fit(HEADER + 1, ID, OFFSET, 0), Some(layout));
    }

    #[test]
    fn a_scrap_is_not_worth_a_frame() {
        assert_eq!(Layout::fit(HEADER - 1, ID, OFFSET, 1000), None);
        assert_eq!(Layout::fit(HEADER + 3, ID, OFFSET, 1000), None);
        assert!(Layout::fit(HEADER + 4, ID, OFFSET, 1000).is_some());
        assert!(Layout::fit(HEADER + 3, ID, OFFSET, 3).is_some(), "it is all there is");
        assert!(Layout::fit(HEADER, ID, OFFSET, 0).is_some(), "a bare end");
    }
}
