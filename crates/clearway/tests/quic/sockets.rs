//! Tests of endpoints over sockets that the program provides.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use clearway::socket::{Batch, DatagramSocket, EcnCodepoint, Meta, SendOutcome};
use clearway::{Connection, Endpoint};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use crate::support::{Pair, loopback, pattern, run};

/// A tokio socket with injected faults.
struct Provided {
    socket: UdpSocket,
    local: SocketAddr,
    /// Maximum size of a datagram in bytes; larger ones are rejected.
    limit: usize,
    /// The first attempt to send every n-th datagram finds the socket full.
    full_every: usize,
    /// Maximum number of datagrams in a batch.
    segments: usize,
    /// The largest number of datagrams in a batch so far.
    most_sent: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
}

impl Provided {
    fn new() -> Self {
        let socket = std::net::UdpSocket::bind(loopback()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from_std(socket).unwrap();
        let local = socket.local_addr().unwrap();
        let (limit, full_every, segments) = (usize::MAX, usize::MAX, 1);
        let (most_sent, sent, has_ended) = Default::default();
        Self { socket, local, limit, full_every, segments, most_sent, sent, has_ended }
    }
}

impl DatagramSocket for Provided {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        self.segments
    }

    fn send(&mut self, batch: &Batch<'_>, context: &mut Context<'_>) -> SendOutcome {
        let size = batch.segment_size.unwrap_or(batch.contents.len());
        let datagrams = batch.contents.chunks(size);
        assert!(datagrams.len() <= self.segments);
        // A batch of one has no segments.
        assert_eq!(datagrams.len() > 1, batch.segment_size.is_some());
        self.most_sent.fetch_max(datagrams.len(), Ordering::SeqCst);
        if size > self.limit {
            return SendOutcome::TooLarge;
        }
        if self.sent.fetch_add(1, Ordering::SeqCst) % self.full_every == self.full_every - 1 {
            let waker = context.waker().clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1));
                waker.wake();
            });
            return SendOutcome::WouldBlock;
        }
        for datagram in datagrams {
            match self.socket.try_send_to(datagram, batch.destination) {
                Ok(_) => {}
                // Dropped, as by any network.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return SendOutcome::Failed(error),
            }
        }
        SendOutcome::Sent
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Meta)>> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }
        let mut buffer = ReadBuf::new(buffer);
        self.socket.poll_recv_from(context, &mut buffer).map_ok(|remote| {
            let meta = Meta { remote, local_ip: None, ecn: EcnCodepoint::NotEct };
            (buffer.filled().len(), meta)
        })
    }
}

async fn connect(pair: &Pair, client: &Endpoint) -> (Connection, Connection) {
    let address = pair.server.local_address();
    let connecting = client.connect_with(&pair.config, address, "localhost").unwrap();
    let (client, server) =
        tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
    (client.unwrap(), server.unwrap())
}

async fn transfer(from: &Connection, to: &Connection) {
    let content = pattern(1_000_000);
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&content).await.unwrap();
        stream.finish().unwrap();
    };
    let receive = async { to.accept_uni().await.unwrap().read_to_end(2_000_000).await.unwrap() };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == content);
}

#[test]
fn data_passes_in_both_directions() {
    run(async {
        let pair = Pair::new();
        let provided = Provided::new();
        let local = provided.local;
        let endpoint = Endpoint::client_over(provided).unwrap();
        assert_eq!(endpoint.local_address(), local);
        let (client, server) = connect(&pair, &endpoint).await;
        assert_eq!(server.remote_address(), local);
        transfer(&client, &server).await;
        transfer(&server, &client).await;
    });
}

/// A socket that supports batches gets datagrams together, and again if it was full.
#[test]
fn datagrams_are_sent_in_batches() {
    run(async {
        let pair = Pair::new();
        let provided = Provided { segments: 8, full_every: 3, limit: 1452, ..Provided::new() };
        let most_sent = provided.most_sent.clone();
        let endpoint = Endpoint::client_over(provided).unwrap();
        let (client, server) = connect(&pair, &endpoint).await;
        transfer(&client, &server).await;
        transfer(&server, &client).await;
        assert_eq!(most_sent.load(Ordering::SeqCst), 8);
    });
}

/// A connection continues when the socket has room again.
#[test]
fn a_full_socket_delays_datagrams() {
    run(async {
        let pair = Pair::new();
        // The limit bounds the number of datagrams from below: path MTU discovery may otherwise
        // reach the 65,507 bytes that loopback carries.
        let provided = Provided { full_every: 3, limit: 1452, ..Provided::new() };
        let sent = provided.sent.clone();
        let endpoint = Endpoint::client_over(provided).unwrap();
        let (client, server) = connect(&pair, &endpoint).await;
        transfer(&client, &server).await;
        assert!(sent.load(Ordering::SeqCst) > 1_000_000 / 1452);
    });
}

/// Path MTU discovery stays below the limit of the socket (RFC 9000 §14.3).
#[test]
fn a_socket_limits_the_size_of_datagrams() {
    run(async {
        let pair = Pair::new();
        let endpoint = Endpoint::client_over(Provided { limit: 1250, ..Provided::new() }).unwrap();
        let (client, server) = connect(&pair, &endpoint).await;
        transfer(&client, &server).await;
        let mtu = client.statistics().datagram_size;
        assert!((1200..=1250).contains(&mtu), "{mtu}");
    });
}

#[test]
fn a_socket_that_has_ended_ends_its_connections() {
    run(async {
        let pair = Pair::new();
        let provided = Provided::new();
        let has_ended = provided.has_ended.clone();
        let endpoint = Endpoint::client_over(provided).unwrap();
        let (client, server) = connect(&pair, &endpoint).await;
        has_ended.store(true, Ordering::SeqCst);
        // Makes the socket receive once more.
        server.open_uni().await.unwrap().write_all(b"hello").await.unwrap();
        let error = client.closed().await;
        assert!(endpoint.failure().is_some(), "{error}");
    });
}

#[test]
fn connections_over_a_provided_socket_do_not_migrate() {
    run(async {
        let pair = Pair::new();
        let endpoint = Endpoint::client_over(Provided::new()).unwrap();
        let (client, server) = connect(&pair, &endpoint).await;
        client.migrate("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        transfer(&client, &server).await;
    });
}
