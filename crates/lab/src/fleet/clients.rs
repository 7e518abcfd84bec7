//! The clients of a fleet.

use std::net::SocketAddr;

use clearway_balancer::{Decision, Means, Pool, Router, ServerKey, ServerState};
use clearway_wire::quic_lb::ConfigId;

use super::connection::Connection;
use super::datagrams::{LOCAL, long, octets, short};
use super::rules::{FleetRule, Reason};
use super::servers::takes_new_clients;
use super::world::Fleet;

/// The number of most recently opened connections that may still be in their handshake and
/// therefore send more often.
const RECENT: usize = 64;

impl Fleet {
    /// Performs a random action of a client.
    pub(super) fn act_as_client(&mut self) {
        if self.connections.len() < self.settings.size.connections && self.random.chance(0.3) {
            self.open();
        }
        let count = self.connections.len();
        if count == 0 {
            return;
        }
        let place = match self.random.chance(0.3) {
            true => count - 1 - self.random.below(count.min(RECENT) as u64) as usize,
            false => self.random.below(count as u64) as usize,
        };
        match self.random.below(100) {
            0..70 => {}
            70..74 => self.come_back(place),
            74..82 => self.change_id(place),
            82..90 => self.change_address(place),
            90..92 => {
                self.change_id(place);
                self.change_address(place);
            }
            92..94 => self.change_path(place),
            94..96 => return self.close(place),
            _ => return,
        }
        self.send(place);
    }

    /// Opens a connection from a client.
    pub(super) fn open(&mut self) {
        self.report.opened += 1;
        let source_len = [0, 5, 8, 20][self.random.below(4) as usize];
        let destination_len = 8 + self.random.below(13) as usize;
        let balancer = self.random.below(self.balancers.len() as u64) as usize;
        let (number, client) = (self.report.opened, self.address());
        self.had.insert(client, number);
        let connection = Connection {
            number,
            client,
            former: None,
            source: octets(&mut self.random, source_len),
            destination: (octets(&mut self.random, destination_len), None),
            issued: None,
            server: None,
            chosen: None,
            balancer,
            sent: 0,
            is_established: false,
            is_first_id: true,
            is_learned: false,
            has_new_address: false,
            has_new_id: false,
            has_returned: false,
            last_used: [self.now; 2],
            reason: None,
        };
        self.connections.push(connection);
        self.send(self.connections.len() - 1);
    }

    /// Returns an address that is not in use by any client, although it may have been used before.
    fn address(&mut self) -> SocketAddr {
        if !self.free_addresses.is_empty() && self.random.chance(0.2) {
            let place = self.random.below(self.free_addresses.len() as u64) as usize;
            return self.free_addresses.swap_remove(place);
        }
        self.addresses += 1;
        let number = self.addresses;
        ([203, 0, (number >> 15) as u8, 9], 1024 + (number & 0x7fff) as u16).into()
    }

    fn change_address(&mut self, place: usize) {
        if self.connections[place].is_established {
            let address = self.address();
            self.go_to(place, address);
        }
    }

    /// Moves the client to an unused address.
    fn go_to(&mut self, place: usize, address: SocketAddr) {
        self.report.moves += 1;
        let connection = &mut self.connections[place];
        connection.has_new_address = true;
        let left = std::mem::replace(&mut connection.client, address);
        connection.former = Some((left, connection.last_used[0].max(connection.last_used[1])));
        self.free_addresses.push(left);
        self.had.insert(address, connection.number);
    }

    /// Returns the client to its previous address, using another connection ID, if no other client
    /// has used that address since.
    fn come_back(&mut self, place: usize) {
        let Connection { number, former: Some((address, left)), .. } = self.connections[place]
        else {
            return;
        };
        if self.had.get(&address) != Some(&number) || !self.may_change_id(place) {
            return;
        }
        let Some(free) = self.free_addresses.iter().position(|it| *it == address) else { return };
        self.free_addresses.swap_remove(free);
        self.change_id(place);
        self.go_to(place, address);
        // The thread that handles this address may have forgotten the client.
        let is_known = self.now.saturating_since(left) < self.limits.lifetime;
        self.connections[place].has_returned = is_known;
        let is_opaque = self.connections[place].destination.1.is_none();
        self.report.returns += u64::from(is_known && is_opaque);
    }

    /// Switches the client to another connection ID, which it received in an encrypted packet.
    fn change_id(&mut self, place: usize) {
        let Some(server) = self.connections[place].server.filter(|_| self.may_change_id(place))
        else {
            return;
        };
        let destination = self.servers.issue(server, &mut self.random);
        let connection = &mut self.connections[place];
        connection.destination = destination;
        (connection.is_first_id, connection.has_new_id) = (false, true);
    }

    /// Returns whether the client may change its ID. It may do so only after it has used the first
    /// ID, so that the balancer can learn that ID.
    fn may_change_id(&self, place: usize) -> bool {
        let connection = &self.connections[place];
        let server = connection.server.filter(|_| connection.is_established);
        let is_opaque = |server: usize| self.servers.all[server].opaque_len.is_some();
        server.is_some_and(|server| !is_opaque(server) || connection.is_learned)
    }

    /// Routes the client's datagrams to the other balancer from now on.
    fn change_path(&mut self, place: usize) {
        self.report.moves += 1;
        let count = self.balancers.len();
        let connection = &mut self.connections[place];
        connection.balancer = (connection.balancer + 1) % count;
        let is_opaque = |it: usize| self.servers.all[it].opaque_len.is_some();
        if connection.server.is_some_and(is_opaque) {
            connection.reason = connection.reason.or(Some(Reason::OtherBalancer));
        } else if !connection.is_established {
            connection.reason = connection.reason.or(Some(Reason::FirstFlight));
        }
    }

    /// Closes the connection with the index `place`.
    pub(super) fn close(&mut self, place: usize) {
        let connection = self.connections.swap_remove(place);
        self.free_addresses.push(connection.client);
    }

    /// Closes the connections of a server.
    pub(super) fn give_up_connections_of(&mut self, server: usize) {
        for place in (0..self.connections.len()).rev() {
            if self.connections[place].server == Some(server) {
                self.close(place);
            }
        }
    }

    /// Sends a datagram from the client, and the response of the server that receives it.
    pub(super) fn send(&mut self, place: usize) {
        self.report.datagrams += 1;
        let connection = &mut self.connections[place];
        connection.sent += 1;
        // The rest of the handshake uses the server's first connection ID.
        let is_long =
            !connection.is_established || connection.is_first_id && connection.sent % 4 == 2;
        self.note_reasons(place, is_long);
        let connection = &mut self.connections[place];
        let datagram = match is_long {
            true => long(&mut self.random, 1, &connection.destination.0, &connection.source),
            false => short(&mut self.random, &connection.destination.0),
        };
        let router = self.balancers[connection.balancer].router(connection.client);
        let learned_before = learned(router);
        let decision = router.route(self.now, connection.client, LOCAL, &datagram);
        // The balancer learns a connection when its ID is used. A datagram from its address may
        // make the balancer learn another connection that used this address before.
        let is_by_id =
            matches!(decision, Decision::Forward { means: Means::Learned | Means::Flow, .. });
        connection.is_learned |=
            connection.is_established && is_by_id && learned(router) > learned_before;
        let Decision::Forward { server, means } = decision else {
            self.on_drop(place, decision);
            return;
        };
        match self.connections[place].server {
            None => self.accept(place, server, means),
            Some(expected) if self.servers.all[expected].key == server => self.arrive(place),
            Some(_) => self.on_misrouted(place, decision),
        }
    }

    /// Records whether anything that changed since the connection's last datagram could cause the
    /// next one to be misrouted.
    fn note_reasons(&mut self, place: usize, is_long: bool) {
        let is_flooded = self.settings.hostile_datagrams() > 0;
        let connection = &mut self.connections[place];
        let opaque_len = connection.server.and_then(|server| self.servers.all[server].opaque_len);
        let reason = match opaque_len {
            _ if !connection.is_established => None,
            Some(0) if connection.has_new_address || is_flooded => Some(Reason::NoId),
            Some(_) if connection.has_new_address && connection.has_new_id => {
                (!connection.has_returned).then_some(Reason::BothAtOnce)
            }
            Some(1..) if connection.has_new_address && !connection.is_learned => {
                Some(Reason::FirstFlight)
            }
            _ => None,
        };
        // With a zero-length connection ID, packets with long headers are identified by the
        // client's own ID and packets with short headers by the client's address, independently of
        // each other.
        let last_used = match opaque_len {
            Some(0) => connection.last_used[usize::from(is_long)],
            _ => connection.last_used[0].max(connection.last_used[1]),
        };
        let is_idle = self.now.saturating_since(last_used) >= self.limits.lifetime;
        let can_be_idle = opaque_len.is_some() || !connection.is_established;
        let reason = reason.or((is_idle && can_be_idle).then_some(Reason::Idle));
        connection.reason = connection.reason.or(reason);
        (connection.has_new_address, connection.has_new_id) = (false, false);
        connection.has_returned = false;
        connection.last_used[usize::from(is_long)] = self.now;
    }

    /// Processes the first datagram of a connection at a server.
    fn accept(&mut self, place: usize, key: ServerKey, means: Means) {
        let number = self.connections[place].number;
        let balancer = &self.balancers[self.connections[place].balancer];
        let version = balancer.version;
        let takes = balancer.pool().server(key).is_some_and(takes_new_clients);
        if !takes && means != Means::Flow {
            let name = self.name(key);
            self.report.violate(self.seed, FleetRule::Takes, || {
                format!("connection {number} is new, but is forwarded to {name} by {means:?}")
            });
        }
        match self.servers.alive(key) {
            Some(server) => {
                self.connections[place].server = Some(server);
                self.connections[place].chosen = Some((means, version));
                self.answer(place);
            }
            // The client retries later and, if the balancer has been updated by then, reaches
            // another server.
            None => self.close(place),
        }
    }

    /// Processes a datagram that arrives at the server that owns the connection.
    fn arrive(&mut self, place: usize) {
        if !self.connections[place].is_established {
            self.answer(place);
            return;
        }
        // The server has given the client a connection ID that follows the new configuration.
        let issued = self.servers.issued;
        let has_old = self.connections[place].destination.1.is_some_and(|config| config != issued);
        if has_old && self.random.chance(0.5) {
            self.change_id(place);
        }
    }

    /// Responds to a first flight.
    fn answer(&mut self, place: usize) {
        let Some(server) = self.connections[place].server else { return };
        let key = self.servers.all[server].key;
        let client = self.connections[place].client;
        let source = self.connections[place].source.clone();
        let fate = self.random.below(20);
        if fate == 0 && self.connections[place].issued.is_none() {
            // The server does not support the version.
            let datagram =
                long(&mut self.random, 0, &source, &self.connections[place].destination.0);
            let router = self.balancers[self.connections[place].balancer].router(client);
            router.observe(self.now, key, client, &datagram);
            self.connections[place].server = None;
            self.connections[place].destination = (octets(&mut self.random, 8), None);
            return;
        }
        let issued = match self.connections[place].issued.take().filter(|_| fate > 2) {
            Some(issued) => issued,
            None => self.servers.issue(server, &mut self.random),
        };
        if fate > 16 {
            // The response is lost before it reaches the balancer.
            self.connections[place].issued = Some(issued);
            return;
        }
        let connection = &mut self.connections[place];
        let router = self.balancers[connection.balancer].router(client);
        router.observe(self.now, key, client, &long(&mut self.random, 1, &source, &issued.0));
        match fate {
            // The response is lost between the balancer and the client.
            13..=16 => connection.issued = Some(issued),
            // The response is a Retry.
            1 | 2 => connection.destination = issued,
            _ => self.establish(place, server, issued),
        }
    }

    /// Delivers the server's response to the client.
    fn establish(&mut self, place: usize, server: usize, issued: (Vec<u8>, Option<ConfigId>)) {
        let is_opaque = self.servers.all[server].opaque_len.is_some();
        match is_opaque {
            true => self.report.established_opaque += 1,
            false => self.report.established += 1,
        }
        let connection = &mut self.connections[place];
        connection.destination = issued;
        connection.is_established = true;
        connection.last_used[0] = self.now;
        connection.sent = 0;
        if !is_opaque {
            connection.reason = None;
        }
    }

    fn on_drop(&mut self, place: usize, decision: Decision) {
        if self.connections[place].server.is_some() {
            self.on_misrouted(place, decision);
        } else {
            self.close(place);
        }
    }

    fn on_misrouted(&mut self, place: usize, decision: Decision) {
        match self.excuse(place, decision) {
            Ok(reason) => *self.report.misrouted.entry(reason).or_default() += 1,
            Err(rule) => {
                let connection = &self.connections[place];
                let server = connection.server.map(|server| self.servers.all[server].key);
                let explanation = format!(
                    "connection {} of {} after {:?}, {}{}ID {:02x?}: {decision:?}",
                    connection.number,
                    server.map(|server| self.name(server)).unwrap_or_default(),
                    self.now.since_origin(),
                    if connection.is_established { "established, " } else { "" },
                    if connection.is_learned { "learned, " } else { "" },
                    connection.destination.0,
                );
                self.report.violate(self.seed, rule, || explanation);
            }
        }
        self.close(place);
    }

    /// Returns the reason why the connection may be misrouted, or the violated rule if there is
    /// none.
    fn excuse(&self, place: usize, decision: Decision) -> Result<Reason, FleetRule> {
        let connection = &self.connections[place];
        let Some(server) = connection.server else { return Err(FleetRule::Stays) };
        let (balancer, server) = (&self.balancers[connection.balancer], &self.servers.all[server]);
        // The hash of an address maps to another server only if the table changes.
        let is_hashed = matches!(decision, Decision::Forward { means: Means::Hash, .. });
        let is_same_table = connection.chosen == Some((Means::Hash, balancer.version));
        if is_hashed && is_same_table && !connection.is_established {
            return Err(FleetRule::Agree);
        }
        let pool = balancer.pool();
        if !is_in_pool(pool, server.key, connection.destination.1) {
            return match self.settings.is_in_order() {
                true => Err(FleetRule::Stays),
                false => Ok(Reason::NotInPool),
            };
        }
        let has_changed = connection.chosen.is_none_or(|(_, version)| version != balancer.version);
        let can_be_pushed_out =
            !connection.is_established || server.opaque_len.is_some() && !connection.is_learned;
        let is_pushed_out =
            self.settings.hostile_datagrams() > 0 && can_be_pushed_out && has_changed;
        let pushed_out = is_pushed_out.then_some(Reason::FirstFlight);
        connection.reason.or(pushed_out).ok_or(FleetRule::Stays)
    }
}

/// Returns how many connections a router has learned so far.
fn learned(router: &Router) -> u64 {
    let learned = router.statistics().learned;
    learned.entries as u64 + learned.expired
}

/// Returns whether a balancer with this pool can find the server if the connection ID follows this
/// configuration.
fn is_in_pool(pool: &Pool, key: ServerKey, config: Option<ConfigId>) -> bool {
    let is_reachable = pool.server(key).is_some_and(|it| it.state != ServerState::Down);
    let has_config = |config| pool.codecs().any(|codec| codec.config() == config);
    is_reachable && config.is_none_or(has_config)
}
