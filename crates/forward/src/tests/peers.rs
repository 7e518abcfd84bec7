//! Clients and servers that are plain sockets, and a routing that selects by the first octet.

use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clearway_udp::{
    Batch, EcnCodepoint, MAX_BATCH_BYTES, Meta, ReceiveBuffer, SendOutcome, Socket, poll,
};
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags};

use crate::{Routed, Routing, Target};

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A socket, and the datagrams that it has received.
pub(super) struct Peer {
    socket: Socket,
    buffer: ReceiveBuffer,
    received: VecDeque<(Meta, Vec<u8>)>,
    last_sender: Option<SocketAddr>,
}

impl Peer {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self::with(Socket::bind(address).unwrap())
    }

    fn with(socket: Socket) -> Self {
        Self { socket, buffer: ReceiveBuffer::new(), received: VecDeque::new(), last_sender: None }
    }

    /// Returns another descriptor of the same socket.
    pub(super) fn duplicate(&self) -> Self {
        let socket = self.socket.as_fd().try_clone_to_owned().unwrap();
        Self::with(Socket::bound(UdpSocket::from(socket)).unwrap())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    /// Sends datagrams of this size in one call. The last one may be smaller.
    pub(super) fn send(&mut self, to: SocketAddr, ecn: EcnCodepoint, bytes: &[u8], size: usize) {
        let batch = Batch {
            destination: to,
            source_ip: None,
            ecn,
            contents: bytes,
            segment_size: (bytes.len() > size).then_some(size),
        };
        let outcome = self.socket.send(&batch, &mut 0);
        assert!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
    }

    /// Sends one datagram, which may be empty.
    pub(super) fn send_empty(&self, to: SocketAddr, bytes: &[u8]) {
        let socket = UdpSocket::from(self.socket.as_fd().try_clone_to_owned().unwrap());
        socket.send_to(bytes, to).unwrap();
    }

    /// Waits for the next datagram.
    pub(super) fn receive(&mut self) -> (Meta, Vec<u8>) {
        self.try_receive(TIMEOUT).expect("a datagram arrives in time")
    }

    /// Returns the next datagram, if one arrives in time.
    pub(super) fn try_receive(&mut self, patience: Duration) -> Option<(Meta, Vec<u8>)> {
        if self.received.is_empty() {
            let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
            poll(&mut descriptors, Some(patience)).unwrap();
            let received = &mut self.received;
            let take = |meta, datagram: &mut [u8]| received.push_back((meta, datagram.to_vec()));
            self.socket.receive(&mut self.buffer, take).unwrap();
        }
        let received = self.received.pop_front()?;
        self.last_sender = Some(received.0.remote);
        Some(received)
    }

    /// Returns the source of the last datagram.
    pub(super) fn last_sender(&self) -> SocketAddr {
        self.last_sender.unwrap()
    }
}

/// The second octet of a datagram that does not begin a connection.
pub(super) const STRAY: u8 = 0xff;

/// Difference between the first octets for consecutive servers. With it, datagrams for the first
/// servers do not look like a preface.
pub(super) const STEP: u8 = 4;

/// The second octet of a datagram whose reply is empty; the next constant is for a reply that is
/// too large.
pub(super) const EMPTY_REPLY: u8 = 1;
pub(super) const LARGE_REPLY: u8 = 2;

/// A routing by the first octet, which is the number of the server times [`STEP`]. Datagrams that
/// begin with `r` get a reply, and all others are dropped.
#[derive(Clone)]
pub(super) struct Script {
    servers: Vec<SocketAddr>,
    has_preface: bool,
    /// Whether all datagrams go to the first server.
    pub(super) is_total: bool,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    observed: AtomicU64,
    turns: AtomicU64,
    clients: Mutex<BTreeSet<SocketAddr>>,
    restored: Mutex<Vec<Vec<u8>>>,
}

impl Script {
    pub(super) fn new(servers: &[SocketAddr], has_preface: bool) -> Self {
        Self { servers: servers.to_vec(), has_preface, is_total: false, counts: Arc::default() }
    }

    pub(super) fn routed(&self, datagram: &[u8]) -> Routed {
        let (has_preface, begins) = (self.has_preface, datagram.get(1) != Some(&STRAY));
        let number = if self.is_total { 0 } else { datagram[0] / STEP };
        match self.servers.get(usize::from(number)) {
            Some(server) if self.is_total || datagram[0] != b'r' => {
                Routed::To(Target { server: *server, has_preface, begins })
            }
            _ if datagram[0] == b'r' => Routed::Reply(match datagram.get(1) {
                Some(&EMPTY_REPLY) => Vec::new(),
                Some(&LARGE_REPLY) => vec![0; MAX_BATCH_BYTES + 1],
                _ => b"reply".to_vec(),
            }),
            _ => Routed::Dropped,
        }
    }

    /// Returns how many responses the routing has observed.
    pub(super) fn observed(&self) -> u64 {
        self.counts.observed.load(Ordering::SeqCst)
    }

    pub(super) fn turns(&self) -> u64 {
        self.counts.turns.load(Ordering::SeqCst)
    }

    /// Returns how many threads have restored state from the previous process.
    pub(super) fn restored(&self) -> usize {
        self.counts.restored.lock().unwrap().len()
    }

    /// Returns the clients whose datagrams were routed since the last call.
    pub(super) fn clients(&self) -> BTreeSet<SocketAddr> {
        std::mem::take(&mut *self.counts.clients.lock().unwrap())
    }
}

impl Routing for Script {
    fn route(
        &mut self,
        _: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Routed {
        assert!(local.port() != 0 && local.is_ipv4() == client.is_ipv4());
        self.counts.clients.lock().unwrap().insert(client);
        self.routed(datagram)
    }

    fn observe(&mut self, _: Timestamp, server: SocketAddr, client: SocketAddr, _: &[u8]) {
        assert!(self.servers.contains(&server));
        assert!(client.ip() == client.ip().to_canonical());
        self.counts.observed.fetch_add(1, Ordering::SeqCst);
    }

    fn save(&mut self, _: Timestamp) -> Vec<u8> {
        vec![self.counts.turns.load(Ordering::SeqCst) as u8]
    }

    fn restore(&mut self, _: Timestamp, saved: &[u8]) {
        self.counts.restored.lock().unwrap().push(saved.to_vec());
    }

    fn is_server(&self, address: SocketAddr) -> bool {
        self.has_preface && self.servers.contains(&address)
    }

    fn turn(&mut self, _: Timestamp) {
        self.counts.turns.fetch_add(1, Ordering::SeqCst);
    }
}
