//! One end of an IP tunnel over an HTTP/3 exchange.

use core::task::{Context, Poll, Waker, ready};
use std::collections::VecDeque;

use bytes::Bytes;
use clearway_masque::context::ContextId;
use clearway_masque::ip::{IpDropReason, IpReceived, IpSent, IpTunnel, Origin};
use clearway_units::Timestamp;
use tokio::time::Instant;

use super::TunnelError;
use super::batches::BatchedDatagrams;
use crate::http3::{Capsule, Code, DATAGRAM_CAPSULE, Datagrams, RecvBody, SendBody};

/// One end of an IP tunnel: its state machine, and the exchange with the peer.
pub(super) struct IpEnd {
    pub(super) flow: IpTunnel,
    datagrams: BatchedDatagrams,
    /// The sending half of the stream, which stays open as long as the tunnel.
    send: Option<SendBody>,
    body: RecvBody,
    /// Content of the stream that has not been processed yet.
    content: Bytes,
    /// Queued capsules with addresses and routes, which the stream has no room for yet. While there
    /// are any, the peer's capsules are not processed, so that a peer that does not read cannot add
    /// to them.
    control: VecDeque<Bytes>,
    /// Numbers of datagrams from and to the peer that the exchange has dropped, as counted so far.
    dropped: (u64, u64),
    began: Instant,
}

impl IpEnd {
    pub(super) fn new(
        flow: IpTunnel,
        datagrams: Datagrams,
        send: SendBody,
        body: RecvBody,
        began: Instant,
    ) -> Self {
        let (content, control) = (Bytes::new(), VecDeque::new());
        let (datagrams, send) = (BatchedDatagrams::new(datagrams), Some(send));
        Self { flow, datagrams, send, body, content, control, dropped: (0, 0), began }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::ORIGIN + self.began.elapsed()
    }

    /// Returns the longest IP packet that can be sent now; `None` if packets are sent in capsules
    /// because the connection does not support DATAGRAM frames or the peer's SETTINGS have not
    /// arrived yet.
    pub(super) fn max_packet(&self) -> Option<usize> {
        Some(self.datagrams.max_size()?.saturating_sub(ContextId::PAYLOAD.encoded_len()))
    }

    /// Sends a capsule with addresses or routes, now or as soon as the stream has room.
    pub(super) fn send_control(&mut self, capsule: Bytes) -> Result<(), TunnelError> {
        self.control.push_back(capsule);
        match self.poll_control(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => sent,
            // The next call of `poll_receive` registers its task.
            Poll::Pending => Ok(()),
        }
    }

    /// Polls until all queued capsules have been sent.
    fn poll_control(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TunnelError>> {
        let Some(send) = &mut self.send else {
            return Poll::Ready(Err(TunnelError::Closed));
        };
        while let Some(capsule) = self.control.front_mut() {
            ready!(send.poll_write_chunk(context, capsule))?;
            self.control.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Queues an IP packet for the peer, until [`Self::flush`]. If the packet was dropped, returns an
    /// ICMP message for its source.
    pub(super) fn queue_packet(
        &mut self,
        packet: &[u8],
        origin: Origin,
    ) -> Result<Option<Vec<u8>>, TunnelError> {
        let maximum = self.datagrams.max_size();
        let header = ContextId::PAYLOAD.encoded_len();
        if maximum.is_some_and(|maximum| packet.len().saturating_add(header) > maximum) {
            self.datagrams.want_larger();
        }
        match self.flow.send_packet(packet, origin, maximum, self.now()) {
            IpSent::Datagram(datagram) => self.queue_datagram(datagram).map(|()| None),
            IpSent::Reply { packet, .. } => Ok(Some(packet)),
            IpSent::Dropped(_) => Ok(None),
            IpSent::Abort(error) => {
                self.reset(error.code());
                Err(TunnelError::Ip(error))
            }
        }
    }

    /// Sends the queued packets.
    pub(super) fn flush(&mut self) -> Result<(), TunnelError> {
        Ok(self.datagrams.flush()?)
    }

    /// Queues the payload of an HTTP Datagram, until [`Self::flush`]. It is dropped if it does not
    /// fit.
    pub(super) fn queue_datagram(&mut self, datagram: Bytes) -> Result<(), TunnelError> {
        if self.datagrams.max_size().is_some() {
            return Ok(self.datagrams.queue(datagram)?);
        }
        let send = self.send.as_mut().ok_or(TunnelError::Closed)?;
        // A stream without room delays later packets; a dropped packet delays nothing.
        let is_sent = self.control.is_empty() && {
            let mut capsule = Capsule::encode(DATAGRAM_CAPSULE, &datagram);
            let mut context = Context::from_waker(Waker::noop());
            match send.poll_write_chunk(&mut context, &mut capsule) {
                Poll::Ready(sent) => sent.map(|()| true)?,
                Poll::Pending => false,
            }
        };
        if !is_sent {
            self.flow.discard_sent(packet_length(&datagram), IpDropReason::NotSent);
        }
        Ok(())
    }

    /// Counts the datagrams that the exchange with the peer has dropped.
    pub(super) fn count_dropped(&mut self) {
        let (missed, unsent) = self.datagrams.dropped_in_both_directions();
        let (missed_before, unsent_before) = self.dropped;
        self.dropped = (missed, unsent);
        self.flow.discard(missed.saturating_sub(missed_before), IpDropReason::QueueFull);
        self.flow.discard(unsent.saturating_sub(unsent_before), IpDropReason::NotSent);
    }

    /// Polls for data from the peer, and sends queued capsules. ICMP replies to the peer are sent
    /// here. Returns `None` at the end of the tunnel.
    pub(super) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<IpReceived>, TunnelError>> {
        let received = match self.datagrams.poll_receive(context) {
            Poll::Ready(Some(datagram)) => {
                let now = self.now();
                self.flow.receive_datagram(datagram?, now)
            }
            Poll::Ready(None) | Poll::Pending => match ready!(self.poll_content(context))? {
                Some(received) => received,
                None => return Poll::Ready(Ok(None)),
            },
        };
        Poll::Ready(self.react(received).map(Some))
    }

    fn react(&mut self, received: IpReceived) -> Result<IpReceived, TunnelError> {
        match received {
            IpReceived::Reply { datagram, reason } => {
                self.queue_datagram(datagram)?;
                self.flush()?;
                Ok(IpReceived::Ignored(reason))
            }
            IpReceived::Abort(error) => {
                self.reset(error.code());
                Err(TunnelError::Ip(error))
            }
            other => Ok(other),
        }
    }

    /// Polls for a capsule. Returns `None` at the end of the stream.
    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<IpReceived>, TunnelError>> {
        ready!(self.poll_control(context))?;
        loop {
            let now = self.now();
            if let Some(received) = self.flow.receive_content(&mut self.content, now) {
                return Poll::Ready(Ok(Some(received)));
            }
            match ready!(self.body.poll_chunk(context)) {
                Some(chunk) => self.content = chunk?,
                None => {
                    let ended = self.flow.finish().map(|()| None);
                    return Poll::Ready(ended.map_err(TunnelError::Ip));
                }
            }
        }
    }

    /// Resets the stream.
    pub(super) fn reset(&mut self, code: Code) {
        if let Some(send) = self.send.take() {
            send.reset(code);
        }
    }

    /// Ends the stream.
    pub(super) async fn finish(mut self) {
        if let Some(send) = self.send.take() {
            // The peer may have gone.
            let _ = send.finish().await;
        }
    }
}

/// Returns the length of the packet in an HTTP Datagram.
fn packet_length(datagram: &Bytes) -> usize {
    datagram.len().saturating_sub(ContextId::PAYLOAD.encoded_len())
}
