//! The source ports from which datagrams are sent to servers, each with its socket.
//!
//! The kernel of a server with several shards distributes datagrams among them by a hash of
//! addresses and ports. A single source port for all clients would reach only one shard, so there
//! are many of them, and a hash of the client's address selects one, which requires no memory. For
//! servers without prefaces, each port identifies one client, which is recorded in a table.

use core::mem::MaybeUninit;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use clearway_udp::{ReceiveFailures, Socket};
use clearway_units::Timestamp;
use rustix::event::{Timespec, epoll};

use super::Options;
use super::table::{Claim, Client, Table};

/// Maximum number of ports from which one turn receives.
const PORTS_PER_TURN: usize = 64;
/// Total number of ports that all threads use for servers with prefaces: several for each shard
/// that such a server probably has, but few enough for the usual limit of 1,024 open files.
const WITH_PREFACE: usize = 256;
/// Minimum number of ports per thread for servers with prefaces.
const LEAST_WITH_PREFACE: usize = 8;

/// The ports and their clients.
pub(super) struct Ports {
    /// The assignment of ports to clients of servers without prefaces.
    pub(super) table: Table,
    /// The open ports, which have the lowest numbers.
    pub(super) sockets: Vec<Socket>,
    /// Number of open ports that are also used for servers with prefaces.
    with_preface: usize,
    /// The hash of client addresses. Its key is secret, so that outsiders cannot know which clients
    /// share a port.
    hash: RandomState,
    /// Reports which ports have received datagrams, because there may be too many ports to check
    /// each of them.
    epoll: OwnedFd,
    /// Receive failures of all sockets.
    pub(super) failures: ReceiveFailures,
    /// Whether any port may have datagrams to receive.
    is_ready: bool,
    /// Whether the last attempt to open a port failed.
    cannot_open: bool,
}

impl Ports {
    /// Creates the ports, none of which is open yet.
    pub(super) fn new(options: &Options) -> io::Result<Self> {
        // The number of ports never exceeds this capacity.
        let count = options.ports.get().min(usize::from(u16::MAX)) as u32;
        let with_preface = WITH_PREFACE.div_ceil(options.shards.get()).max(LEAST_WITH_PREFACE);
        Ok(Self {
            table: Table::new(count, options.idle),
            sockets: Vec::new(),
            with_preface,
            hash: RandomState::new(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            failures: ReceiveFailures::default(),
            is_ready: false,
            cannot_open: false,
        })
    }

    /// Opens the missing ports for servers with prefaces.
    pub(super) fn open_with_preface(&mut self) -> io::Result<()> {
        while self.sockets.len() < self.with_preface {
            self.open()?;
        }
        Ok(())
    }

    /// Takes over a port of the previous process.
    pub(super) fn adopt(&mut self, socket: UdpSocket) -> io::Result<()> {
        self.add(Socket::bound(socket)?)
    }

    /// Returns the port that is used for a client's datagrams to servers with prefaces, and its
    /// socket.
    pub(super) fn port_with_preface(&self, client: SocketAddr) -> Option<(u32, &Socket)> {
        let hash = self.hash.hash_one((client.ip(), client.port()));
        let port = (hash % self.with_preface as u64) as u32;
        Some((port, self.sockets.get(port as usize)?))
    }

    /// Returns the port that is used for a client's datagrams to a server without prefaces, and its
    /// socket; `None` if no port is available to the client, or it cannot be opened.
    pub(super) fn port_for(
        &mut self,
        now: Timestamp,
        server: SocketAddr,
        client: Client,
        claim: Claim<'_>,
    ) -> Option<(u32, &Socket)> {
        let port = self.table.port(now, server, client, claim)?;
        let number = usize::try_from(port).ok()?;
        while self.sockets.len() <= number {
            if let Err(error) = self.open() {
                self.table.release(port, server);
                if !std::mem::replace(&mut self.cannot_open, true) {
                    let open = self.sockets.len();
                    tracing::warn!(
                        %error,
                        open,
                        "cannot open another source port: dropping the datagrams of new clients; \
                         the limit on open files (ulimit -n) may be too low"
                    );
                }
                return None;
            }
            self.cannot_open = false;
        }
        Some((port, self.sockets.get(number)?))
    }

    fn open(&mut self) -> io::Result<()> {
        self.add(bind_any()?)
    }

    fn add(&mut self, socket: Socket) -> io::Result<()> {
        let number = epoll::EventData::new_u64(self.sockets.len() as u64);
        epoll::add(&self.epoll, &socket, number, epoll::EventFlags::IN)?;
        self.sockets.push(socket);
        Ok(())
    }

    pub(super) fn socket_mut(&mut self, port: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(usize::try_from(port).ok()?)
    }

    /// Records the readiness that was found by waiting; see [`is_ready`](Self::is_ready).
    pub(super) fn note_readiness(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
    }

    /// Returns whether to try to receive.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.is_ready && self.failures.paused_until(now).is_none()
    }

    /// Returns a bounded number of ports that may have datagrams to receive. Ports that still have
    /// datagrams after this turn are last in the next turn.
    pub(super) fn ready(&mut self, ready: &mut Vec<u32>) {
        ready.clear();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut space = [MaybeUninit::uninit(); PORTS_PER_TURN];
        // After an interruption, the next turn checks again.
        let waited = epoll::wait(&self.epoll, &mut space, Some(&now));
        let Ok((events, _)) = waited else { return };
        for event in events {
            let (flags, data) = (event.flags, event.data);
            let Ok(port) = u32::try_from(data.u64()) else { continue };
            if flags.intersects(epoll::EventFlags::ERR)
                && let Some(socket) = self.sockets.get_mut(port as usize)
            {
                socket.note_errors();
            }
            ready.push(port);
        }
    }
}

impl AsFd for Ports {
    /// Returns a descriptor that is readable when one of the ports is readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Binds a socket to any free port, dual-stack if the system supports it.
fn bind_any() -> io::Result<Socket> {
    let any = |ip: IpAddr| Socket::bind(SocketAddr::new(ip, 0));
    any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))
}
