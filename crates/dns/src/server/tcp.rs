//! DNS over TCP (RFC 7766), for local clients.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_proto::op::MessageType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::{Outcome, Server, format_error};
use crate::framing::next_message;
use crate::handler::Handler;
use crate::protocol::Protocol;
use crate::wire::decode;

/// How long the server pauses when the system cannot accept connections, for example because no
/// file descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

impl<H: Handler> Server<H> {
    /// Responds to the queries of TCP clients, each in its own task. Must be called in a tokio
    /// runtime.
    pub async fn serve_tcp(&self, listener: TcpListener) {
        let room = self.shared.limits.tcp_connections.clamp(1, Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(room));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let server = self.clone();
                    tokio::spawn(async move {
                        // An error ends the connection, which is all that can be done.
                        let _ = server.stream(stream, client).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!("cannot accept a TCP connection: {error}; trying again");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn stream(&self, mut stream: TcpStream, client: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let limits = &self.shared.limits;
        let most = limits.queries_per_connection.max(1);
        let limit = usize::from(limits.query_size);
        let mut queries = FuturesUnordered::new();
        let mut received = BytesMut::new();
        let mut is_over = false;
        loop {
            while queries.len() < most
                && let Some(message) = next_message(&mut received, limit)?
            {
                queries.push(self.message(message, client));
            }
            if is_over && queries.is_empty() {
                return Ok(());
            }
            tokio::select! {
                Some(response) = queries.next() => if let Some(response) = response {
                    timeout(limits.idle_time, stream.write_all(&response)).await??;
                },
                read = timeout(limits.idle_time, stream.read_buf(&mut received)),
                    if !is_over && queries.len() < most =>
                {
                    match read {
                        Ok(read) => is_over = read? == 0,
                        Err(_) if queries.is_empty() => return Ok(()),
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Returns the response to a query, with its length field.
    async fn message(&self, octets: Bytes, client: SocketAddr) -> Option<Vec<u8>> {
        let query = match decode(&octets) {
            Ok(query) if query.metadata.message_type == MessageType::Query => query,
            Ok(_) => return None,
            Err(_) => {
                self.shared.counters.malformed.add();
                let response = format_error(&octets)?;
                let length = u16::try_from(response.len()).ok()?;
                return Some([&length.to_be_bytes(), response.as_slice()].concat());
            }
        };
        match self.process(query, Some(client), Protocol::Tcp).await {
            Outcome::Reply(encoded) => Some(encoded.octets),
            Outcome::Abandoned | Outcome::Overload => None,
        }
    }
}
