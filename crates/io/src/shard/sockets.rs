//! The sockets of a shard: those that stay open, and those that were opened for clients' connections that migrate
//! (RFC 9000 §9.2). A path names its socket by a number that is never used again.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use clearway_transport::SocketIndex;
use clearway_udp::{ReceiveBuffer, ReceiveFailures, Socket};
use clearway_units::Timestamp;

use crate::failures::MigrateFailure;
use crate::system::sources::{Interest, Readiness};

/// How many sockets a shard opens for connections that migrate. A connection uses at most three at a time.
pub(super) const MAX_MIGRATION_SOCKETS: usize = 256;

/// A socket, and what its shard knows of it.
pub(super) struct Open {
    pub(super) socket: Socket,
    pub(super) failures: ReceiveFailures,
    /// It may have something to receive.
    pub(super) is_readable: bool,
    /// How many connections use it; `None` if it stays open for as long as the shard runs.
    pub(super) users: Option<usize>,
    /// The number by which connections know it: its own, or that of the socket that it is beside at the same address.
    pub(super) known_as: SocketIndex,
}

/// All sockets of a shard.
pub(crate) struct Sockets {
    open: BTreeMap<SocketIndex, Open>,
    next: u32,
    /// Whether anything is received from the listening sockets. Otherwise another process does that, in a hot restart.
    is_listening: bool,
    /// What is received goes through this one buffer.
    pub(super) buffer: ReceiveBuffer,
}

impl Sockets {
    /// The socket that connections begin with is number 0.
    pub(crate) fn new(main: Socket) -> Self {
        let (open, buffer) = (BTreeMap::new(), ReceiveBuffer::new());
        let mut sockets = Self { open, next: 0, is_listening: true, buffer };
        sockets.add_permanent(main);
        sockets
    }

    /// Receives from the listening sockets, or leaves that to another process. Connections send through them either way.
    pub(crate) fn listen(&mut self, is_listening: bool) {
        self.is_listening = is_listening;
        self.try_all();
    }

    /// The sockets that this process receives from.
    fn active(&self) -> impl Iterator<Item = &Open> {
        self.open.values().filter(|open| self.is_listening || open.users.is_some())
    }

    /// The socket at which the shard listens.
    pub(crate) fn main(&self) -> Option<&Socket> {
        self.open.get(&SocketIndex::default()).map(|open| &open.socket)
    }

    /// A socket that stays open, at which clients may also reach the shard.
    pub(crate) fn add_permanent(&mut self, socket: Socket) {
        self.insert(socket, None);
    }

    /// Takes in a further socket that listens at the same address as this shard's own `known_as`: for long headers, or of a
    /// shard that has ended.
    pub(crate) fn adopt(&mut self, known_as: SocketIndex, socket: Socket) {
        let index = self.insert(socket, None);
        if let Some(open) = self.open.get_mut(&index) {
            open.known_as = known_as;
        }
    }

    /// Takes out all listening sockets, each with the number of its address; the shard ends.
    pub(super) fn take_listening(&mut self) -> Vec<(SocketIndex, Socket)> {
        let open = std::mem::take(&mut self.open).into_values();
        open.filter(|it| it.users.is_none()).map(|it| (it.known_as, it.socket)).collect()
    }

    /// Whether this is the number of a listening socket.
    pub(super) fn is_listening(&self, index: SocketIndex) -> bool {
        self.open.get(&index).is_some_and(|open| open.users.is_none())
    }

    /// The listening sockets, one for each address: that with which connections begin, and those at the preferred addresses.
    pub(crate) fn listening(&self) -> impl Iterator<Item = (SocketIndex, &Socket)> {
        let all = self.open.iter().filter(|(_, open)| open.users.is_none());
        let own = all.filter(|(index, open)| open.known_as == **index);
        own.map(|(index, open)| (*index, &open.socket))
    }

    /// The further listening sockets at the same addresses, each with the number of the socket that it is beside.
    pub(crate) fn beside(&self) -> impl Iterator<Item = (SocketIndex, &Socket)> {
        let all = self.open.iter().filter(|(_, open)| open.users.is_none());
        let beside = all.filter(|(index, open)| open.known_as != **index);
        beside.map(|(_, open)| (open.known_as, &open.socket))
    }

    fn insert(&mut self, socket: Socket, users: Option<usize>) -> SocketIndex {
        let index = SocketIndex(self.next);
        // 2^32 migrations of one shard take centuries.
        self.next = self.next.saturating_add(1);
        let failures = ReceiveFailures::default();
        let known_as = index;
        self.open.insert(index, Open { socket, failures, is_readable: true, users, known_as });
        index
    }

    pub(super) fn get(&self, index: SocketIndex) -> Option<&Socket> {
        self.open.get(&index).map(|open| &open.socket)
    }

    pub(super) fn get_mut(&mut self, index: SocketIndex) -> Option<&mut Socket> {
        self.open.get_mut(&index).map(|open| &mut open.socket)
    }

    /// All sockets that this process receives from, and the buffer for what they receive. Those for long headers come before those
    /// that they are beside: what ends a handshake is received before what a client sends next.
    pub(super) fn receiving(
        &mut self,
    ) -> (impl Iterator<Item = (SocketIndex, &mut Open)>, &mut ReceiveBuffer) {
        let Self { open, is_listening, buffer, .. } = self;
        let all = open.iter_mut().rev();
        let active = all.filter(|(_, open)| *is_listening || open.users.is_some());
        (active.map(|(index, open)| (*index, open)), buffer)
    }

    /// How many datagrams of one size the kernel takes in one call.
    pub(super) fn max_gso_segments(&self) -> usize {
        self.get(SocketIndex::default()).map_or(1, Socket::max_gso_segments)
    }

    /// The socket at `local` for a connection to `remote`, of which one more connection makes use: one that is open at
    /// exactly this address, or a new one. Also its local IP address, if that is known.
    pub(super) fn acquire(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(SocketIndex, Option<IpAddr>), MigrateFailure> {
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
                self.insert(socket, Some(1))
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

    /// A connection does not use the socket any more.
    pub(super) fn release(&mut self, index: SocketIndex) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let Some(users) = &mut open.users else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.open.remove(&index);
        }
    }

    /// The socket cannot be used any more. Returns whether the shard can go on without it.
    pub(super) fn discard(&mut self, index: SocketIndex) -> bool {
        let is_own = |open: &Open| open.users.is_none() && open.known_as == index;
        let is_optional = !self.open.get(&index).is_some_and(is_own);
        if is_optional {
            self.open.remove(&index);
        }
        is_optional
    }

    /// Whether there may be something to receive without waiting.
    pub(super) fn may_receive(&self, now: Timestamp) -> bool {
        self.active().any(|open| {
            let Open { socket, failures, .. } = open;
            failures.paused_until(now).is_none() && (socket.may_have_more() || socket.has_errors())
        })
    }

    /// Receiving is tried on all sockets in the next turn.
    pub(super) fn try_all(&mut self) {
        self.open.values_mut().for_each(|open| open.is_readable = true);
    }

    /// Until when a socket is left alone because it could not receive.
    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.active().filter_map(|open| open.failures.paused_until(now)).min()
    }

    /// What to wait for: that a socket can receive, and that `blocked` can send. A socket that could not receive may be
    /// ready all the time, so it is left out.
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
            let interest = Interest { index: *index, socket: &open.socket, receives, sends };
            (receives || sends).then_some(interest)
        })
    }

    /// The result of waiting for a socket.
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

/// The local address `local` in the form in which a socket has it that sends to `remote`; `None` if no socket there can.
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

/// The IP address from which a socket bound to `bind` sends to `remote`. `None` for an IPv4 address of an IPv6 socket, which
/// names it in more than one way.
fn local_ip(bind: IpAddr, remote: SocketAddr) -> io::Result<Option<IpAddr>> {
    if remote.is_ipv6() && remote.ip().to_canonical().is_ipv4() {
        return Ok(None);
    }
    if !bind.is_unspecified() {
        return Ok(Some(bind));
    }
    // Nothing is sent: the kernel only looks for a route.
    let probe = UdpSocket::bind(SocketAddr::new(bind, 0))?;
    probe.connect(remote)?;
    Ok(Some(probe.local_addr()?.ip()))
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
