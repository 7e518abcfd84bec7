//! The sockets of a shard: permanent ones, and those that were opened for migrating client
//! connections (RFC 9000 §9.2). Paths refer to their socket by an index that is never reused.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use clearway_transport::SocketIndex;
use clearway_udp::{ReceiveBuffer, ReceiveFailures, Socket};
use clearway_units::Timestamp;

use super::channel::Channel;
use crate::failures::MigrateFailure;
use crate::system::sources::{Interest, Readiness};

/// Maximum number of sockets that a shard opens for migrating connections. A connection uses at
/// most three at a time.
pub(super) const MAX_MIGRATION_SOCKETS: usize = 256;

/// A socket and the shard's state for it.
pub(super) struct Open {
    pub(super) socket: Channel,
    pub(super) failures: ReceiveFailures,
    /// Whether the socket may have something to receive.
    pub(super) is_readable: bool,
    /// The number of connections that use the socket; `None` if it stays open while the shard runs.
    pub(super) users: Option<usize>,
    /// The index that connections use for the socket: its own index, or that of the primary socket
    /// at the same address.
    pub(super) known_as: SocketIndex,
}

/// All sockets of a shard.
pub(crate) struct Sockets {
    open: BTreeMap<SocketIndex, Open>,
    next: u32,
    /// Whether this process receives from the listening sockets; during a hot restart, another
    /// process may receive from them.
    is_listening: bool,
    /// The buffer for received datagrams.
    pub(super) buffer: ReceiveBuffer,
}

impl Sockets {
    /// Creates the set with `main`, the socket on which connections begin, as number 0.
    pub(crate) fn new(main: impl Into<Channel>) -> Self {
        let (open, buffer) = (BTreeMap::new(), ReceiveBuffer::new());
        let mut sockets = Self { open, next: 0, is_listening: true, buffer };
        sockets.insert(main.into(), None);
        sockets
    }

    /// Sets whether to receive from the listening sockets, or leave that to another process.
    /// Connections send through them either way.
    pub(crate) fn listen(&mut self, is_listening: bool) {
        self.is_listening = is_listening;
        self.try_all();
    }

    /// Returns the sockets that this process receives from.
    fn active(&self) -> impl Iterator<Item = &Open> {
        self.open.values().filter(|open| self.is_listening || open.users.is_some())
    }

    /// Returns the socket at which the shard listens.
    pub(crate) fn main(&self) -> Option<&Channel> {
        self.open.get(&SocketIndex::default()).map(|open| &open.socket)
    }

    /// Adds a permanent socket, at which clients may also reach the shard.
    pub(crate) fn add_permanent(&mut self, socket: Socket) {
        self.insert(socket.into(), None);
    }

    /// Adds a secondary socket that listens at the same address as this shard's socket `known_as`:
    /// a socket for long headers, or one from a shard that has ended.
    pub(crate) fn adopt(&mut self, known_as: SocketIndex, socket: Socket) {
        let index = self.insert(socket.into(), None);
        if let Some(open) = self.open.get_mut(&index) {
            open.known_as = known_as;
        }
    }

    /// Removes all listening sockets when the shard ends, each with the index of its address.
    pub(super) fn take_listening(&mut self) -> Vec<(SocketIndex, Socket)> {
        let open = std::mem::take(&mut self.open).into_values();
        let listening = open.filter(|it| it.users.is_none());
        listening.filter_map(|it| Some((it.known_as, it.socket.into_system()?))).collect()
    }

    /// Returns whether `index` is the index of a listening socket.
    pub(super) fn is_listening(&self, index: SocketIndex) -> bool {
        self.open.get(&index).is_some_and(|open| open.users.is_none())
    }

    /// Returns the primary listening sockets, one per address: the socket on which connections
    /// begin, and the sockets at the preferred addresses.
    pub(crate) fn listening(&self) -> impl Iterator<Item = (SocketIndex, &Socket)> {
        let all = self.open.iter().filter(|(_, open)| open.users.is_none());
        let own = all.filter(|(index, open)| open.known_as == **index);
        own.filter_map(|(index, open)| Some((*index, open.socket.system()?)))
    }

    /// Returns the secondary listening sockets, each with the index of the primary socket at the
    /// same address.
    pub(crate) fn beside(&self) -> impl Iterator<Item = (SocketIndex, &Socket)> {
        let all = self.open.iter().filter(|(_, open)| open.users.is_none());
        let beside = all.filter(|(index, open)| open.known_as != **index);
        beside.filter_map(|(_, open)| Some((open.known_as, open.socket.system()?)))
    }

    fn insert(&mut self, socket: Channel, users: Option<usize>) -> SocketIndex {
        let index = SocketIndex(self.next);
        // 2^32 migrations in one shard would take centuries.
        self.next = self.next.saturating_add(1);
        let failures = ReceiveFailures::default();
        let known_as = index;
        self.open.insert(index, Open { socket, failures, is_readable: true, users, known_as });
        index
    }

    pub(super) fn get(&self, index: SocketIndex) -> Option<&Channel> {
        self.open.get(&index).map(|open| &open.socket)
    }

    pub(super) fn get_mut(&mut self, index: SocketIndex) -> Option<&mut Channel> {
        self.open.get_mut(&index).map(|open| &mut open.socket)
    }

    /// Returns all sockets that this process receives from, and the receive buffer. Sockets for
    /// long headers come before the primary ones, so that packets that complete a handshake are
    /// received before the packets that follow them.
    pub(super) fn receiving(
        &mut self,
    ) -> (impl Iterator<Item = (SocketIndex, &mut Open)>, &mut ReceiveBuffer) {
        let Self { open, is_listening, buffer, .. } = self;
        let all = open.iter_mut().rev();
        let active = all.filter(|(_, open)| *is_listening || open.users.is_some());
        (active.map(|(index, open)| (*index, open)), buffer)
    }

    /// Returns how many datagrams of one size the kernel accepts in one call (GSO).
    pub(super) fn max_gso_segments(&self) -> usize {
        self.get(SocketIndex::default()).map_or(1, Channel::max_gso_segments)
    }

    /// Returns the socket at `local` for a connection to `remote`: an open socket at exactly this
    /// address, or a new one. Counts an additional user of the socket. Also returns its local IP
    /// address, if known.
    pub(super) fn acquire(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(SocketIndex, Option<IpAddr>), MigrateFailure> {
        if self.main().is_some_and(|main| main.system().is_none()) {
            return Err(failed(local, io::ErrorKind::Unsupported.into()));
        }
        let bind = local_like(local, remote).ok_or(MigrateFailure::OtherFamily(local))?;
        let known = self.open.iter_mut().find(|(_, open)| open.socket.local_address() == bind);
        let index = match known {
            Some((index, open)) => {
                open.users = open.users.map(|users| users + 1);
                *index
            }
            None => {
                if self.open.values().filter(|it| it.users.is_some()).count()
                    >= MAX_MIGRATION_SOCKETS
                {
                    return Err(MigrateFailure::TooManySockets { limit: MAX_MIGRATION_SOCKETS });
                }
                let socket = Socket::bind(bind).map_err(|error| failed(local, error))?;
                self.insert(socket.into(), Some(1))
            }
        };
        match local_ip(bind.ip(), remote) {
            Ok(ip) => Ok((index, ip)),
            Err(error) => {
                self.release(index);
                Err(failed(local, error))
            }
        }
    }

    /// Releases a connection's use of the socket.
    pub(super) fn release(&mut self, index: SocketIndex) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let Some(users) = &mut open.users else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.open.remove(&index);
        }
    }

    /// Removes a socket that is no longer usable. Returns whether the shard can continue without
    /// it.
    pub(super) fn discard(&mut self, index: SocketIndex) -> bool {
        let is_own = |open: &Open| open.users.is_none() && open.known_as == index;
        let is_optional = !self.open.get(&index).is_some_and(is_own);
        if is_optional {
            self.open.remove(&index);
        }
        is_optional
    }

    /// Returns whether there may be something to receive without waiting.
    pub(super) fn may_receive(&self, now: Timestamp) -> bool {
        self.active().any(|open| {
            let Open { socket, failures, .. } = open;
            failures.paused_until(now).is_none() && (socket.may_have_more() || socket.has_errors())
        })
    }

    /// Makes the next turn try to receive from all sockets.
    pub(super) fn try_all(&mut self) {
        self.open.values_mut().for_each(|open| open.is_readable = true);
    }

    /// Returns the time until which a socket is paused because it could not receive.
    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.active().filter_map(|open| open.failures.paused_until(now)).min()
    }

    /// Returns the events to wait for: any socket can receive, and `blocked` can send. A socket
    /// that failed to receive may be ready all the time, so it is excluded.
    pub(super) fn interest(
        &self,
        now: Timestamp,
        blocked: Option<SocketIndex>,
    ) -> impl Iterator<Item = Interest<'_>> {
        self.open.iter().filter_map(move |(index, open)| {
            if open.failures.paused_until(now).is_some() {
                return None;
            }
            let receives = self.is_listening || open.users.is_some();
            let sends = blocked == Some(*index);
            // A socket that the program provides wakes the shard itself.
            let socket = open.socket.system()?;
            let interest = Interest { index: *index, socket, receives, sends };
            (receives || sends).then_some(interest)
        })
    }

    /// Records the result of waiting for a socket.
    pub(super) fn note_readiness(&mut self, index: SocketIndex, readiness: Readiness) {
        let Some(open) = self.open.get_mut(&index) else { return };
        open.is_readable = readiness.receives;
        if readiness.has_error {
            open.socket.note_errors();
        }
    }
}

fn failed(local: SocketAddr, error: io::Error) -> MigrateFailure {
    MigrateFailure::Socket { local, error: Arc::new(error) }
}

/// Returns the local address `local` in the form used by a socket that sends to `remote`; `None` if
/// no such socket can exist.
fn local_like(local: SocketAddr, remote: SocketAddr) -> Option<SocketAddr> {
    let (ip, port) = (local.ip().to_canonical(), local.port());
    let (any_v4, any_v6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let is_mapped = remote.is_ipv6() && remote.ip().to_canonical().is_ipv4();
    let like = match (ip, remote) {
        (IpAddr::V4(_), SocketAddr::V4(_)) => ip,
        (ip, SocketAddr::V4(_)) if ip.is_unspecified() => any_v4.into(),
        (ip, SocketAddr::V6(_)) if ip.is_unspecified() => any_v6.into(),
        (IpAddr::V4(ip), SocketAddr::V6(_)) if is_mapped => ip.to_ipv6_mapped().into(),
        (IpAddr::V6(_), SocketAddr::V6(_)) if !is_mapped => return Some(local),
        _ => return None,
    };
    Some(SocketAddr::new(like, port))
}

/// Returns the IP address from which a socket bound to `bind` sends to `remote`; `None` if `remote`
/// is an IPv4-mapped address, since the local address could then be written in more than one way.
fn local_ip(bind: IpAddr, remote: SocketAddr) -> io::Result<Option<IpAddr>> {
    if remote.is_ipv6() && remote.ip().to_canonical().is_ipv4() {
        return Ok(None);
    }
    if !bind.is_unspecified() {
        return Ok(Some(bind));
    }
    // Nothing is sent: the kernel only looks up a route.
    let probe = UdpSocket::bind(SocketAddr::new(bind, 0))?;
    probe.connect(remote)?;
    Ok(Some(probe.local_addr()?.ip()))
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
