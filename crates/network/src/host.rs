use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;

use crate::QueueLimit;

/// The receiving end of a direction: a socket buffer, and one thread that empties it.
///
/// The thread reads a batch, which frees its space in the buffer, and then delivers the datagrams
/// one after another. A datagram leaves the link when the thread has processed it.
///
/// If datagrams arrive faster than the thread processes them, the buffer fills; a larger buffer
/// gains time, not throughput. In published measurements, a proxy's thread took 20 to 50 us per
/// datagram, behind a buffer of 2 MB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The size of the socket buffer in bytes, each datagram counting its payload plus
    /// [`Conditions::overhead`](crate::Conditions::overhead).
    pub buffer: QueueLimit,
    /// The processing time per datagram.
    pub service: Duration,
    /// The additional time per batch.
    pub batch_service: Duration,
    /// The maximum number of datagrams per read; zero counts as one.
    pub batch: usize,
}

impl Default for Host {
    /// Returns a host that processes datagrams instantly.
    fn default() -> Self {
        Self {
            buffer: QueueLimit::default(),
            service: Duration::ZERO,
            batch_service: Duration::ZERO,
            batch: 1,
        }
    }
}

/// The state of a host. `T` represents a datagram.
#[derive(Debug)]
pub(crate) struct HostState<T> {
    host: Host,
    buffer: VecDeque<(T, u64)>,
    bytes: u64,
    /// Datagrams that the thread has read but not yet delivered.
    batch: VecDeque<T>,
    /// The time at which the thread finishes processing the first datagram of the batch.
    done: Timestamp,
}

impl<T> HostState<T> {
    pub(crate) fn new(host: Host) -> Self {
        let (buffer, batch) = (VecDeque::new(), VecDeque::new());
        Self { host, buffer, bytes: 0, batch, done: Timestamp::FAR_FUTURE }
    }

    /// Receives a datagram at `now`; returns it if the buffer is full.
    pub(crate) fn arrive(&mut self, now: Timestamp, datagram: T, bytes: u64) -> Result<(), T> {
        if self.batch.is_empty() {
            self.batch.push_back(datagram);
            self.done = now + self.host.batch_service + self.host.service;
            return Ok(());
        }
        if !self.host.buffer.has_room(self.buffer.len(), self.bytes, bytes) {
            return Err(datagram);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.buffer.push_back((datagram, bytes));
        Ok(())
    }

    /// Returns the time at which the thread delivers the next datagram.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        (!self.batch.is_empty()).then_some(self.done)
    }

    /// Delivers the next datagram.
    pub(crate) fn complete(&mut self) -> Option<T> {
        let datagram = self.batch.pop_front()?;
        if self.batch.is_empty() {
            self.read_batch();
            self.done += self.host.batch_service;
        }
        self.done += self.host.service;
        Some(datagram)
    }

    fn read_batch(&mut self) {
        for _ in 0..self.host.batch.max(1) {
            let Some((datagram, bytes)) = self.buffer.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(bytes);
            self.batch.push_back(datagram);
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
