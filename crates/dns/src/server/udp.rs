//! DNS over UDP, for local clients.

use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use futures_util::FutureExt;
use hickory_proto::op::MessageType;
use tokio::net::UdpSocket;

use super::{Outcome, Server, format_error};
use crate::handler::Handler;
use crate::protocol::Protocol;
use crate::wire::decode;

impl<H: Handler> Server<H> {
    /// Responds to the queries that `socket` receives.
    ///
    /// Anyone can spoof the source address of a UDP query, so a socket that the Internet can reach
    /// is useful for attacks on others: listen on an address of the host or of a local network.
    ///
    /// # Errors
    /// Returns the error with which the socket fails. Must be called in a tokio runtime.
    pub async fn serve_udp(&self, socket: UdpSocket) -> io::Error {
        let socket = Arc::new(socket);
        // One more octet than the limit, to recognize longer queries.
        let mut buffer = vec![0; usize::from(self.shared.limits.query_size).saturating_add(1)];
        loop {
            let (length, client) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) if is_about_a_client(&error) => continue,
                Err(error) => return error,
            };
            let Some(datagram) = buffer.get(..length) else { continue };
            if length < buffer.len() {
                self.datagram(&socket, datagram, client);
            }
        }
    }

    /// Processes a query: immediately if the response is in the cache, otherwise in a task.
    fn datagram(&self, socket: &Arc<UdpSocket>, datagram: &[u8], client: SocketAddr) {
        let query = match decode(datagram) {
            Ok(query) if query.metadata.message_type == MessageType::Query => query,
            // Not answered, so that two servers never answer each other.
            Ok(_) => return,
            Err(_) => {
                self.shared.counters.malformed.add();
                if let Some(response) = format_error(datagram) {
                    send(socket, &response, client);
                }
                return;
            }
        };
        let (server, socket) = (self.clone(), socket.clone());
        let mut work = Box::pin(async move {
            if let Outcome::Reply(encoded) =
                server.process(query, Some(client), Protocol::Udp).await
            {
                send(&socket, &encoded.octets, client);
            }
        });
        if (&mut work).now_or_never().is_none() {
            tokio::spawn(work);
        }
    }
}

/// Sends a response. If the socket's buffer is full, the response is dropped, as it might be in the
/// network.
fn send(socket: &UdpSocket, response: &[u8], client: SocketAddr) {
    if let Err(error) = socket.try_send_to(response, client) {
        tracing::debug!("cannot send a response to {client}: {error}");
    }
}

/// Returns whether a receive error only reports that an earlier response could not be delivered.
fn is_about_a_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}
