//! A fleet in simulation: clients, balancers whose pools differ in age, and servers that come, drain, fail and change their
//! configurations. What a balancer decides is compared with which server has the connection.

#![allow(unreachable_pub, reason = "each test file has this as a module")]

mod clients;
mod datagrams;
mod servers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_balancer::{Decision, Limits, Pool, Router, RouterStatistics, ServerState};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::ConfigId;

use clients::Connection;
use datagrams::{long, octets, short};
use servers::Servers;

/// How a fleet is, and what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many servers there are at the beginning.
    pub servers: usize,
    /// How many of them do not issue IDs of QUIC-LB.
    pub plain_servers: usize,
    /// How many connections there are at a time.
    pub connections: usize,
    /// How many things happen.
    pub steps: u64,
    /// How many changes of the fleet there are in 10,000 steps.
    pub changes: u64,
    /// Whether changes are made in the order that [`Pool`] recommends.
    pub in_order: bool,
    /// How many hostile datagrams arrive at each step.
    pub flood: u64,
    /// What each balancer remembers.
    pub limits: Limits,
}

/// The documented reasons for which a balancer may misroute a connection of a server that is alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The connection's first flight arrived at balancers with different pools, or was pushed out by a flood before a
    /// change.
    FirstFlight,
    /// The balancer's pool does not have the server or the configuration, or says that the server is down.
    NotInPool,
    /// The server does not issue IDs of QUIC-LB, and the client has changed its address and its connection ID at once.
    BothAtOnce,
    /// The server issues empty IDs, and the client has changed its address, or a flood has pushed it out.
    NoId,
    /// The server does not issue IDs of QUIC-LB, and the datagram came to a balancer that had not seen the connection.
    OtherBalancer,
    /// The server does not issue IDs of QUIC-LB, and the client has sent nothing for the lifetime of what is remembered.
    Idle,
}

/// What has happened.
#[derive(Debug, Default)]
pub struct Report {
    /// Connections that clients have opened.
    pub opened: u64,
    /// Connections that were established, by whether their servers issue IDs of QUIC-LB.
    pub established: [u64; 2],
    /// Datagrams of clients, without those of the flood.
    pub datagrams: u64,
    /// Changes of the fleet.
    pub changes: u64,
    /// Misrouted connections, by reason. Each is given up.
    pub misrouted: BTreeMap<Reason, u64>,
    /// Misrouted connections without one of those reasons, and new connections of servers that take none.
    pub faults: Vec<String>,
    /// What each balancer has counted.
    pub balancers: Vec<RouterStatistics>,
}

struct Balancer {
    router: Router,
    /// The version of the fleet that its pool is of.
    version: u64,
}

/// What is done when all balancers have the pool of a version.
enum Later {
    Activate(usize),
    SetWeight(usize),
    Issue(ConfigId),
}

struct Fleet {
    settings: Settings,
    random: Random,
    now: Timestamp,
    servers: Servers,
    version: u64,
    pool: Arc<Pool>,
    balancers: Vec<Balancer>,
    later: Vec<(u64, Later)>,
    connections: Vec<Connection>,
    /// Addresses that clients do not use any more.
    free_addresses: Vec<SocketAddr>,
    /// How many addresses were used.
    addresses: u32,
    report: Report,
}

/// Runs a fleet. The seed and the settings determine everything.
pub fn simulate(seed: u64, settings: &Settings) -> Report {
    let mut fleet = Fleet::new(seed, *settings);
    for _ in 0..settings.steps {
        fleet.step();
    }
    // Once more, what is left of all.
    for place in (0..fleet.connections.len()).rev() {
        fleet.send(place);
    }
    let statistics = |balancer: &Balancer| balancer.router.statistics().clone();
    fleet.report.balancers = fleet.balancers.iter().map(statistics).collect();
    fleet.report
}

impl Fleet {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut random = Random::from_number(seed);
        let servers = Servers::new(settings.servers, settings.plain_servers, &mut random);
        let pool = Arc::new(servers.pool());
        let balancers = (0..2).map(|_| Balancer {
            router: Router::new(Arc::clone(&pool), settings.limits, random.fork()),
            version: 0,
        });
        let balancers = balancers.collect();
        Self {
            settings,
            random,
            now: Timestamp::ORIGIN,
            servers,
            version: 0,
            pool,
            balancers,
            later: Vec::new(),
            connections: Vec::new(),
            free_addresses: Vec::new(),
            addresses: 0,
            report: Report::default(),
        }
    }

    /// One of `places`.
    fn pick(&mut self, places: &[usize]) -> Option<usize> {
        places.get(self.random.below(places.len() as u64) as usize).copied()
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(10_000));
        if self.random.below(10_000) < self.settings.changes {
            self.change();
        }
        for place in 0..self.balancers.len() {
            let is_behind = self.balancers[place].version < self.version;
            if is_behind && self.random.chance(0.02) {
                let balancer = &mut self.balancers[place];
                balancer.router.replace(self.now, Arc::clone(&self.pool));
                balancer.version = self.version;
                self.act_later();
            }
        }
        if self.random.chance(0.02) {
            self.tidy();
        }
        for _ in 0..self.settings.flood {
            self.attack();
        }
        self.act_as_client();
    }

    /// The servers have changed: there is a new pool for the balancers.
    fn publish(&mut self) {
        self.version += 1;
        self.pool = Arc::new(self.servers.pool());
        self.report.changes += 1;
    }

    fn change(&mut self) {
        let active = self.servers.which(|server| server.state == ServerState::Active);
        let many = self.settings.servers;
        match self.random.below(8) {
            0 if active.len() < 2 * many => self.add_server(),
            1 if active.len() > many / 2 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Draining;
                self.servers.all[server].drained_at = self.version + 1;
            }
            2 => {
                let is_draining = |state| state == ServerState::Draining;
                let draining = self.servers.which(|it| is_draining(it.state) && it.is_alive);
                let Some(server) = self.pick(&draining) else { return };
                self.servers.all[server].state = ServerState::Active;
            }
            3 if active.len() > many / 2 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Down;
                self.servers.all[server].is_alive = false;
                self.give_up_connections_of(server);
            }
            4 => {
                let down = self.servers.which(|server| server.state == ServerState::Down);
                let Some(server) = self.pick(&down) else { return };
                self.revive(server);
            }
            5 if self.servers.codecs.len() == 1 => self.change_config(),
            6 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].weight = self.random.below(11) as u32;
            }
            7 if !self.settings.in_order && active.len() > many / 2 => {
                // The checks failed, but not the server.
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Down;
            }
            _ => return,
        }
        self.publish();
    }

    fn add_server(&mut self) {
        let is_plain =
            self.random.below(self.settings.servers as u64) < self.settings.plain_servers as u64;
        let weight = if self.settings.in_order { 0 } else { 10 };
        self.servers.add(is_plain, weight, &mut self.random);
        let server = self.servers.all.len() - 1;
        self.later.push((self.version + 1, Later::SetWeight(server)));
    }

    fn revive(&mut self, server: usize) {
        let server_now = &mut self.servers.all[server];
        server_now.is_alive = true;
        server_now.state = ServerState::Active;
        if self.settings.in_order {
            server_now.state = ServerState::Draining;
            server_now.drained_at = u64::MAX;
            self.later.push((self.version + 1, Later::Activate(server)));
        }
    }

    fn change_config(&mut self) {
        let config = self.servers.add_config(&mut self.random);
        if self.settings.in_order {
            self.later.push((self.version + 1, Later::Issue(config)));
        } else {
            self.servers.issued = config;
            self.servers.remove_oldest_config();
        }
    }

    /// Does what had to wait until all balancers have the pool of a version.
    fn act_later(&mut self) {
        let reached = self.balancers.iter().map(|balancer| balancer.version).min().unwrap();
        let due = self.later.extract_if(.., |(version, _)| *version <= reached);
        let due: Vec<_> = due.map(|(_, act)| act).collect();
        for act in due {
            match act {
                Later::Activate(server) => {
                    let server = &mut self.servers.all[server];
                    if server.state == ServerState::Draining && server.is_alive {
                        server.state = ServerState::Active;
                    }
                    self.publish();
                }
                Later::SetWeight(server) => {
                    self.servers.all[server].weight = 10;
                    self.publish();
                }
                Later::Issue(config) => self.servers.issued = config,
            }
        }
    }

    /// Removes servers that have drained, and a configuration that no connection has IDs of.
    fn tidy(&mut self) {
        let reached = self.balancers.iter().map(|balancer| balancer.version).min().unwrap();
        let drained = self
            .servers
            .which(|server| server.state == ServerState::Draining && server.drained_at <= reached);
        for server in drained {
            if !self.connections.iter().any(|connection| connection.server == Some(server)) {
                self.servers.all[server].is_in_pool = false;
                self.servers.all[server].is_alive = false;
                self.publish();
            }
        }
        let oldest = self.servers.codecs[0].config();
        let is_used = |connection: &Connection| connection.uses(oldest);
        if self.servers.issued != oldest && !self.connections.iter().any(is_used) {
            self.servers.remove_oldest_config();
            self.publish();
        }
    }

    /// A datagram of somebody who knows the form of everything, but no key and no connection ID in use.
    fn attack(&mut self) {
        let place = self.random.below(self.balancers.len() as u64) as usize;
        let address = ([100, 64, self.random.number() as u8, 1], self.random.number() as u16);
        let length = 4 + self.random.below(17) as usize;
        let id = octets(&mut self.random, length);
        let datagram = match self.random.below(2) {
            0 => long(&mut self.random, 1, &id, &id),
            _ => short(&mut self.random, &id),
        };
        let router = &mut self.balancers[place].router;
        let decision = router.route(self.now, address.into(), clients::LOCAL, &datagram);
        if let Decision::Forward { server, .. } = decision {
            let of_server = self.servers.which(|it| it.key == server && it.is_alive);
            if let Some(server_place) = of_server.first() {
                let (issued, _) = self.servers.issue(*server_place, &mut self.random);
                router.observe(
                    self.now,
                    server,
                    address.into(),
                    &long(&mut self.random, 1, &id, &issued),
                );
            }
        }
    }
}
