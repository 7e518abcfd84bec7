use std::collections::BTreeMap;

use super::reassembly::Reassembly;

/// Maximum number of bytes to keep per stream.
const MAX_KEPT: usize = 1 << 20;
/// Maximum number of streams whose state is kept.
const MAX_STREAMS: usize = 1000;

/// The data that has arrived on a stream, and the amount that was sent on it.
#[derive(Debug, Default)]
pub struct StreamState {
    reassembly: Reassembly,
    data: Vec<u8>,
    final_size: Option<u64>,
    reset: Option<u64>,
    stopped: Option<u64>,
    highest: u64,
    /// The offset of this endpoint's next data.
    sent: u64,
    /// Number of times that the stream's flow control limit was raised.
    pub(super) granted_steps: u64,
}

impl StreamState {
    /// Returns the received data in order, at most the first 1 MiB.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the number of bytes that have arrived in order, including those that were not kept.
    pub fn received(&self) -> u64 {
        self.reassembly.next()
    }

    /// Returns whether the peer has finished the stream, and everything has arrived.
    pub fn is_finished(&self) -> bool {
        self.final_size == Some(self.reassembly.next())
    }

    /// Returns the error code with which the peer reset the stream.
    pub const fn reset(&self) -> Option<u64> {
        self.reset
    }

    /// Returns the error code of the peer's STOP_SENDING frame.
    pub const fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    /// Returns the number of bytes that this endpoint has sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    all: BTreeMap<u64, StreamState>,
    /// The sum of the highest received offsets of all streams.
    received: u64,
}

impl Streams {
    /// Returns the state of a stream; `None` if there are too many streams to add it.
    pub(super) fn entry(&mut self, id: u64) -> Option<&mut StreamState> {
        if self.all.len() >= MAX_STREAMS && !self.all.contains_key(&id) {
            return None;
        }
        Some(self.all.entry(id).or_default())
    }

    pub(super) fn get(&self, id: u64) -> Option<&StreamState> {
        self.all.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &StreamState)> {
        self.all.iter().map(|(id, stream)| (*id, stream))
    }

    /// Returns the number of received bytes that count toward the connection-level flow control
    /// limit.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Processes a STREAM frame. Returns the highest received offset, which counts toward the
    /// stream's flow control limit.
    pub(super) fn on_data(&mut self, id: u64, offset: u64, data: &[u8], fin: bool) -> u64 {
        let end = offset.saturating_add(data.len() as u64);
        let Some(stream) = self.entry(id) else { return 0 };
        let StreamState { reassembly, data: kept, .. } = stream;
        reassembly.insert(offset, data, |bytes| {
            let room = MAX_KEPT.saturating_sub(kept.len());
            kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        });
        if fin {
            stream.final_size = Some(end);
        }
        let growth = end.saturating_sub(stream.highest);
        stream.highest = stream.highest.max(end);
        let highest = stream.highest;
        self.received = self.received.saturating_add(growth);
        highest
    }

    pub(super) fn on_reset(&mut self, id: u64, code: u64, final_size: u64) {
        let Some(stream) = self.entry(id) else { return };
        stream.reset = Some(code);
        let growth = final_size.saturating_sub(stream.highest);
        stream.highest = stream.highest.max(final_size);
        self.received = self.received.saturating_add(growth);
    }

    pub(super) fn on_stop(&mut self, id: u64, code: u64) {
        if let Some(stream) = self.entry(id) {
            stream.stopped = Some(code);
        }
    }

    /// Reserves the offsets for `length` bytes, and returns the first.
    pub(super) fn reserve(&mut self, id: u64, length: usize) -> u64 {
        let Some(stream) = self.entry(id) else { return 0 };
        let offset = stream.sent;
        stream.sent = offset.saturating_add(length as u64);
        offset
    }
}
