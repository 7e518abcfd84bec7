//! A fleet in virtual time, step by step.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_balancer::{Limits, Pool, Router, ServerKey, ServerState, SharedIds};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::ConfigId;

use super::connection::Connection;
use super::report::Report;
use super::rules::FleetRule;
use super::servers::{FULL_WEIGHT, FleetServer, Servers};
use super::settings::Settings;
use super::tables::{self, FEW};

/// The lifetimes of flow entries: one longer than nearly all idle periods of connections, and one
/// shorter.
const LIFETIMES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(15)];

/// The number of threads of each balancer.
const THREADS: usize = 2;

pub(super) struct Balancer {
    /// The routers, one for each thread.
    pub(super) routers: Vec<Router>,
    /// The fleet version of the balancer's pool.
    pub(super) version: u64,
}

impl Balancer {
    fn new(pool: &Arc<Pool>, limits: Limits, random: Random) -> Self {
        let shared = Arc::new(SharedIds::new(limits, THREADS, random));
        let router = || Router::among(Arc::clone(pool), limits, &shared);
        Self { routers: std::iter::repeat_with(router).take(THREADS).collect(), version: 0 }
    }

    /// Returns the router of the thread to which the kernel steers datagrams from `client`.
    pub(super) fn router(&mut self, client: SocketAddr) -> &mut Router {
        let thread = usize::from(client.port()) % THREADS;
        &mut self.routers[thread]
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        self.routers[0].pool()
    }
}

/// An action that is deferred until all balancers have the pool of a certain version.
enum Later {
    Activate(usize),
    SetWeight(usize),
    Issue(ConfigId),
}

pub(super) struct Fleet {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) limits: Limits,
    pub(super) random: Random,
    pub(super) now: Timestamp,
    pub(super) servers: Servers,
    version: u64,
    pool: Arc<Pool>,
    pub(super) balancers: Vec<Balancer>,
    later: Vec<(u64, Later)>,
    pub(super) connections: Vec<Connection>,
    /// Addresses that clients no longer use.
    pub(super) free_addresses: Vec<SocketAddr>,
    /// The number of addresses that were used.
    pub(super) addresses: u32,
    /// The number of the connection that last used each address.
    pub(super) had: BTreeMap<SocketAddr, u64>,
    pub(super) report: Report,
}

/// Simulates a fleet. The seed and the settings determine everything.
pub fn simulate(seed: u64, settings: &Settings) -> Report {
    let mut fleet = Fleet::new(seed, *settings);
    (0..settings.size.connections).for_each(|_| fleet.open());
    for _ in 0..settings.steps() {
        fleet.step();
    }
    // Every remaining connection sends one more datagram.
    for place in (0..fleet.connections.len()).rev() {
        fleet.send(place);
    }
    fleet.end()
}

impl Fleet {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut random = Random::from_number(seed);
        let opaque = settings.opaque_servers();
        let servers = Servers::new(settings.form, settings.size.servers, opaque, &mut random);
        let limits = settings.limits(LIFETIMES[random.below(LIFETIMES.len() as u64) as usize]);
        let pool = Arc::new(pool(&servers));
        let mut report = Report { fleets: 1, ..Report::default() };
        if let Some(client) = tables::disagreement(&pool, &reversed(&servers)) {
            report.violate(seed, FleetRule::Agree, || {
                format!(
                    "{client} gets a different server if the servers are listed in reverse \
                    order"
                )
            });
        }
        let balancers = (0..2).map(|_| Balancer::new(&pool, limits, random.fork()));
        let balancers = balancers.collect();
        Self {
            seed,
            settings,
            limits,
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
            had: BTreeMap::new(),
            report,
        }
    }

    fn end(mut self) -> Report {
        for router in self.balancers.iter().flat_map(|balancer| &balancer.routers) {
            self.report.add_router(router.statistics());
        }
        let share = self.report.moved_by_changes();
        if share > FEW {
            self.report.violate(self.seed, FleetRule::Few, || {
                let percent = 100.0 * share;
                format!(
                    "changes moved {percent:.1} % of new clients between servers that they \
                    did not affect"
                )
            });
        }
        self.report
    }

    /// Returns a random element of `places`.
    fn pick(&mut self, places: &[usize]) -> Option<usize> {
        places.get(self.random.below(places.len() as u64) as usize).copied()
    }

    fn step(&mut self) {
        let longest = 2 * self.settings.step_time().as_nanos() as u64;
        self.now += Duration::from_nanos(self.random.below(longest));
        if self.random.chance(self.settings.change_chance()) {
            self.change();
        }
        for place in 0..self.balancers.len() {
            let is_behind = self.balancers[place].version < self.version;
            if is_behind && self.random.chance(self.settings.update_chance()) {
                let balancer = &mut self.balancers[place];
                for router in &mut balancer.routers {
                    router.replace(self.now, Arc::clone(&self.pool));
                }
                balancer.version = self.version;
                self.act_later();
            }
        }
        if self.random.chance(self.settings.update_chance()) {
            self.tidy();
            self.look_at_memory();
        }
        for _ in 0..self.settings.hostile_datagrams() {
            self.attack();
        }
        self.act_as_client();
    }

    /// Publishes a new pool to the balancers after the servers have changed.
    fn publish(&mut self) {
        self.version += 1;
        let pool = pool(&self.servers);
        let (samples, moved) = tables::moved(&self.pool, &pool, self.version);
        self.report.sampled.0 += samples;
        self.report.sampled.1 += moved;
        self.pool = Arc::new(pool);
        self.report.changes += 1;
    }

    fn change(&mut self) {
        let active = self.servers.which(|server| server.state == ServerState::Active);
        let many = self.settings.size.servers;
        match self.random.below(8) {
            0 if active.len() < 2 * many => self.add_server(),
            1 if active.len() > many / 2 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Draining;
                self.servers.all[server].drained_at = self.version + 1;
            }
            2 => {
                // Excludes servers that wait until all balancers know that they are reachable
                // again.
                let is_draining = |server: &FleetServer| {
                    let FleetServer { state, drained_at, is_alive, .. } = *server;
                    state == ServerState::Draining && drained_at != u64::MAX && is_alive
                };
                let draining = self.servers.which(is_draining);
                let Some(server) = self.pick(&draining) else { return };
                self.servers.all[server].state = ServerState::Active;
            }
            3 if active.len() > many / 2 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Down;
                self.servers.all[server].down_at = self.version + 1;
                self.servers.all[server].is_alive = false;
                self.give_up_connections_of(server);
            }
            4 => {
                // With changes in order, a server returns only when all balancers know that it was
                // down. Otherwise, a balancer would send it clients and consider them lost when it
                // learns that the server was down.
                let since = if self.settings.is_in_order() { self.reached() } else { u64::MAX };
                let is_down = |server: &FleetServer| {
                    server.state == ServerState::Down && server.down_at <= since
                };
                let down = self.servers.which(is_down);
                let Some(server) = self.pick(&down) else { return };
                self.revive(server);
            }
            5 if self.may_change_config() => self.change_config(),
            6 => {
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].weight = self.random.below(11) as u32;
            }
            7 if !self.settings.is_in_order() && active.len() > many / 2 => {
                // The health checks fail, although the server is alive.
                let Some(server) = self.pick(&active) else { return };
                self.servers.all[server].state = ServerState::Down;
            }
            _ => return,
        }
        self.publish();
    }

    fn add_server(&mut self) {
        let Settings { size, .. } = self.settings;
        let opaque = self.settings.opaque_servers();
        let is_opaque = self.random.below(size.servers as u64) < opaque as u64;
        let weight = if self.settings.is_in_order() { 0 } else { FULL_WEIGHT };
        self.servers.add(is_opaque, weight, &mut self.random);
        let server = self.servers.all.len() - 1;
        self.later.push((self.version + 1, Later::SetWeight(server)));
    }

    fn revive(&mut self, server: usize) {
        let server_now = &mut self.servers.all[server];
        server_now.is_alive = true;
        server_now.state = ServerState::Active;
        if self.settings.is_in_order() {
            server_now.state = ServerState::Draining;
            server_now.drained_at = u64::MAX;
            self.later.push((self.version + 1, Later::Activate(server)));
        }
    }

    /// Returns whether the configuration may change. With changes in any order, no configuration
    /// number is reused, because some connection may still have IDs of the old configuration.
    fn may_change_config(&self) -> bool {
        let is_new = self.servers.configs_added < ConfigId::COUNT;
        self.servers.codecs.len() == 1 && (self.settings.is_in_order() || is_new)
    }

    fn change_config(&mut self) {
        let config = self.servers.add_config(&mut self.random);
        if self.settings.is_in_order() {
            self.later.push((self.version + 1, Later::Issue(config)));
        } else {
            self.servers.issued = config;
            self.servers.remove_oldest_config();
        }
    }

    /// Returns the version of the fleet that all balancers have reached.
    fn reached(&self) -> u64 {
        self.balancers.iter().map(|balancer| balancer.version).min().unwrap_or(0)
    }

    /// Performs the deferred actions whose version all balancers have reached.
    fn act_later(&mut self) {
        let reached = self.reached();
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
                    self.servers.all[server].weight = FULL_WEIGHT;
                    self.publish();
                }
                Later::Issue(config) => self.servers.issued = config,
            }
        }
    }

    /// Removes drained servers, and a configuration that is not used by any connection's IDs.
    fn tidy(&mut self) {
        let reached = self.reached();
        let drained = self
            .servers
            .which(|server| server.state == ServerState::Draining && server.drained_at <= reached);
        let mut counts = vec![0_u32; self.servers.all.len()];
        for server in self.connections.iter().filter_map(|connection| connection.server) {
            counts[server] += 1;
        }
        for server in drained.into_iter().filter(|server| counts[*server] == 0) {
            self.servers.all[server].is_in_pool = false;
            self.servers.all[server].is_alive = false;
            self.publish();
        }
        let oldest = self.servers.codecs[0].config();
        let is_used = |connection: &Connection| connection.uses(oldest);
        if self.servers.issued != oldest && !self.connections.iter().any(is_used) {
            self.servers.remove_oldest_config();
            self.publish();
        }
    }

    fn look_at_memory(&mut self) {
        for router in self.balancers.iter().flat_map(|balancer| &balancer.routers) {
            let statistics = router.statistics();
            let (flows, learned) = (statistics.flows.entries, statistics.learned.entries);
            if flows > self.limits.flows || learned > self.limits.learned {
                self.report.violate(self.seed, FleetRule::Bounded, || {
                    format!("a thread's table has {flows} flows and {learned} learned connections")
                });
            }
        }
    }

    /// Returns a server's name for use in an explanation.
    pub(super) fn name(&self, key: ServerKey) -> String {
        let server = self.servers.all.iter().find(|server| server.key == key);
        server.map_or_else(|| format!("{key:?}"), |server| server.name().to_owned())
    }
}

fn pool(servers: &Servers) -> Pool {
    servers.pool(servers.described()).expect("names, addresses and server IDs are unique")
}

/// Returns a pool with the same servers in reverse order.
fn reversed(servers: &Servers) -> Pool {
    let mut described = servers.described();
    described.reverse();
    servers.pool(described).expect("the order of the servers does not affect validity")
}
