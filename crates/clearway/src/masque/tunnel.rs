//! The client's end of a UDP tunnel.

use core::future::poll_fn;
use core::task::{Context, Poll};

use bytes::Bytes;
use clearway_masque::QueueLimits;
use clearway_masque::context::{ContextId, Side};
use clearway_masque::request::{self, Form};
use clearway_masque::target::{Target, Values};
use clearway_masque::template::UriTemplate;
use clearway_masque::udp::{Received, UdpFlow, UdpStatistics};
use http::HeaderMap;

use super::TunnelError;
use super::batches::BatchedDatagrams;
use super::opening::{self, Opened};
use crate::http3::{Client, Code, DatagramError, Error, RecvBody, SendBody};

/// A UDP tunnel through a proxy (RFC 9298), to one target.
///
/// Datagrams may be lost, reordered and dropped. The tunnel is closed when this is dropped.
pub struct UdpTunnel {
    flow: UdpFlow,
    datagrams: BatchedDatagrams,
    /// This side of the stream, which stays open as long as the tunnel.
    send: Option<SendBody>,
    body: RecvBody,
    /// Content of the stream that has not been processed yet.
    content: Bytes,
    /// Whether payloads are sent in capsules because the connection cannot carry DATAGRAM frames.
    uses_capsules: bool,
}

impl Client {
    /// Opens a UDP tunnel to `target` through the server of this connection, which is a proxy with
    /// the URI template `template` (RFC 9298 §2).
    ///
    /// # Errors
    /// Fails if the proxy does not support tunnels, or refuses this one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is canceled.
    pub async fn connect_udp(
        &self,
        template: &UriTemplate,
        target: &Target,
    ) -> Result<UdpTunnel, TunnelError> {
        self.connect_udp_with(template, target, HeaderMap::new()).await
    }

    /// Like [`connect_udp`](Self::connect_udp), with additional header fields, such as
    /// `proxy-authorization`.
    ///
    /// # Errors
    /// Fails if the proxy does not support tunnels, or refuses this one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is canceled.
    pub async fn connect_udp_with(
        &self,
        template: &UriTemplate,
        target: &Target,
        fields: HeaderMap,
    ) -> Result<UdpTunnel, TunnelError> {
        let values = Values::Target(target.clone());
        let Opened { send, body, datagrams } =
            opening::extended(self, template, &values, fields).await?;
        let mut flow = UdpFlow::new(Side::Client, QueueLimits::default());
        flow.open();
        let (content, uses_capsules) = (Bytes::new(), datagrams.max_size().is_none());
        let datagrams = BatchedDatagrams::new(datagrams);
        Ok(UdpTunnel { flow, datagrams, send: Some(send), body, content, uses_capsules })
    }
}

impl Client {
    /// Opens a TCP tunnel to `target` through the server of this connection, with a classic CONNECT
    /// request (RFC 9114 §4.4) and these additional header fields. The bodies are the byte streams:
    /// the end of one is a TCP FIN, and a reset with H3_CONNECT_ERROR is a failed TCP connection.
    ///
    /// # Errors
    /// Fails if the proxy refuses the tunnel, or cannot reach the target.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is canceled.
    pub async fn connect_tcp(
        &self,
        target: &Target,
        fields: HeaderMap,
    ) -> Result<(SendBody, RecvBody), TunnelError> {
        let request = request::classic_connect(target);
        let Opened { send, body, .. } = opening::open(self, Form::Classic, request, fields).await?;
        Ok((send, body))
    }
}

impl UdpTunnel {
    /// Sends a UDP payload. Payloads that cannot be sent in time are dropped, the oldest first.
    ///
    /// # Errors
    /// [`DatagramError::TooLarge`] in [`TunnelError::Http`] if the payload is longer than
    /// [`max_payload`](Self::max_payload). Other errors mean that the tunnel has ended.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), TunnelError> {
        self.queue(payload)?;
        self.flush()
    }

    /// Queues a UDP payload, until [`flush`](Self::flush) is called or 64 payloads are queued. This
    /// takes less CPU time than [`send`](Self::send) for each.
    ///
    /// # Errors
    /// Fails like [`send`](Self::send).
    pub fn queue(&mut self, payload: &[u8]) -> Result<(), TunnelError> {
        if let Some(maximum) = self.max_payload()
            && payload.len() > maximum
        {
            self.datagrams.want_larger();
            return Err(Error::Datagram(DatagramError::TooLarge { maximum }).into());
        }
        self.flow.queue(payload);
        while let Some(datagram) = self.flow.next_datagram(usize::MAX) {
            if self.uses_capsules {
                self.send_capsule(datagram)?;
            } else {
                self.datagrams.queue(datagram)?;
            }
        }
        Ok(())
    }

    /// Sends the queued payloads.
    ///
    /// # Errors
    /// An error means that the tunnel has ended.
    pub fn flush(&mut self) -> Result<(), TunnelError> {
        Ok(self.datagrams.flush()?)
    }

    fn send_capsule(&mut self, datagram: Bytes) -> Result<(), TunnelError> {
        let send = self.send.as_mut().ok_or(TunnelError::Closed)?;
        let capsule = crate::http3::Capsule::encode(crate::http3::DATAGRAM_CAPSULE, &datagram);
        // A stream without room delays later datagrams; a dropped datagram delays nothing.
        let mut context = Context::from_waker(core::task::Waker::noop());
        match send.poll_write_chunk(&mut context, &mut { capsule }) {
            Poll::Ready(sent) => Ok(sent?),
            Poll::Pending => Ok(()),
        }
    }

    /// Returns the longest UDP payload that can be sent now, in bytes; `None` if that is not limited
    /// by the path to the proxy. The limit changes with the path's MTU.
    pub fn max_payload(&self) -> Option<usize> {
        let header = ContextId::PAYLOAD.encoded_len();
        Some(self.datagrams.max_size()?.saturating_sub(header))
    }

    /// Waits for the next UDP payload from the target. Returns `None` when the proxy has closed the
    /// tunnel.
    ///
    /// # Errors
    /// Fails if the tunnel or the connection to the proxy has failed.
    ///
    /// # Cancel safety
    /// If the future is dropped, no payload is lost.
    pub async fn receive(&mut self) -> Result<Option<Bytes>, TunnelError> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Polls for the next UDP payload, like [`receive`](Self::receive).
    ///
    /// # Errors
    /// Fails if the tunnel or the connection to the proxy has failed.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, TunnelError>> {
        loop {
            let received = match self.datagrams.poll_receive(context) {
                Poll::Ready(Some(datagram)) => self.flow.receive_datagram(datagram?),
                Poll::Ready(None) | Poll::Pending => match self.poll_content(context) {
                    Poll::Ready(Ok(Some(received))) => received,
                    Poll::Ready(Ok(None)) => return Poll::Ready(Ok(None)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                },
            };
            match received {
                Received::Forward(payload) => return Poll::Ready(Ok(Some(payload))),
                Received::Held | Received::Extension(_) | Received::Ignored(_) => {}
                Received::Abort(error) => {
                    if let Some(send) = self.send.take() {
                        send.reset(error.code());
                    }
                    return Poll::Ready(Err(TunnelError::Protocol(error)));
                }
            }
        }
    }

    /// Polls for a datagram in a capsule. Returns `None` at the end of the stream.
    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Received>, TunnelError>> {
        loop {
            if let Some(received) = self.flow.receive_content(&mut self.content) {
                return Poll::Ready(Ok(Some(received)));
            }
            match core::task::ready!(self.body.poll_chunk(context)) {
                Some(chunk) => self.content = chunk?,
                None => {
                    let ended = self.flow.finish().map(|()| None);
                    return Poll::Ready(ended.map_err(TunnelError::Protocol));
                }
            }
        }
    }

    /// Returns the statistics of the tunnel.
    pub fn statistics(&self) -> &UdpStatistics {
        self.flow.statistics()
    }

    /// Closes the tunnel: the proxy closes its socket.
    pub fn close(mut self) {
        if let Some(send) = self.send.take() {
            send.reset(Code::NO_ERROR);
        }
    }
}

impl core::fmt::Debug for UdpTunnel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UdpTunnel").field("statistics", self.statistics()).finish_non_exhaustive()
    }
}
