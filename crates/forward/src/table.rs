//! The assignment of source ports to clients, for each server without prefaces.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use clearway_units::{Timers, Timestamp};
use clearway_wire::header::{Invariant, has_fixed_bit};
use clearway_wire::preface::may_be_preface;
use clearway_wire::{ConnectionId, Version};

use super::shares::{Grant, Holder, Shares, Stage};

/// Minimum length of a connection ID that confirms a client; shorter ones can be guessed.
const MIN_CONFIRMING_ID: usize = 4;

/// A client, and the balancer's address to which it sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Client {
    /// The client's address, in the form used by the listening socket.
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
}

/// The assignment of a port to a client and a server.
#[derive(Clone, Copy, Debug)]
struct Lease {
    server: SocketAddr,
    client: Client,
    port: u32,
    last_used: Timestamp,
    stage: Stage,
    /// The value of [`last_used`](Self::last_used) known to the server's shares.
    noted: Timestamp,
    /// Whether the server has sent a short-header packet, which may be a stateless reset.
    is_heard: bool,
    /// The connection ID in the server's last long header.
    issued_id: Option<ConnectionId>,
    /// Whether the server clears the QUIC bit (RFC 9287), in which case the client may do so as
    /// well.
    clears_quic_bit: bool,
}

impl Lease {
    fn holder(&self, place: usize) -> Holder {
        let Self { client, stage, noted, .. } = *self;
        Holder { place, client: client.remote, stage, used: noted }
    }

    /// Returns the client's stage after another datagram from it.
    fn stage_after(&self, datagram: &[u8]) -> Stage {
        match self.stage {
            Stage::Stray | Stage::Unanswered if self.is_heard => Stage::Answered,
            Stage::Answered if self.is_confirmed_by(datagram) => Stage::Confirmed,
            stage => stage,
        }
    }

    /// Returns whether a client's datagram has the connection ID that the server has sent to the
    /// client.
    fn is_confirmed_by(&self, datagram: &[u8]) -> bool {
        let Some(id) = self.issued_id.filter(|id| id.len() >= MIN_CONFIRMING_ID) else {
            return false;
        };
        let header = Invariant::decode(datagram, id.len());
        header.is_ok_and(|header| header.destination_connection_id() == id.as_bytes())
    }
}

/// The properties of a client's datagram that determine whether the client gets a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) datagram: &'a [u8],
    /// Whether the datagram may begin a connection, or belongs to a known one:
    /// [`Target::begins`](super::Target::begins).
    pub(super) begins: bool,
}

/// A lease that is handed over to another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SavedLease {
    pub(super) server: SocketAddr,
    pub(super) client: Client,
    pub(super) port: u32,
    /// Time since the lease was last used.
    pub(super) idle: Duration,
    pub(super) is_confirmed: bool,
}

/// The ports for one server.
#[derive(Debug, Default)]
struct OfServer {
    /// Number of ports that have ever been in use, which are the ports with the lowest numbers.
    begun: u32,
    /// The free ports among those that have been in use. The port that has been free the longest is
    /// first, because responses to the previous client may still be in transit.
    free: VecDeque<u32>,
    in_use: u32,
    shares: Shares,
}

/// All leases. Each server has at most as many as there are ports.
#[derive(Debug)]
pub(super) struct Table {
    ports: u32,
    idle: Duration,
    leases: Vec<Option<Lease>>,
    /// The vacant indices in `leases`.
    empty: Vec<usize>,
    /// The index of the lease that a client's datagram used last: the next datagram often uses the
    /// same lease.
    last_found: usize,
    by_client: BTreeMap<(SocketAddr, Client), usize>,
    by_port: BTreeMap<(SocketAddr, u32), usize>,
    servers: BTreeMap<SocketAddr, OfServer>,
    /// Timers for checking whether clients are idle. A timer may expire before its client's idle
    /// timeout, but never after it.
    timers: Timers,
    /// Number of ports taken from clients, to give them to other clients.
    evicted: u64,
}

impl Table {
    /// Creates a table with `ports` ports for each server. A port belongs to a client until the
    /// client has been idle for `idle`.
    pub(super) fn new(ports: u32, idle: Duration) -> Self {
        Self {
            ports,
            idle,
            leases: Vec::new(),
            empty: Vec::new(),
            last_found: 0,
            by_client: BTreeMap::new(),
            by_port: BTreeMap::new(),
            servers: BTreeMap::new(),
            timers: Timers::new(),
            evicted: 0,
        }
    }

    /// Returns the port for a client's datagrams to a server: its current port, a free port, or a
    /// port that is taken from another client; `None` if no port is available to the client.
    pub(super) fn port(
        &mut self,
        now: Timestamp,
        server: SocketAddr,
        client: Client,
        claim: Claim<'_>,
    ) -> Option<u32> {
        self.expire(now);
        let Some(place) = self.find(server, client) else {
            return self.begin(now, server, client, claim);
        };
        let lease = self.leases.get_mut(place)?.as_mut()?;
        lease.last_used = now;
        let port = lease.port;
        if lease.stage != Stage::Confirmed {
            let stage = lease.stage_after(claim.datagram);
            self.note(place, stage);
        }
        Some(port)
    }

    /// Returns the index of the lease for a client and a server.
    fn find(&mut self, server: SocketAddr, client: Client) -> Option<usize> {
        let is_same = |lease: &Lease| (lease.server, lease.client) == (server, client);
        if !matches!(self.leases.get(self.last_found), Some(Some(lease)) if is_same(lease)) {
            self.last_found = *self.by_client.get(&(server, client))?;
        }
        Some(self.last_found)
    }

    /// Returns whether the client of this lease may clear the QUIC bit, because the server has done
    /// so.
    pub(super) fn may_clear_quic_bit(&mut self, server: SocketAddr, client: Client) -> bool {
        let place = self.find(server, client);
        let lease = place.and_then(|place| self.leases.get(place)?.as_ref());
        lease.is_some_and(|lease| lease.clears_quic_bit)
    }

    /// Records the stage of a lease's client, and when the lease was last used.
    fn note(&mut self, place: usize, stage: Stage) {
        let Some(Some(lease)) = self.leases.get_mut(place) else { return };
        let Some(of_server) = self.servers.get_mut(&lease.server) else { return };
        of_server.shares.remove(lease.holder(place));
        (lease.stage, lease.noted) = (stage, lease.last_used);
        of_server.shares.add(lease.holder(place));
    }

    /// Returns all ports that are in use.
    pub(super) fn save(&self, now: Timestamp) -> Vec<SavedLease> {
        // Leases are saved in the order of ports, which is the fastest order for restoring them.
        let leases = self.by_port.values().filter_map(|place| self.leases.get(*place)?.as_ref());
        let saved = leases.map(|&Lease { server, client, port, last_used, stage, .. }| {
            let idle = now.saturating_since(last_used);
            let is_confirmed = stage == Stage::Confirmed;
            SavedLease { server, client, port, idle, is_confirmed }
        });
        saved.collect()
    }

    /// Restores a port that was in use in the previous process, unless its number is now too large,
    /// or the port is already in use.
    pub(super) fn restore(&mut self, now: Timestamp, saved: SavedLease) {
        let SavedLease { server, client, port, idle, is_confirmed } = saved;
        let is_taken = self.by_port.contains_key(&(server, port))
            || self.by_client.contains_key(&(server, client));
        if port >= self.ports || is_taken {
            return;
        }
        let of_server = self.servers.entry(server).or_default();
        if port < of_server.begun {
            of_server.free.retain(|free| *free != port);
        } else {
            of_server.free.extend(of_server.begun..port);
            of_server.begun = port + 1;
        }
        of_server.in_use += 1;
        // The clock of this process may have started after the last use.
        let last_used = now.checked_sub(idle).unwrap_or(Timestamp::ORIGIN);
        let stage = if is_confirmed { Stage::Confirmed } else { Stage::Answered };
        self.insert(client, (server, port), last_used, stage);
    }

    fn begin(
        &mut self,
        now: Timestamp,
        server: SocketAddr,
        client: Client,
        claim: Claim<'_>,
    ) -> Option<u32> {
        let stage = if claim.begins { Stage::Unanswered } else { Stage::Stray };
        let in_use = self.servers.get(&server).map_or(0, |of_server| of_server.in_use);
        let free = self.ports - in_use;
        let shares = self.servers.get(&server).map(|of_server| &of_server.shares);
        match shares.unwrap_or(&Shares::default()).grant(client.remote, stage, free, self.ports) {
            Grant::Free => {}
            Grant::Of(place) => {
                self.evicted += 1;
                self.remove(place);
            }
            Grant::None => return None,
        }
        let of_server = self.servers.entry(server).or_default();
        let port = match of_server.free.pop_front() {
            Some(port) => port,
            None if of_server.begun < self.ports => {
                of_server.begun += 1;
                of_server.begun - 1
            }
            None => return None,
        };
        of_server.in_use += 1;
        self.insert(client, (server, port), now, stage);
        Some(port)
    }

    fn insert(
        &mut self,
        client: Client,
        (server, port): (SocketAddr, u32),
        last_used: Timestamp,
        stage: Stage,
    ) {
        let lease = Lease {
            server,
            client,
            port,
            last_used,
            stage,
            noted: last_used,
            is_heard: false,
            issued_id: None,
            clears_quic_bit: false,
        };
        let place = self.empty.pop().unwrap_or(self.leases.len());
        if place == self.leases.len() {
            self.leases.push(None);
        }
        if let Some(of_server) = self.servers.get_mut(&server) {
            of_server.shares.add(lease.holder(place));
        }
        self.leases[place] = Some(lease);
        self.by_client.insert((server, client), place);
        self.by_port.insert((server, port), place);
        self.timers.set(place, Some(last_used + self.idle));
    }

    /// Returns the client that a port identifies to a server.
    #[cfg(test)]
    pub(super) fn client(&self, port: u32, server: SocketAddr) -> Option<Client> {
        let place = self.by_port.get(&(server, port))?;
        Some(self.leases.get(*place)?.as_ref()?.client)
    }

    /// Returns the client to which a server's datagram to a port must be forwarded, and records the
    /// response.
    pub(super) fn answered(
        &mut self,
        port: u32,
        server: SocketAddr,
        datagram: &[u8],
    ) -> Option<Client> {
        let place = *self.by_port.get(&(server, port))?;
        let lease = self.leases.get_mut(place)?.as_mut()?;
        let client = lease.client;
        // A datagram that begins like a preface proves nothing about the QUIC bit.
        let has_cleared = datagram.first().is_some_and(|first| !has_fixed_bit(*first));
        lease.clears_quic_bit |= has_cleared && !may_be_preface(datagram);
        if lease.stage == Stage::Confirmed {
            return Some(client);
        }
        match Invariant::decode(datagram, 0) {
            // A server keeps no state for a client when it sends Version Negotiation.
            Ok(Invariant::Long { version, .. }) if version == Version::NEGOTIATION => {}
            Ok(Invariant::Long { source_connection_id, .. }) => {
                lease.issued_id = ConnectionId::new(source_connection_id).ok();
                let stage = lease.stage.max(Stage::Answered);
                self.note(place, stage);
            }
            Ok(Invariant::Short { .. }) => lease.is_heard = true,
            Err(_) => {}
        }
        Some(client)
    }

    /// Frees a port that has become unusable.
    pub(super) fn release(&mut self, port: u32, server: SocketAddr) {
        if let Some(place) = self.by_port.get(&(server, port)) {
            self.remove(*place);
        }
    }

    /// Frees the ports of idle clients.
    pub(super) fn expire(&mut self, now: Timestamp) {
        while let Some(place) = self.timers.pop_due(now) {
            let Some(Some(lease)) = self.leases.get(place) else { continue };
            let end = lease.last_used + self.idle;
            if end > now {
                self.timers.set(place, Some(end));
            } else {
                self.remove(place);
            }
        }
    }

    /// Returns when [`expire`](Self::expire) must be called next.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.timers.earliest()
    }

    /// Returns the number of ports taken from clients so far, to give them to other clients.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns how many ports are in use.
    pub(super) fn in_use(&self) -> usize {
        self.by_port.len()
    }

    fn remove(&mut self, place: usize) {
        self.timers.set(place, None);
        let Some(lease) = self.leases.get_mut(place).and_then(Option::take) else { return };
        let Lease { server, client, port, .. } = lease;
        if let Some(of_server) = self.servers.get_mut(&server) {
            of_server.shares.remove(lease.holder(place));
        }
        self.empty.push(place);
        self.by_client.remove(&(server, client));
        self.by_port.remove(&(server, port));
        let Some(of_server) = self.servers.get_mut(&server) else { return };
        of_server.free.push_back(port);
        of_server.in_use -= 1;
        if of_server.in_use == 0 {
            self.servers.remove(&server);
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
