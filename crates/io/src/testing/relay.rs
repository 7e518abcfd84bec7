//! A NAT in front of a server, in one thread, that changes a client's port on request.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// One client's path through the NAT.
struct Way {
    /// The socket that the client sends to.
    front: UdpSocket,
    client: Option<SocketAddr>,
    /// The socket from which datagrams go to the server.
    back: UdpSocket,
    rebinds: Arc<AtomicBool>,
    /// If set, datagrams from other clients are dropped.
    only: Option<SocketAddr>,
    first_octets: FirstOctets,
}

/// The first octets of the connection IDs in packets with short headers.
pub type FirstOctets = Arc<Mutex<BTreeSet<u8>>>;

/// The client's side of the NAT.
pub struct Entrance {
    /// The address that the client sends to.
    pub address: SocketAddr,
    /// If set, the next datagram to the server comes from another port.
    pub rebinds: Arc<AtomicBool>,
    /// The first octets of the connection IDs in packets to the server.
    pub first_octets: FirstOctets,
}

/// The NAT, which ends when this is dropped.
pub struct Relay {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a NAT with a path for each of `count` clients.
    pub fn start(server: SocketAddr, count: usize) -> (Self, Vec<Entrance>) {
        Self::with_ways(server, (0..count).map(|_| Way::new(server, None)).collect())
    }

    /// Starts a NAT with a path for each of these clients. Datagrams that another test still sends
    /// to a reused port are dropped: the response would be a stateless reset, which looks like a
    /// packet with an arbitrary connection ID.
    pub fn start_for(
        server: SocketAddr,
        clients: impl IntoIterator<Item = SocketAddr>,
    ) -> (Self, Vec<Entrance>) {
        let way = |client| Way::new(server, Some(client));
        Self::with_ways(server, clients.into_iter().map(way).collect())
    }

    fn with_ways(server: SocketAddr, mut ways: Vec<Way>) -> (Self, Vec<Entrance>) {
        let entrances = ways.iter().map(|way| Entrance {
            address: way.front.local_addr().unwrap(),
            rebinds: way.rebinds.clone(),
            first_octets: way.first_octets.clone(),
        });
        let entrances = entrances.collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                wait(&ways);
                ways.iter_mut().for_each(|way| way.forward(server));
            }
        });
        (Self { is_over, thread: Some(thread) }, entrances)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

fn wait(ways: &[Way]) {
    let sockets = ways.iter().flat_map(|way| [&way.front, &way.back]);
    let mut descriptors: Vec<_> =
        sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let _ = poll(&mut descriptors, Some(&timeout));
}

fn back(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl Way {
    fn new(server: SocketAddr, only: Option<SocketAddr>) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_nonblocking(true).unwrap();
        let (rebinds, first_octets) = (Arc::default(), Arc::default());
        Self { front, client: None, back: back(server), rebinds, only, first_octets }
    }

    fn forward(&mut self, server: SocketAddr) {
        let mut buffer = [0; 2048];
        while let Ok((length, client)) = self.front.recv_from(&mut buffer) {
            if self.only.is_some_and(|only| only != client) {
                continue;
            }
            self.client = Some(client);
            if let [0x00..=0x7f, first_octet, ..] = buffer[..length] {
                self.first_octets.lock().unwrap().insert(first_octet);
            }
            if self.rebinds.swap(false, Ordering::SeqCst) {
                self.back = back(server);
            }
            let _ = self.back.send(&buffer[..length]);
        }
        while let Ok(length) = self.back.recv(&mut buffer) {
            if let Some(client) = self.client {
                let _ = self.front.send_to(&buffer[..length], client);
            }
        }
    }
}
