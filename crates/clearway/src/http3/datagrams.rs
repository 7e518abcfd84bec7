//! HTTP datagrams between tasks and the shard (RFC 9297).

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::DatagramError;

use super::Error;
use super::exchanges::{Effects, Shared};
use super::send_body::release;
use crate::bridge::WakerSlot;
use crate::datagrams::OVERHEAD;

/// How many bytes of datagrams are buffered for one exchange in each direction; each datagram counts
/// [`OVERHEAD`] in addition to its payload.
const BUFFER: usize = 256 << 10;

/// Datagrams in one direction of an exchange. If there are too many, the oldest are dropped, since the newest are the most
/// likely to be of use.
#[derive(Default)]
struct Queue {
    datagrams: VecDeque<Bytes>,
    cost: usize,
    dropped: u64,
}

impl Queue {
    fn push(&mut self, data: Bytes) {
        self.cost = self.cost.saturating_add(data.len().saturating_add(OVERHEAD as usize));
        self.datagrams.push_back(data);
        while self.cost > BUFFER && self.pop().is_some() {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.datagrams.pop_front()?;
        self.cost = self.cost.saturating_sub(data.len().saturating_add(OVERHEAD as usize));
        Some(data)
    }
}

/// The datagrams of one exchange.
#[derive(Default)]
pub(super) struct ExchangeDatagrams {
    /// The largest payload that can be sent, as far as the shard has told.
    pub(super) maximum: Option<usize>,
    /// What only an exchange has that is used for datagrams.
    used: Option<Box<Used>>,
}

#[derive(Default)]
struct Used {
    outgoing: Queue,
    incoming: Queue,
    /// The task that waits for one.
    task: WakerSlot,
    /// Why none can be sent at all.
    failed: Option<DatagramError>,
}

impl ExchangeDatagrams {
    fn used(&mut self) -> &mut Used {
        self.used.get_or_insert_default()
    }

    /// A datagram has arrived.
    pub(super) fn receive(&mut self, data: Bytes, effects: &mut Effects) {
        let used = self.used();
        used.incoming.push(data);
        used.task.wake(effects);
    }

    /// No more will arrive.
    pub(super) fn end(&mut self, effects: &mut Effects) {
        if let Some(used) = &mut self.used {
            used.task.wake(effects);
        }
    }

    /// The next datagram to send.
    pub(super) fn next_outgoing(&mut self) -> Option<Bytes> {
        self.used.as_mut()?.outgoing.pop()
    }

    /// None can be sent, because of `error`.
    pub(super) fn fail(&mut self, error: DatagramError) {
        self.used().failed = Some(error);
    }
}

/// The datagrams that belong to one extended CONNECT request (RFC 9297): they are sent once, and may be lost or arrive in
/// another order.
///
/// Both ends need [`Config::datagrams`](super::Config::datagrams) and a transport that accepts DATAGRAM frames
/// (`max_datagram_frame_size`). Up to 256 KiB are buffered in each direction; then the oldest are dropped.
pub struct Datagrams {
    shared: Arc<Shared>,
    key: usize,
}

impl Datagrams {
    /// The datagrams of the exchange with this key.
    pub(super) fn new(shared: &Arc<Shared>, key: usize) -> Self {
        if let Some(exchange) = shared.lock().face.all.get_mut(key) {
            exchange.handles = exchange.handles.saturating_add(1);
        }
        Self { shared: shared.clone(), key }
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// [`Error::Datagram`] if it is known that it cannot be sent, and the reason why the message was cut off if it was.
    /// Without an error it can still be lost.
    pub fn send(&self, payload: impl Into<Bytes>) -> Result<(), Error> {
        let payload = payload.into();
        self.shared.act(|state, effects| {
            let exchange = state.face.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            exchange.send.check_open()?;
            let maximum = exchange.datagrams.maximum;
            let datagrams = exchange.datagrams.used();
            if let Some(error) = datagrams.failed {
                return Err(Error::Datagram(error));
            }
            if let Some(maximum) = maximum
                && payload.len() > maximum
            {
                return Err(Error::Datagram(DatagramError::TooLarge { maximum }));
            }
            datagrams.outgoing.push(payload);
            state.change(self.key);
            effects.wake_shard();
            Ok(())
        })
    }

    /// The largest payload that can be sent now, in bytes; `None` until the request has been sent or received, or if no
    /// datagram can be sent.
    pub fn max_size(&self) -> Option<usize> {
        self.shared.lock().face.all.get(self.key)?.datagrams.maximum
    }

    /// Waits for the next datagram; `None` when the peer has ended its part of the exchange.
    ///
    /// Cancel-safe: if the future is dropped, no datagram is lost.
    pub async fn receive(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Like [`receive`](Self::receive).
    pub fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.shared.act(|state, effects| {
            let Some(exchange) = state.face.all.get_mut(self.key) else {
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

    /// How many datagrams were dropped because this task did not take them in time.
    pub fn dropped(&self) -> u64 {
        let state = &self.shared.lock();
        let used = state.face.all.get(self.key).and_then(|it| it.datagrams.used.as_ref());
        used.map_or(0, |used| used.incoming.dropped)
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        release(&self.shared, self.key);
    }
}

impl core::fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Datagrams").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_datagrams_are_dropped() {
        let mut queue = Queue::default();
        for number in 0..10_000u32 {
            queue.push(Bytes::copy_from_slice(&number.to_be_bytes()));
        }
        assert!(queue.cost <= BUFFER);
        let kept = queue.datagrams.len() as u64;
        assert_eq!(kept + queue.dropped, 10_000);
        assert_eq!(queue.pop().unwrap(), (queue.dropped as u32).to_be_bytes()[..]);
        while queue.pop().is_some() {}
        assert_eq!(queue.cost, 0);
        // One that is larger than the buffer alone is not kept either.
        queue.push(Bytes::from(vec![0; BUFFER]));
        assert_eq!((queue.datagrams.len(), queue.cost), (0, 0));
    }
}
