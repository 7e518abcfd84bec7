//! HTTP datagrams for tasks (RFC 9297).

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::DatagramError;

use super::Error;
use super::datagram_queues::{Queue, Used};
use super::exchanges::{Exchanges, Shared};

/// The HTTP datagrams of one extended CONNECT request (RFC 9297). Datagrams are never
/// retransmitted, and may be lost or reordered.
///
/// Both endpoints need [`Config::datagrams`](super::Config::datagrams) and a transport that accepts
/// DATAGRAM frames (`max_datagram_frame_size`). Up to 2 MiB are buffered in each direction of each
/// request, for bursts, and up to 8 MiB on all requests of a connection; each datagram counts 64
/// bytes in addition to its payload. When more arrive, the oldest datagrams of their request are
/// dropped.
///
/// Programs with many datagrams should use [`send_all`](Self::send_all) and
/// [`receive_many`](Self::receive_many), which notify other threads once per call.
pub struct Datagrams {
    shared: Arc<Shared>,
    key: usize,
}

impl Datagrams {
    /// Returns the datagrams of the exchange with this key.
    pub(super) fn new(shared: &Arc<Shared>, key: usize) -> Self {
        if let Some(exchange) = shared.lock().app.all.get_mut(key) {
            exchange.handles = exchange.handles.saturating_add(1);
        }
        Self { shared: shared.clone(), key }
    }

    /// Sends a datagram. Success does not mean that the datagram is delivered.
    ///
    /// # Errors
    /// Returns [`Error::Datagram`] if the datagram certainly cannot be sent, or, if the message was
    /// aborted, the error that aborted it.
    pub fn send(&self, payload: impl Into<Bytes>) -> Result<(), Error> {
        let payload = payload.into();
        self.queue(|used, maximum| match maximum {
            Some(maximum) if payload.len() > maximum => {
                used.wants_larger = true;
                Err(Error::Datagram(DatagramError::TooLarge { maximum }))
            }
            _ => {
                used.outgoing.push(payload);
                Ok(())
            }
        })
    }

    /// Sends several datagrams in order, and removes them from `payloads`. Those that are longer than
    /// [`max_size`](Self::max_size) are dropped. Takes less CPU time than calling
    /// [`send`](Self::send) for each.
    ///
    /// # Errors
    /// If the message was aborted, returns the error that aborted it; [`Error::Datagram`] if no
    /// datagrams can be sent at all. `payloads` is unchanged then.
    pub fn send_all(&self, payloads: &mut VecDeque<Bytes>) -> Result<(), Error> {
        if payloads.is_empty() {
            return Ok(());
        }
        self.queue(|used, maximum| {
            for payload in payloads.drain(..) {
                if maximum.is_some_and(|maximum| payload.len() > maximum) {
                    used.wants_larger = true;
                    used.outgoing.count_dropped();
                } else {
                    used.outgoing.push(payload);
                }
            }
            Ok(())
        })
    }

    /// Calls `queue`, and wakes the shard, unless no datagrams can be sent at all. The second
    /// argument is the largest payload that can be sent now, if known.
    fn queue(
        &self,
        queue: impl FnOnce(&mut Used, Option<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.shared.act(|state, effects| {
            let Exchanges { all, totals, .. } = &mut state.app;
            let exchange = all.get_mut(self.key).ok_or(Error::Cancelled)?;
            exchange.send.check_open()?;
            let maximum = exchange.datagrams.maximum;
            let used = exchange.datagrams.used(&totals.datagrams);
            if let Some(error) = used.failed {
                return Err(Error::Datagram(error));
            }
            let queued = queue(used, maximum);
            state.change(self.key);
            effects.wake_shard();
            queued
        })
    }

    /// Starts path MTU discovery because a payload exceeds [`max_size`](Self::max_size), and
    /// updates that size.
    #[cfg(feature = "masque")]
    pub(crate) fn want_larger(&self) {
        self.shared.act(|state, effects| {
            let Exchanges { all, totals, .. } = &mut state.app;
            if let Some(exchange) = all.get_mut(self.key) {
                exchange.datagrams.used(&totals.datagrams).wants_larger = true;
                state.change(self.key);
                effects.wake_shard();
            }
        });
    }

    /// Returns the largest payload that can be sent now, in bytes; `None` until the request has
    /// been sent or received, or if datagrams cannot be sent.
    pub fn max_size(&self) -> Option<usize> {
        self.shared.lock().app.all.get(self.key)?.datagrams.maximum
    }

    /// Waits for the next datagram. Returns `None` when the peer has ended its side of the
    /// exchange.
    ///
    /// # Cancel safety
    /// If the future is dropped, no datagram is lost.
    pub async fn receive(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Polls for the next datagram, like [`receive`](Self::receive).
    pub fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.poll_take(context, Queue::pop)
    }

    /// Waits for datagrams, and moves at most `limit` of them to the back of `received`. Returns
    /// their number, which is 0 only if `limit` is 0. Returns `None` when the peer has ended its side
    /// of the exchange. Takes less CPU time than calling [`receive`](Self::receive) for each.
    ///
    /// # Cancel safety
    /// If the future is dropped, no datagram is lost.
    pub async fn receive_many(
        &mut self,
        received: &mut VecDeque<Bytes>,
        limit: usize,
    ) -> Option<Result<usize, Error>> {
        poll_fn(|context| self.poll_receive_many(context, received, limit)).await
    }

    /// Polls for datagrams, like [`receive_many`](Self::receive_many).
    pub fn poll_receive_many(
        &mut self,
        context: &Context<'_>,
        received: &mut VecDeque<Bytes>,
        limit: usize,
    ) -> Poll<Option<Result<usize, Error>>> {
        self.poll_take(context, |incoming| {
            let count = incoming.take(received, limit);
            (count > 0 || limit == 0).then_some(count)
        })
    }

    /// Polls until `take` returns something from the queue of received datagrams.
    fn poll_take<T>(
        &mut self,
        context: &Context<'_>,
        take: impl FnOnce(&mut Queue) -> Option<T>,
    ) -> Poll<Option<Result<T, Error>>> {
        self.shared.act(|state, effects| {
            let Exchanges { all, totals, .. } = &mut state.app;
            let Some(exchange) = all.get_mut(self.key) else {
                return Poll::Ready(Some(Err(Error::Cancelled)));
            };
            let used = exchange.datagrams.used(&totals.datagrams);
            if let Some(taken) = take(&mut used.incoming) {
                return Poll::Ready(Some(Ok(taken)));
            }
            match exchange.receive.buffer.end() {
                Some(Ok(())) => Poll::Ready(None),
                Some(Err(error)) => Poll::Ready(Some(Err(Error::clone(error)))),
                None => {
                    used.task.register(context, effects);
                    Poll::Pending
                }
            }
        })
    }

    /// Returns the number of datagrams that were dropped because this task did not receive them in
    /// time.
    pub fn dropped(&self) -> u64 {
        let state = &self.shared.lock();
        let used = state.app.all.get(self.key).and_then(|it| it.datagrams.used.as_ref());
        used.map_or(0, |used| used.incoming.dropped)
    }

    /// Returns the number of received datagrams that were dropped, like [`dropped`](Self::dropped),
    /// and the number of datagrams that were dropped before the transport accepted them.
    #[cfg(feature = "masque")]
    pub(crate) fn dropped_in_both_directions(&self) -> (u64, u64) {
        let state = &self.shared.lock();
        let used = state.app.all.get(self.key).and_then(|it| it.datagrams.used.as_ref());
        used.map_or((0, 0), |used| (used.incoming.dropped, used.outgoing.dropped))
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.shared.lock().app.release(self.key);
    }
}

impl core::fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Datagrams").finish_non_exhaustive()
    }
}
