//! Transfers of stream data between the two endpoints.

use std::time::Duration;

use bytes::Bytes;
use clearway_transport::{ReadError, ReadOutcome};
use clearway_wire::{Direction, StreamId};

use super::Pair;

/// Returns bytes that differ by position, so that misplaced bytes are noticed.
pub fn pattern(size: usize) -> Bytes {
    let period: Vec<u8> = (0..251).collect();
    let mut bytes = period.repeat(size / 251 + 1);
    bytes.truncate(size);
    Bytes::from(bytes)
}

impl Pair {
    /// Sends `size` bytes from the server to the client once both have confirmed the handshake, and
    /// returns how long it took.
    pub fn download(&mut self, size: usize, limit: Duration) -> Option<Duration> {
        self.establish();
        self.download_more(size, limit)
    }

    /// Like [`download`](Self::download), on an established connection.
    pub fn download_more(&mut self, size: usize, limit: Duration) -> Option<Duration> {
        self.download_and(size, limit, |_| {})
    }

    /// Like [`download`](Self::download), but calls a function at every step.
    pub fn download_while(
        &mut self,
        size: usize,
        limit: Duration,
        act: impl FnMut(&mut Self),
    ) -> Option<Duration> {
        self.establish();
        self.download_and(size, limit, act)
    }

    fn download_and(
        &mut self,
        size: usize,
        limit: Duration,
        mut act: impl FnMut(&mut Self),
    ) -> Option<Duration> {
        let start = self.now;
        let stream = self.client().open(Direction::Bidirectional).unwrap();
        self.client().write_slice(stream, b"give").unwrap();
        self.client().finish(stream).unwrap();
        let whole = pattern(size);
        let mut rest = whole.clone();
        let mut received = Vec::with_capacity(size);
        let mut accepted: Option<StreamId> = None;
        let done = self.run_until(limit, |pair| {
            act(pair);
            accepted = accepted.or_else(|| pair.server().accept(Direction::Bidirectional));
            if let Some(stream) = accepted {
                pair.write_rest(stream, &mut rest);
            }
            pair.read_all(stream, &mut received)
        });
        assert!(received == whole || !done, "the received bytes differ from the sent ones");
        done.then(|| self.now.saturating_since(start))
    }

    /// Writes as much as fits on the server, and ends the stream after the last byte.
    pub fn write_rest(&mut self, stream: StreamId, rest: &mut Bytes) {
        if rest.is_empty() {
            return;
        }
        let taken = self.server().write(stream, rest.clone()).unwrap();
        *rest = rest.slice(taken..);
        if rest.is_empty() {
            self.server().finish(stream).unwrap();
        }
    }

    /// Reads on the client everything that is available. Returns whether the stream has ended.
    pub fn read_all(&mut self, stream: StreamId, received: &mut Vec<u8>) -> bool {
        let now = self.now;
        loop {
            match self.client().read(now, stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => return false,
                Ok(ReadOutcome::Finished) | Err(ReadError::UnknownStream) => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }
}
