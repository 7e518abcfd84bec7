//! The source ports towards servers, each a socket.
//!
//! A server with several shards has the kernel distribute among them what comes by a hash of addresses and ports. So one port
//! for all clients would reach one shard only, and there are many: a client's is found by a hash of its address, and
//! nothing is remembered. Towards servers without preface a port stands for one client, and a table says for which.

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

/// From how many ports a turn receives.
const PORTS_PER_TURN: usize = 64;
/// How many ports all threads together have towards servers with preface: several for each shard that such a server is likely
/// to have, and few enough for the usual limit of 1,024 open files.
const WITH_PREFACE: usize = 256;
/// How many each thread has at least.
const LEAST_WITH_PREFACE: usize = 8;

/// The ports, and who has them.
pub(super) struct Ports {
    /// Who has which of them towards servers without preface.
    pub(super) table: Table,
    /// Those that were opened, the lowest numbers.
    pub(super) sockets: Vec<Socket>,
    /// How many of them are for servers with preface; not only for these.
    with_preface: usize,
    /// Nobody outside knows which clients share a port.
    hash: RandomState,
    /// Says which of them have received something: there may be too many to ask each.
    epoll: OwnedFd,
    /// Of all sockets.
    pub(super) failures: ReceiveFailures,
    /// Some may have something to receive.
    is_ready: bool,
    /// The last attempt to open one failed.
    cannot_open: bool,
}

impl Ports {
    /// No ports yet.
    pub(super) fn new(options: &Options) -> io::Result<Self> {
        // There are no more ports than this.
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

    /// Opens the ports towards servers with preface that there are not yet.
    pub(super) fn open_with_preface(&mut self) -> io::Result<()> {
        while self.sockets.len() < self.with_preface {
            self.open()?;
        }
        Ok(())
    }

    /// Takes over a port of the process before.
    pub(super) fn adopt(&mut self, socket: UdpSocket) -> io::Result<()> {
        self.add(Socket::bound(socket)?)
    }

    /// The port of a client towards servers with preface, and its socket.
    pub(super) fn port_with_preface(&self, client: SocketAddr) -> Option<(u32, &Socket)> {
        let hash = self.hash.hash_one((client.ip(), client.port()));
        let port = (hash % self.with_preface as u64) as u32;
        Some((port, self.sockets.get(port as usize)?))
    }

    /// The port of a client towards a server without preface, and its socket; `None` if there is none for it, or it cannot be
    /// opened.
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
                self.table.give_back(port, server);
                if !std::mem::replace(&mut self.cannot_open, true) {
                    let open = self.sockets.len();
                    tracing::warn!(
                        %error,
                        open,
                        "no further source port can be opened: datagrams of new clients are dropped. \
                         Is the limit on open files (ulimit -n) too low?"
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

    /// What [`is_ready`](Self::is_ready) found out by waiting.
    pub(super) fn note_readiness(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
    }

    /// Whether it is worth while to receive.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.is_ready && self.failures.paused_until(now).is_none()
    }

    /// The ports that may have something to receive, a bounded number. Those that still have afterwards come after the others
    /// the next time.
    pub(super) fn ready(&mut self, ready: &mut Vec<u32>) {
        ready.clear();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut space = [MaybeUninit::uninit(); PORTS_PER_TURN];
        // After an interruption the next turn asks again.
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
    /// Readable when one of the ports is.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// A socket at any free port, for servers of both families if the system has both.
fn bind_any() -> io::Result<Socket> {
    let any = |ip: IpAddr| Socket::bind(SocketAddr::new(ip, 0));
    any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))
}
