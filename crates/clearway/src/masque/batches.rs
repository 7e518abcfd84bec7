//! The HTTP Datagrams of a tunnel, in batches.

use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::Bytes;

use crate::http3::{Datagrams, Error};

/// Maximum number of datagrams in a batch.
pub(super) const BATCH: usize = 64;

/// The HTTP Datagrams of a tunnel. They move from and to the connection in batches, which costs less
/// than locking the connection's state and waking another thread for each.
#[derive(Debug)]
pub(super) struct BatchedDatagrams {
    datagrams: Datagrams,
    /// Received datagrams that have not been processed yet. Idle tunnels have no buffer.
    received: VecDeque<Bytes>,
    /// Datagrams to pass to the connection.
    queued: VecDeque<Bytes>,
    /// The largest payload that could be sent when the first of `queued` was queued.
    maximum: Option<usize>,
}

impl BatchedDatagrams {
    pub(super) fn new(datagrams: Datagrams) -> Self {
        let (received, queued) = (VecDeque::new(), VecDeque::new());
        Self { datagrams, received, queued, maximum: None }
    }

    /// Returns the largest payload that can be sent, as in [`Datagrams::max_size`]. It does not
    /// change within a batch.
    pub(super) fn max_size(&self) -> Option<usize> {
        if self.queued.is_empty() { self.datagrams.max_size() } else { self.maximum }
    }

    /// Adds a datagram to the batch, which is sent by [`Self::flush`] or as soon as it is full.
    pub(super) fn queue(&mut self, datagram: Bytes) -> Result<(), Error> {
        if self.queued.is_empty() {
            self.maximum = self.datagrams.max_size();
        }
        self.queued.push_back(datagram);
        if self.queued.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Sends the batch.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let sent = self.datagrams.send_all(&mut self.queued);
        // If it failed, the tunnel has ended.
        self.queued.clear();
        sent
    }

    /// Polls for the next datagram, like [`Datagrams::poll_receive`].
    pub(super) fn poll_receive(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(datagram) = self.received.pop_front() {
            return Poll::Ready(Some(Ok(datagram)));
        }
        match self.datagrams.poll_receive_many(context, &mut self.received, BATCH) {
            Poll::Ready(Some(Ok(_))) => Poll::Ready(self.received.pop_front().map(Ok)),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                self.received = VecDeque::new();
                self.queued.shrink_to_fit();
                Poll::Pending
            }
        }
    }

    /// See [`Datagrams::want_larger`].
    pub(super) fn want_larger(&self) {
        self.datagrams.want_larger();
    }

    /// See [`Datagrams::dropped_in_both_directions`].
    pub(super) fn dropped_in_both_directions(&self) -> (u64, u64) {
        self.datagrams.dropped_in_both_directions()
    }
}
