//! Attackers who know all formats, but no key and no connection ID in use.

use std::net::SocketAddr;

use clearway_balancer::Decision;

use super::datagrams::LOCAL;
use super::datagrams::{long, octets, short};
use super::world::Fleet;

impl Fleet {
    /// Sends a hostile datagram with a forged connection ID. The ID is in a long or short header
    /// from the attacker's own address or from the address of a connection whose IDs need not be
    /// learned, or in a short header from a connection's former address.
    pub(super) fn attack(&mut self) {
        self.report.hostile += 1;
        let place = self.random.below(self.balancers.len() as u64) as usize;
        let former = if self.random.chance(0.1) { self.former_address() } else { None };
        let victim = if self.random.chance(0.2) { self.victim() } else { None };
        let address = former.or(victim).unwrap_or_else(|| {
            let number = self.random.number();
            ([100, 64, number as u8, 1], (number >> 8) as u16).into()
        });
        let id = self.invented_id();
        let datagram = match self.random.below(2) {
            0 if former.is_none() => long(&mut self.random, 1, &id, &id),
            _ => short(&mut self.random, &id),
        };
        let router = self.balancers[place].router(address);
        let decision = router.route(self.now, address, LOCAL, &datagram);
        // The server responds, even to an address that does not exist.
        if let Decision::Forward { server, .. } = decision
            && let Some(answering) = self.servers.alive(server)
        {
            let (issued, _) = self.servers.issue(answering, &mut self.random);
            let answer = long(&mut self.random, 1, &id, &issued);
            let router = self.balancers[place].router(address);
            router.observe(self.now, server, address, &answer);
        }
    }

    /// Returns a connection ID, either of any length, or with the length and first octet of the
    /// servers' current IDs.
    fn invented_id(&mut self) -> Vec<u8> {
        if self.random.chance(0.5) {
            let length = 4 + self.random.below(17) as usize;
            return octets(&mut self.random, length);
        }
        let codec = self.servers.codec(self.servers.issued);
        let (config, length) = (codec.config().number(), codec.id_len());
        let low = if codec.states_length() { length as u8 - 1 } else { self.random.number() as u8 };
        let mut id = octets(&mut self.random, length);
        id[0] = config << 5 | low & 0x1f;
        id
    }

    /// Returns the address of an established connection of a server that issues QUIC-LB connection
    /// IDs.
    fn victim(&mut self) -> Option<SocketAddr> {
        let place = self.random.below(self.connections.len() as u64) as usize;
        let connection = self.connections.get(place)?;
        let server = connection.server.filter(|_| connection.is_established())?;
        let has_ids = self.servers.all[server].opaque_len.is_none();
        has_ids.then(|| connection.client())
    }
    /// Returns the previous address of an established connection that no client has used since. The
    /// current address is not suitable, because two forged IDs at a client's current address would
    /// evict the IDs that the client used last.
    fn former_address(&mut self) -> Option<SocketAddr> {
        let place = self.random.below(self.connections.len() as u64) as usize;
        let connection = self.connections.get(place)?;
        let is_last = |address: &SocketAddr| self.had.get(address) == Some(&connection.number());
        connection.former().filter(is_last)
    }
}
