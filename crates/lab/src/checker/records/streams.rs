//! Tracks the peer's flow control limits and their use (S18).

use std::collections::BTreeMap;

use clearway_transport::Side;
use clearway_wire::{Direction, StreamId, TransportParameters, VarInt, frame};

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u64,
    /// The end offset of the data sent on the stream.
    end: u64,
    limit: u64,
}

/// Stream data sent, and the peer's limits.
#[derive(Debug, Default)]
pub(in crate::checker) struct Streams {
    streams: Vec<Stream>,
    /// The final sizes of streams whose FIN was sent. Data sent on such a stream is not new. `None`
    /// for a stream that was reset.
    finished: BTreeMap<u64, Option<u64>>,
    /// The stream that was looked up last; it is likely to be looked up again.
    last: usize,
    /// The sum of the end offsets of all streams.
    sent: u64,
    /// The part of `sent` that was sent on streams that have been reset.
    abandoned: u64,
    limit: u64,
    initial: Option<[u64; 3]>,
    side: Option<Side>,
}

impl Streams {
    /// Sets the peer's transport parameters. `side` is this endpoint's side.
    pub(in crate::checker) fn set_parameters(&mut self, side: Side, peer: &TransportParameters) {
        self.side = Some(side);
        self.limit = peer.initial_max_data.get();
        self.initial = Some([
            // These limits are from the peer's point of view: streams that the peer opened are its
            // local streams.
            peer.initial_max_stream_data_bidi_remote.get(),
            peer.initial_max_stream_data_bidi_local.get(),
            peer.initial_max_stream_data_uni.get(),
        ]);
        // Streams that were opened in 0-RTT, within remembered limits.
        for place in 0..self.streams.len() {
            let id = StreamId::from_varint(VarInt::saturating(self.streams[place].id));
            let initial = self.initial_limit(id);
            self.streams[place].limit = self.streams[place].limit.max(initial);
        }
    }

    /// Starts over after 0-RTT was rejected: nothing that was sent has arrived, and the peer's
    /// limits are unknown (RFC 9001 §4.6.2).
    pub(in crate::checker) fn restart(&mut self) {
        *self = Self { side: self.side, ..Self::default() };
    }

    fn initial_limit(&self, id: StreamId) -> u64 {
        let Some([own, peers, unidirectional]) = self.initial else { return 0 };
        let is_own = self.side.is_some_and(|side| side.initiator() == id.initiator());
        match (id.direction(), is_own) {
            (Direction::Unidirectional, _) => unidirectional,
            (Direction::Bidirectional, true) => own,
            (Direction::Bidirectional, false) => peers,
        }
    }

    fn stream_mut(&mut self, id: StreamId) -> &mut Stream {
        let raw = id.get();
        if self.streams.get(self.last).is_none_or(|stream| stream.id != raw) {
            let found = self.streams.iter().position(|stream| stream.id == raw);
            self.last = found.unwrap_or(self.streams.len());
            if found.is_none() {
                let limit = self.initial_limit(id);
                self.streams.push(Stream { id: raw, end: 0, limit });
            }
        }
        &mut self.streams[self.last]
    }

    /// Records a STREAM frame that was sent.
    ///
    /// # Errors
    /// Returns an error if the frame exceeds the peer's limits.
    pub(in crate::checker) fn on_sent(&mut self, sent: &frame::Stream<'_>) -> Result<(), String> {
        if self.finished.contains_key(&sent.stream_id.get()) {
            return Ok(());
        }
        let stream = self.stream_mut(sent.stream_id);
        let end = sent.offset.get() + sent.data.len() as u64;
        let grown = end.saturating_sub(stream.end);
        stream.end = stream.end.max(end);
        let (id, stream_end, limit) = (stream.id, stream.end, stream.limit);
        self.sent += grown;
        if sent.fin {
            self.finished.insert(id, Some(stream_end));
            self.streams.swap_remove(self.last);
        }
        if grown > 0 && end > limit {
            return Err(format!(
                "stream {id} was sent up to offset {end}; the peer's limit is {limit}"
            ));
        }
        if grown > 0 && self.sent > self.limit {
            return Err(format!(
                "{} bytes were sent on streams; the peer's limit is {}",
                self.sent, self.limit
            ));
        }
        Ok(())
    }

    /// Records that RESET_STREAM was sent, so the stream's unsent data will not be sent.
    pub(in crate::checker) fn on_reset_sent(&mut self, id: StreamId) {
        let end = match self.finished.insert(id.get(), None) {
            Some(end) => end,
            None => {
                let end = self.stream_mut(id).end;
                self.streams.swap_remove(self.last);
                Some(end)
            }
        };
        self.abandoned += end.unwrap_or(0);
    }

    /// Processes a received MAX_DATA frame.
    pub(in crate::checker) fn on_max_data(&mut self, max: u64) {
        self.limit = self.limit.max(max);
    }

    /// Processes a received MAX_STREAM_DATA frame.
    pub(in crate::checker) fn on_max_stream_data(&mut self, id: StreamId, max: u64) {
        if self.finished.contains_key(&id.get()) {
            return;
        }
        let stream = self.stream_mut(id);
        stream.limit = stream.limit.max(max);
    }

    /// Returns the number of bytes sent on all streams that were not reset, counting each byte
    /// once.
    pub(in crate::checker) fn kept(&self) -> u64 {
        self.sent - self.abandoned
    }

    /// Returns whether the peer's limits permit `bytes` more bytes, regardless of the stream.
    pub(in crate::checker) fn permits(&self, bytes: u64) -> bool {
        let least = self.initial.map_or(0, |initial| initial.into_iter().min().unwrap_or(0));
        self.limit >= self.sent + bytes
            && least >= bytes
            && self.streams.iter().all(|stream| stream.limit >= stream.end + bytes)
    }
}
