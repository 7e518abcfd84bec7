//! A UDP tunnel used as an endpoint's socket.

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io;

use clearway_io::{Batch, DatagramSocket, EcnCodepoint, Meta, SendOutcome};

use super::batches::BATCH;
use super::{TunnelError, UdpTunnel};
use crate::http3::{DatagramError, Error};

/// A UDP tunnel used as an endpoint's socket: all datagrams go to the tunnel's target. See
/// [`Endpoint::client_over`](crate::Endpoint::client_over).
#[derive(Debug)]
pub struct TunnelSocket {
    tunnel: UdpTunnel,
    local: SocketAddr,
    target: SocketAddr,
}

impl UdpTunnel {
    /// Returns a socket for an endpoint whose connections run inside this tunnel.
    ///
    /// Connect the endpoint to `target`. If the proxy resolves the target's name, the address is only
    /// a name for the target: any will do. `local` is what the endpoint reports as its own address.
    pub fn into_socket(self, local: SocketAddr, target: SocketAddr) -> TunnelSocket {
        TunnelSocket { tunnel: self, local, target }
    }
}

impl DatagramSocket for TunnelSocket {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        BATCH
    }

    fn send(&mut self, batch: &Batch<'_>, _context: &mut Context<'_>) -> SendOutcome {
        if batch.destination != self.target {
            let error = "this tunnel can send only to its target";
            return SendOutcome::Failed(io::Error::new(io::ErrorKind::HostUnreachable, error));
        }
        let segment = batch.segment_size.unwrap_or(batch.contents.len()).max(1);
        let mut payloads = batch.contents.chunks(segment);
        let queued = payloads.try_for_each(|payload| self.tunnel.queue(payload));
        match queued.and_then(|()| self.tunnel.flush()) {
            Ok(()) => SendOutcome::Sent,
            Err(TunnelError::Http(Error::Datagram(DatagramError::TooLarge { .. }))) => {
                SendOutcome::TooLarge
            }
            Err(error) => SendOutcome::Failed(io::Error::new(io::ErrorKind::NotConnected, error)),
        }
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Meta)>> {
        loop {
            let received = core::task::ready!(self.tunnel.poll_receive(context));
            let ended = |why| Poll::Ready(Err(io::Error::new(io::ErrorKind::NotConnected, why)));
            let payload = match received {
                Ok(Some(payload)) => payload,
                Ok(None) => return ended(TunnelError::Closed),
                Err(error) => return ended(error),
            };
            // Longer than any datagram that an endpoint accepts.
            let Some(room) = buffer.get_mut(..payload.len()) else { continue };
            room.copy_from_slice(&payload);
            // The proxy does not report the ECN field (RFC 9298 §6.3).
            let ecn = EcnCodepoint::NotEct;
            let meta = Meta { remote: self.target, local_ip: None, ecn };
            return Poll::Ready(Ok((payload.len(), meta)));
        }
    }
}
