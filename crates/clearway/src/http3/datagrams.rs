//! HTTP datagrams for tasks (RFC 9297).

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::DatagramError;

use super::Error;
use super::exchanges::Shared;

/// The HTTP datagrams of one extended CONNECT request (RFC 9297). Datagrams are never
/// retransmitted, and may be lost or reordered.
///
/// Both endpoints need [`Config::datagrams`](super::Config::datagrams) and a transport that accepts
/// DATAGRAM frames (`max_datagram_frame_size`). Up to 256 KiB are buffered in each direction; when
/// more arrive, the oldest datagrams are dropped.
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
        self.shared.act(|state, effects| {
            let exchange = state.app.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            exchange.send.check_open()?;
            let maximum = exchange.datagrams.maximum;
            let datagrams = exchange.datagrams.used();
            if let Some(error) = datagrams.failed {
                return Err(Error::Datagram(error));
            }
            if let Some(maximum) = maximum
                && payload.len() > maximum
            {
                datagrams.wants_larger = true;
                state.change(self.key);
                effects.wake_shard();
                return Err(Error::Datagram(DatagramError::TooLarge { maximum }));
            }
            datagrams.outgoing.push(payload);
            state.change(self.key);
            effects.wake_shard();
            Ok(())
        })
    }

    /// Starts path MTU discovery because a payload exceeds [`max_size`](Self::max_size), and
    /// updates that size.
    #[cfg(feature = "masque")]
    pub(crate) fn want_larger(&self) {
        self.shared.act(|state, effects| {
            if let Some(exchange) = state.app.all.get_mut(self.key) {
                exchange.datagrams.used().wants_larger = true;
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
        self.shared.act(|state, effects| {
            let Some(exchange) = state.app.all.get_mut(self.key) else {
                return Poll::Ready(Some(Err(Error::Cancelled)));
            };
            if let Some(data) = exchange.datagrams.used().incoming.pop() {
                return Poll::Ready(Some(Ok(data)));
            }
            match exchange.receive.buffer.end() {
                Some(Ok(())) => Poll::Ready(None),
                Some(Err(error)) => Poll::Ready(Some(Err(Error::clone(error)))),
                None => {
                    exchange.datagrams.used().task.register(context, effects);
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
