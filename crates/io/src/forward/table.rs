//! Which client a source port stands for, towards each server without preface.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use clearway_units::Timestamp;

use crate::timers::Timers;

/// A client, and which of the balancer's addresses it sends to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Client {
    /// Its address, as the listening socket has it.
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
}

/// A port of a client and a server.
#[derive(Clone, Copy, Debug)]
struct Lease {
    server: SocketAddr,
    client: Client,
    port: u32,
    last_used: Timestamp,
}

/// A lease as another process takes it over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SavedLease {
    pub(super) server: SocketAddr,
    pub(super) client: Client,
    pub(super) port: u32,
    /// How long ago it was used last.
    pub(super) idle: Duration,
}

/// The ports towards one server.
#[derive(Debug, Default)]
struct OfServer {
    /// So many have been in use, those with the lowest numbers.
    begun: u32,
    /// Those of them that are free, the one that has been so for longest first: answers to the client before may be on their way.
    free: VecDeque<u32>,
    in_use: u32,
}

/// All of them: at most as many as there are ports, for each server.
#[derive(Debug)]
pub(super) struct Table {
    ports: u32,
    idle: Duration,
    leases: Vec<Option<Lease>>,
    /// The places in `leases` that are empty.
    empty: Vec<usize>,
    /// Where the last lease was that a client's datagram has found: the next is often the same one's.
    last_found: usize,
    by_client: BTreeMap<(SocketAddr, Client), usize>,
    by_port: BTreeMap<(SocketAddr, u32), usize>,
    servers: BTreeMap<SocketAddr, OfServer>,
    /// When to look whether the client has been idle: not after it has been for long enough.
    timers: Timers,
}

impl Table {
    /// A table of so many ports towards each server, which belong to a client until it has been idle for so long.
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
        }
    }

    /// The port of a client that sends to a server: the one that it has, or a free one; `None` if none is free.
    pub(super) fn port(
        &mut self,
        now: Timestamp,
        server: SocketAddr,
        client: Client,
    ) -> Option<u32> {
        self.expire(now);
        let is_same = |lease: &Lease| (lease.server, lease.client) == (server, client);
        if !matches!(self.leases.get(self.last_found), Some(Some(lease)) if is_same(lease)) {
            let Some(place) = self.by_client.get(&(server, client)) else {
                return self.begin(now, server, client);
            };
            self.last_found = *place;
        }
        let lease = self.leases.get_mut(self.last_found)?.as_mut()?;
        lease.last_used = now;
        Some(lease.port)
    }

    /// All ports that are in use.
    pub(super) fn save(&self, now: Timestamp) -> Vec<SavedLease> {
        // In the order of ports, in which they are taken over soonest.
        let leases = self.by_port.values().filter_map(|place| self.leases.get(*place)?.as_ref());
        let saved = leases.map(|&Lease { server, client, port, last_used }| {
            let idle = now.saturating_since(last_used);
            SavedLease { server, client, port, idle }
        });
        saved.collect()
    }

    /// Takes over a port that was in use in the process before, unless there is none of this number now, or somebody has it.
    pub(super) fn restore(&mut self, now: Timestamp, saved: SavedLease) {
        let SavedLease { server, client, port, idle } = saved;
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
        // The time of this process may have begun after that.
        let last_used = now.checked_sub(idle).unwrap_or(Timestamp::ORIGIN);
        self.insert(Lease { server, client, port, last_used });
    }

    fn begin(&mut self, now: Timestamp, server: SocketAddr, client: Client) -> Option<u32> {
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
        self.insert(Lease { server, client, port, last_used: now });
        Some(port)
    }

    fn insert(&mut self, lease: Lease) {
        let Lease { server, client, port, last_used } = lease;
        let place = self.empty.pop().unwrap_or(self.leases.len());
        if place == self.leases.len() {
            self.leases.push(None);
        }
        self.leases[place] = Some(lease);
        self.by_client.insert((server, client), place);
        self.by_port.insert((server, port), place);
        self.timers.set(place, Some(last_used + self.idle));
    }

    /// The client that a port stands for towards a server.
    pub(super) fn client(&self, port: u32, server: SocketAddr) -> Option<Client> {
        let place = self.by_port.get(&(server, port))?;
        Some(self.leases.get(*place)?.as_ref()?.client)
    }

    /// The port cannot be used: it is nobody's any more.
    pub(super) fn give_back(&mut self, port: u32, server: SocketAddr) {
        if let Some(place) = self.by_port.get(&(server, port)) {
            self.remove(*place);
        }
    }

    /// Takes the ports from clients that have been idle.
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

    /// When to call [`expire`](Self::expire).
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.timers.earliest()
    }

    /// How many ports are in use.
    pub(super) fn in_use(&self) -> usize {
        self.by_port.len()
    }

    fn remove(&mut self, place: usize) {
        self.timers.set(place, None);
        let Some(lease) = self.leases.get_mut(place).and_then(Option::take) else { return };
        let Lease { server, client, port, .. } = lease;
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
