use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clearway_units::Timestamp;

use super::socket::Socket;

/// Maximum number of clients. Each may have two sockets, and a process usually gets 1,024
/// descriptors.
pub(super) const MAX_FLOWS: usize = 256;
/// The time after which a silent client may be removed to make room for another client.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// Number of NAT bindings kept per client: the current one, and the previous one, so that datagrams
/// still sent to it are counted as dropped.
const MAX_BINDINGS: usize = 2;

/// The sockets through which one client's datagrams reach the server.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) client: SocketAddr,
    /// The relay's own address to which the client sends.
    pub(super) reply_from: Option<IpAddr>,
    last_used: Timestamp,
    bindings: Vec<Binding>,
}

/// A NAT mapping of one client: a separate socket.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) generation: u64,
    pub(super) socket: Socket,
}

/// The relay's clients. IDs are never reused for another client.
#[derive(Debug)]
pub(super) struct Flows {
    to: SocketAddr,
    /// Whether each binding has its own IP address.
    addresses: bool,
    flows: BTreeMap<u32, Flow>,
    by_client: BTreeMap<SocketAddr, u32>,
    next_id: u32,
}

impl Flows {
    pub(super) fn new(to: SocketAddr, addresses: bool) -> Self {
        let (flows, by_client) = (BTreeMap::new(), BTreeMap::new());
        Self { to, addresses, flows, by_client, next_id: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn get(&self, id: u32) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// Returns the ID of the flow of `client`, which has just sent a datagram to `reply_from`;
    /// `None` if there are too many clients.
    pub(super) fn of_client(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        reply_from: Option<IpAddr>,
    ) -> Option<u32> {
        if let Some(id) = self.by_client.get(&client)
            && let Some(flow) = self.flows.get_mut(id)
        {
            flow.last_used = now;
            flow.reply_from = reply_from;
            return Some(*id);
        }
        if self.flows.len() >= MAX_FLOWS {
            self.evict(now)?;
        }
        let id = self.next_id;
        self.next_id = id.checked_add(1)?;
        let flow = Flow { client, reply_from, last_used: now, bindings: Vec::new() };
        self.flows.insert(id, flow);
        self.by_client.insert(client, id);
        Some(id)
    }

    /// Removes the client that has been silent the longest, if that is longer than the idle time.
    fn evict(&mut self, now: Timestamp) -> Option<()> {
        let (id, flow) = self.flows.iter().min_by_key(|(_, flow)| flow.last_used)?;
        let (id, client) = (*id, flow.client);
        if now.saturating_since(flow.last_used) < IDLE_AFTER {
            return None;
        }
        self.flows.remove(&id);
        self.by_client.remove(&client);
        Some(())
    }

    /// Returns the socket of a client's binding, creating it for a new one; `None` if the client or
    /// the binding has been removed.
    pub(super) fn socket(&mut self, id: u32, generation: u64) -> io::Result<Option<&Socket>> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(None) };
        let bindings = &mut flow.bindings;
        let newest = bindings.last().map(|binding| binding.generation);
        if newest.is_none_or(|newest| newest < generation) {
            let socket = Socket::bind(source(self.to, self.addresses, id, generation))?;
            if bindings.len() == MAX_BINDINGS {
                bindings.remove(0);
            }
            bindings.push(Binding { generation, socket });
        }
        let found = bindings.iter().find(|binding| binding.generation == generation);
        Ok(found.map(|binding| &binding.socket))
    }

    /// Closes a socket that has failed permanently.
    pub(super) fn close(&mut self, id: u32, generation: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.bindings.retain(|binding| binding.generation != generation);
        }
    }

    /// Returns all sockets, with the IDs of their clients.
    pub(super) fn bindings(&self) -> impl Iterator<Item = (u32, &Binding)> {
        self.flows.iter().flat_map(|(id, flow)| flow.bindings.iter().map(|binding| (*id, binding)))
    }
}

/// Returns the local address of a binding's socket, for a server at `to`: any port, and if
/// `addresses` is set and the server is on loopback, a different address in 127.0.0.0/8 for each
/// binding.
fn source(to: SocketAddr, addresses: bool, id: u32, generation: u64) -> SocketAddr {
    let ip = match to.ip() {
        IpAddr::V4(ip) if ip.is_loopback() && addresses => {
            // Neighboring clients and bindings must get different addresses; the odd factor spreads
            // the clients.
            let host = u64::from(id).wrapping_mul(65_537).wrapping_add(generation);
            // 127.0.0.0, 127.0.0.1 and 127.255.255.255 are not used.
            let host = u32::try_from(host % 0x00ff_fffd).unwrap_or(0) + 2;
            Ipv4Addr::from_bits(0x7f00_0000 | host).into()
        }
        // For a server on a loopback address, the source address is also a loopback address.
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
