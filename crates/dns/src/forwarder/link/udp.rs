//! DNS over UDP, and over TCP for truncated responses.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hickory_proto::op::Message;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::super::question::Question;
use super::LinkError;
use super::reconnecting::Reconnecting;
use super::stream::TcpConnector;
use crate::upstream::Upstream;
use crate::wire::{Layout, MAX_MESSAGE, PAYLOAD, encode_query};

/// How long to wait for a response before the query is sent again.
const RETRANSMIT: Duration = Duration::from_millis(700);
/// How long a resolved address is used.
const ADDRESS_TIME: Duration = Duration::from_secs(60);

pub(crate) struct UdpLink {
    upstream: Upstream,
    tcp: Reconnecting<TcpConnector>,
    /// The server's address, and when it was resolved.
    address: Mutex<Option<(SocketAddr, Instant)>>,
    /// Permits for open sockets, shared by all links of a forwarder.
    sockets: Arc<Semaphore>,
}

impl UdpLink {
    pub(crate) fn new(upstream: Upstream, sockets: Arc<Semaphore>) -> Self {
        let tcp = Reconnecting::new(TcpConnector { upstream: upstream.clone() });
        Self { upstream, tcp, address: Mutex::new(None), sockets }
    }

    /// Sends a question, and returns the response. If the UDP response is truncated, queries again
    /// over TCP.
    pub(crate) async fn exchange(
        &self,
        question: &Question,
        limit: Duration,
    ) -> Result<Message, LinkError> {
        let begun = Instant::now();
        let response = timeout(limit, self.over_udp(question)).await;
        let response = response.unwrap_or(Err(LinkError::TimedOut))?;
        match response.metadata.truncation {
            true => self.tcp.exchange(question, limit.saturating_sub(begun.elapsed())).await,
            false => Ok(response),
        }
    }

    /// Sends a question from a port of its own (RFC 5452 §9.2), and retransmits it until a response
    /// arrives.
    async fn over_udp(&self, question: &Question) -> Result<Message, LinkError> {
        let message = question.message();
        let id = message.metadata.id;
        let layout = Layout { is_prefixed: false, block: None, limit: MAX_MESSAGE };
        let octets = encode_query(message, id, layout).map_err(LinkError::lost)?;
        let full = |_| LinkError::Shortage("too many queries are outstanding".into());
        let _permit = self.sockets.try_acquire().map_err(full)?;
        let socket = self.socket().await.map_err(|error| LinkError::opening(&error))?;
        loop {
            socket.send(&octets).await.map_err(LinkError::lost)?;
            let response = timeout(RETRANSMIT, receive(&socket, question, id)).await;
            if let Ok(response) = response {
                return response.map_err(LinkError::lost);
            }
        }
    }

    async fn socket(&self) -> io::Result<UdpSocket> {
        let address = self.address().await?;
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(address).await?;
        Ok(socket)
    }

    async fn address(&self) -> io::Result<SocketAddr> {
        let known = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((address, since)) = known
            && since.elapsed() < ADDRESS_TIME
        {
            return Ok(address);
        }
        let addresses = self.upstream.resolve().await?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let address = addresses.first().copied().ok_or_else(none)?;
        let now = Some((address, Instant::now()));
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(address)
    }
}

/// Waits for the response, and ignores all other datagrams, which may be spoofed.
async fn receive(socket: &UdpSocket, question: &Question, id: u16) -> io::Result<Message> {
    let mut buffer = vec![0; PAYLOAD.into()];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let response = buffer.get(..length).map(|octets| question.response(octets, id));
        if let Some(Ok(response)) = response {
            return Ok(response);
        }
    }
}
