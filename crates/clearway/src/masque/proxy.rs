//! The proxy's end of a UDP tunnel.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;

use bytes::Bytes;
use clearway_masque::context::{ContextId, Side};
use clearway_masque::limits::UnansweredGuard;
use clearway_masque::request::{self, Form};
use clearway_masque::udp::{DropReason, Received, Traffic, UdpFlow, UdpStatistics};
use clearway_masque::{QueueLimits, limits};
use clearway_units::Timestamp;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::batches::{BATCH, BatchedDatagrams};
use super::error::{RelayEnd, TunnelError};
use super::target_socket::{Outgoing, TargetSocket, with_outgoing};
use super::turns::{Turn, poll_turns};
use crate::http3::{Code, RecvBody, Responder, SendBody};

/// Time limit for delivering the end of a tunnel's stream to the client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RelayOptions {
    /// The tunnel is closed when no datagram has been relayed for this long. RFC 9298 §3.1 requires
    /// at least two minutes.
    pub idle_timeout: Duration,
    /// Limits on queued datagrams.
    pub queue: QueueLimits,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self { idle_timeout: limits::MIN_IDLE, queue: QueueLimits::default() }
    }
}

/// Accepts a UDP tunnel, and relays between it and `socket` until it ends. The socket must be
/// connected to the target, so that it receives nothing from other hosts.
///
/// Until the target has sent something, only a few datagrams are sent to it
/// ([`UnansweredGuard`]): a proxy must not help to flood hosts that do not want its datagrams.
///
/// `permits` is called for each datagram, in either direction, with its length in bytes. Those that
/// it does not permit are dropped.
///
/// # Cancel safety
/// If the future is dropped, the tunnel is reset.
pub async fn relay_udp(
    body: RecvBody,
    responder: Responder,
    socket: UdpSocket,
    options: &RelayOptions,
    permits: impl FnMut(usize) -> bool,
) -> (UdpStatistics, RelayEnd) {
    relay_udp_observed(body, responder, socket, options, permits, |_| {}).await
}

/// Relays like [`relay_udp`], and calls `observe` whenever datagrams may have been relayed or
/// dropped.
pub(super) async fn relay_udp_observed(
    body: RecvBody,
    responder: Responder,
    socket: UdpSocket,
    options: &RelayOptions,
    permits: impl FnMut(usize) -> bool,
    observe: impl FnMut(&UdpStatistics),
) -> (UdpStatistics, RelayEnd) {
    let datagrams = BatchedDatagrams::new(responder.datagrams());
    let send = responder.start(request::accept(Form::Extended));
    let mut flow = UdpFlow::new(Side::Proxy, options.queue);
    flow.open();
    let client = ClientEnd { datagrams, send, body, content: Bytes::new(), dropped: (0, 0) };
    let socket = match TargetSocket::new(socket) {
        Ok(socket) => socket,
        Err(error) => {
            let end = RelayEnd::Socket(error);
            client.close(&end).await;
            return (flow.statistics().clone(), end);
        }
    };
    let began = Instant::now();
    let mut relay = Relay {
        flow,
        client,
        socket,
        guard: UnansweredGuard::new(Timestamp::ORIGIN),
        began,
        active_at: began,
        permits,
    };
    let end = relay.run(options.idle_timeout, observe).await;
    let Relay { flow, client, socket, .. } = relay;
    // The port is free immediately, not only when the client has accepted the end.
    drop(socket);
    client.close(&end).await;
    (flow.statistics().clone(), end)
}

struct Relay<P> {
    flow: UdpFlow,
    client: ClientEnd,
    socket: TargetSocket,
    guard: UnansweredGuard,
    began: Instant,
    /// When the last datagram was relayed.
    active_at: Instant,
    permits: P,
}

/// The exchange with the client.
struct ClientEnd {
    datagrams: BatchedDatagrams,
    send: SendBody,
    body: RecvBody,
    /// Content of the stream that was not processed yet.
    content: Bytes,
    /// Numbers of datagrams from and to the client that the exchange has dropped, as counted so far.
    dropped: (u64, u64),
}

impl<P: FnMut(usize) -> bool> Relay<P> {
    /// Relays until the tunnel ends, or has been idle for too long.
    async fn run(
        &mut self,
        idle_timeout: Duration,
        mut observe: impl FnMut(&UdpStatistics),
    ) -> RelayEnd {
        let mut idle = pin!(tokio::time::sleep(idle_timeout));
        poll_fn(|context| {
            let turns = poll_turns(context, |context| {
                [self.poll_to_target(context), self.poll_to_client(context)]
            });
            self.count_dropped();
            observe(self.flow.statistics());
            if let Poll::Ready(end) = turns {
                return Poll::Ready(end);
            }
            while idle.as_mut().poll(context).is_ready() {
                match self.active_at.checked_add(idle_timeout) {
                    Some(deadline) if deadline > Instant::now() => idle.as_mut().reset(deadline),
                    _ => return Poll::Ready(RelayEnd::Idle),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Relays a bounded number of datagrams to the target.
    fn poll_to_target(&mut self, context: &mut Context<'_>) -> Turn {
        with_outgoing(|outgoing| {
            let turn = self.poll_client(context, outgoing);
            let flushed = self.socket.flush(outgoing);
            self.flow.discard_for_socket(self.socket.take_unsent(), DropReason::NotSent);
            match flushed {
                Ok(()) => turn,
                Err(error) => Poll::Ready(Err(RelayEnd::Socket(error))),
            }
        })
    }

    /// Queues a bounded number of datagrams for the target.
    fn poll_client(&mut self, context: &mut Context<'_>, outgoing: &mut Outgoing) -> Turn {
        let now = Instant::now();
        for _ in 0..BATCH {
            let received = match ready!(self.client.poll_receive(&mut self.flow, context)) {
                Ok(Some(received)) => received,
                Ok(None) => return Poll::Ready(Err(RelayEnd::Closed)),
                Err(error) => return Poll::Ready(Err(RelayEnd::Tunnel(error))),
            };
            match received {
                Received::Forward(payload) => self.send_to_target(&payload, now, outgoing)?,
                Received::Held | Received::Extension(_) | Received::Ignored(_) => {}
                Received::Abort(error) => {
                    return Poll::Ready(Err(RelayEnd::Tunnel(TunnelError::Protocol(error))));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_to_target(
        &mut self,
        payload: &[u8],
        now: Instant,
        outgoing: &mut Outgoing,
    ) -> Result<(), RelayEnd> {
        self.active_at = now;
        let now = Timestamp::ORIGIN + now.saturating_duration_since(self.began);
        let refused = if !self.guard.permits(payload.len() as u64, now) {
            Some(DropReason::Unanswered)
        } else if !(self.permits)(payload.len()) {
            Some(DropReason::Bandwidth)
        } else {
            None
        };
        if let Some(reason) = refused {
            let payload = Traffic { datagrams: 1, bytes: payload.len() as u64 };
            self.flow.discard_for_socket(payload, reason);
            return Ok(());
        }
        self.socket.send(outgoing, payload).map_err(RelayEnd::Socket)
    }

    /// Relays a bounded number of datagrams to the client.
    fn poll_to_client(&mut self, context: &mut Context<'_>) -> Turn {
        let Self { flow, client, socket, guard, active_at, permits, .. } = self;
        let mut queued = Ok(());
        let received = socket.poll_receive(context, |payload| {
            if queued.is_ok() && permits(payload.len()) {
                flow.queue(payload);
                queued = client.queue(flow, payload.len());
            } else if queued.is_ok() {
                flow.discard(1, DropReason::Bandwidth);
            }
        });
        if ready!(received).map_err(RelayEnd::Socket)? > 0 {
            *active_at = Instant::now();
            guard.on_answer();
        }
        let sent = queued.and_then(|()| Ok(client.datagrams.flush()?));
        Poll::Ready(sent.map_err(RelayEnd::Tunnel))
    }

    /// Counts the datagrams that the exchange with the client has dropped.
    fn count_dropped(&mut self) {
        let (missed, unsent) = self.client.datagrams.dropped_in_both_directions();
        let (missed_before, unsent_before) = self.client.dropped;
        self.client.dropped = (missed, unsent);
        self.flow.discard(missed.saturating_sub(missed_before), DropReason::QueueFull);
        self.flow.discard(unsent.saturating_sub(unsent_before), DropReason::NotSent);
    }
}

impl ClientEnd {
    /// Polls for data from the client. Returns `None` at the end of the tunnel.
    fn poll_receive(
        &mut self,
        flow: &mut UdpFlow,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Received>, TunnelError>> {
        if let Poll::Ready(Some(datagram)) = self.datagrams.poll_receive(context) {
            return Poll::Ready(Ok(Some(flow.receive_datagram(datagram?))));
        }
        loop {
            if let Some(received) = flow.receive_content(&mut self.content) {
                return Poll::Ready(Ok(Some(received)));
            }
            match ready!(self.body.poll_chunk(context)) {
                Some(chunk) => self.content = chunk?,
                None => {
                    let ended = flow.finish().map(|()| None);
                    return Poll::Ready(ended.map_err(TunnelError::Protocol));
                }
            }
        }
    }

    /// Passes the queue of `flow` to the batch. Datagrams that the connection cannot carry are
    /// dropped. `length` is that of the newest UDP payload.
    fn queue(&mut self, flow: &mut UdpFlow, length: usize) -> Result<(), TunnelError> {
        // Capsules are for connections without DATAGRAM frames, and until the client's SETTINGS have
        // arrived.
        let Some(maximum) = self.datagrams.max_size() else {
            while let Some(capsule) = flow.next_capsule() {
                let mut context = Context::from_waker(Waker::noop());
                match self.send.poll_write_chunk(&mut context, &mut { capsule }) {
                    Poll::Ready(sent) => sent?,
                    // The stream has no room.
                    Poll::Pending => flow.discard_for_peer(length, DropReason::NotSent),
                }
            }
            return Ok(());
        };
        if length.saturating_add(ContextId::PAYLOAD.encoded_len()) > maximum {
            self.datagrams.want_larger();
        }
        while let Some(datagram) = flow.next_datagram(maximum) {
            self.datagrams.queue(datagram)?;
        }
        Ok(())
    }

    async fn close(self, end: &RelayEnd) {
        match end {
            RelayEnd::Closed | RelayEnd::Idle => {
                // The client may have gone, or not read. Dropping the future resets the stream.
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.send.finish()).await;
            }
            RelayEnd::Tunnel(TunnelError::Protocol(error)) => self.send.reset(error.code()),
            RelayEnd::Tunnel(_) | RelayEnd::Socket(_) | RelayEnd::Device(_) => {
                self.send.reset(Code::CONNECT_ERROR);
            }
        }
    }
}
