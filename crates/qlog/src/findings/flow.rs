use std::collections::BTreeMap;

use crate::read::Parameters;

/// The maximum number of streams that are tracked at a time; additional ones are ignored.
const MAX_STREAMS: usize = 4096;

/// The peer's flow control limits, and the data that the application has written.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowControl {
    streams: BTreeMap<u64, Stream>,
    /// The peer's flow control limit for the connection.
    maximum: Option<u64>,
    /// The sum over all streams of the highest offset that was sent.
    sent: u64,
    knows_written: bool,
    has_left_out: bool,
    parameters: Parameters,
    pub(super) is_server: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    sent: u64,
    written: u64,
    maximum: Option<u64>,
}

impl FlowControl {
    pub(super) fn on_parameters(&mut self, parameters: &Parameters) {
        self.maximum = parameters.initial_max_data.max(self.maximum);
        self.parameters = *parameters;
    }

    /// Returns the peer's initial limit for a stream (RFC 9000 §18.2).
    fn initial_maximum(&self, id: u64) -> Option<u64> {
        let is_ours = (id & 1 == 1) == self.is_server;
        let is_unidirectional = id & 2 != 0;
        match (is_unidirectional, is_ours) {
            (true, _) => self.parameters.initial_max_stream_data_uni,
            (false, true) => self.parameters.initial_max_stream_data_bidi_remote,
            (false, false) => self.parameters.initial_max_stream_data_bidi_local,
        }
    }

    fn stream(&mut self, id: u64) -> Option<&mut Stream> {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&id) {
            // Streams without data to send are not tracked.
            self.streams.retain(|_, stream| stream.written > stream.sent);
            if self.streams.len() >= MAX_STREAMS {
                self.has_left_out = true;
                return None;
            }
        }
        let maximum = self.initial_maximum(id);
        Some(self.streams.entry(id).or_insert(Stream { maximum, ..Stream::default() }))
    }

    pub(super) fn on_sent(&mut self, id: u64, end: u64) {
        let Some(stream) = self.stream(id) else { return };
        let more = end.saturating_sub(stream.sent);
        stream.sent = stream.sent.max(end);
        self.sent = self.sent.saturating_add(more);
    }

    pub(super) fn on_written(&mut self, id: u64, end: u64) {
        self.knows_written = true;
        let Some(stream) = self.stream(id) else { return };
        stream.written = stream.written.max(end);
    }

    pub(super) fn on_max_data(&mut self, maximum: u64) {
        self.maximum = self.maximum.max(Some(maximum));
    }

    pub(super) fn on_max_stream_data(&mut self, id: u64, maximum: u64) {
        if let Some(stream) = self.stream(id) {
            stream.maximum = stream.maximum.max(Some(maximum));
        }
    }

    /// Returns whether the application has written data that was never sent and that the peer's
    /// limits allow. `None` if the trace lacks this information.
    pub(super) fn has_data(&self) -> Option<bool> {
        if !self.knows_written || self.has_left_out {
            return None;
        }
        if self.maximum.is_some_and(|maximum| self.sent >= maximum) {
            return Some(false);
        }
        let waits = |stream: &Stream| {
            stream.written > stream.sent
                && stream.maximum.is_none_or(|maximum| stream.sent < maximum)
        };
        Some(self.streams.values().any(waits))
    }

    /// Returns the connection's flow control limit, if the data that was sent has reached it.
    pub(super) fn reached_limit(&self) -> Option<u64> {
        self.maximum.filter(|maximum| self.sent >= *maximum && *maximum > 0)
    }
}
