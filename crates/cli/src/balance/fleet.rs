//! Combines the file's servers with the results of their health checks, and determines the current
//! pool. Uses neither sockets nor a clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use clearway::Timestamp;
use clearway_balancer::{Health, HealthSettings, Pool, PoolError, Server, ServerKey, ServerState};

use super::backends::Backends;

/// The servers and their state.
#[derive(Debug)]
pub(super) struct Fleet {
    backends: Backends,
    /// The servers with health checks; empty if health checks are disabled.
    checked: BTreeMap<ServerKey, Checked>,
    /// Whether the servers have changed since the latest pool was returned.
    has_changed: bool,
    /// Time of the next increase of a server's share of new clients.
    next_step: Option<Timestamp>,
    /// Whether none of the servers that could take new clients passes its health checks.
    is_none_up: bool,
}

/// The state of a server with health checks.
#[derive(Debug)]
struct Checked {
    name: String,
    address: SocketAddr,
    health: Health,
    /// Number of checks that have been started.
    begun: u64,
    /// Number of started checks without an outcome.
    in_progress: u32,
    /// The number of the latest check with an outcome.
    latest: u64,
}

/// Maximum number of concurrent checks per server. If a server is killed while it answers a check,
/// that check waits for its timeout, but the next one finds immediately that nothing listens there.
const AT_A_TIME: u32 = 2;

/// A health check to perform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Check {
    server: ServerKey,
    pub(super) address: SocketAddr,
    number: u64,
}

/// The reason that a health check failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CheckFailure {
    pub(super) why: String,
    /// Whether nothing listens at the server's address.
    pub(super) is_unreachable: bool,
}

/// A pool, and the message to report with it, if any.
type Changed = (Arc<Pool>, Option<&'static str>);

impl Fleet {
    /// Creates the initial servers and their pool: all except draining servers accept clients until
    /// health checks show otherwise.
    ///
    /// # Errors
    /// Returns an error if the servers do not form a valid pool.
    pub(super) fn start(
        backends: Backends,
        now: Timestamp,
    ) -> Result<(Self, Arc<Pool>), PoolError> {
        let settings = backends.health.settings;
        let checked = described(&backends).map(|(key, server)| {
            let health = Health::assumed_up(settings, now);
            (key, Checked::new(server, health))
        });
        let checked = checked.collect();
        let mut fleet =
            Self { backends, checked, has_changed: false, next_step: None, is_none_up: false };
        let (pool, _) = fleet.pool(now)?;
        Ok((fleet, pool))
    }

    /// Applies the file's new contents. Servers that are new in the file, or have a new address,
    /// receive clients after their first successful check.
    pub(super) fn replace(&mut self, now: Timestamp, backends: Backends) {
        let settings = backends.health.settings;
        let had_settings = self.backends.health.settings;
        let mut before = std::mem::take(&mut self.checked);
        let checked = described(&backends).map(|(key, server)| {
            let known = before.remove(&key).filter(|known| known.address == server.address);
            let fresh = Checked::new(server, Health::new(settings, now));
            let fresh = match &known {
                Some(Checked { begun, in_progress, latest, .. }) => {
                    let (begun, in_progress, latest) = (*begun, *in_progress, *latest);
                    Checked { begun, in_progress, latest, ..fresh }
                }
                None => fresh,
            };
            let mut health = match known {
                None => Health::new(settings, now),
                Some(known) if settings == had_settings => known.health,
                Some(known) => with_settings(&known.health, settings, now),
            };
            health.set_draining(server.state == ServerState::Draining);
            (key, Checked { health, ..fresh })
        });
        self.checked = checked.collect();
        self.backends = backends;
        self.has_changed = true;
    }

    /// Returns the due checks, at most `most`, and counts them as started.
    pub(super) fn checks_due(&mut self, now: Timestamp, most: usize) -> Vec<Check> {
        let waiting = self.checked.iter_mut().filter(|(_, checked)| checked.may_begin());
        let mut due: Vec<_> =
            waiting.filter(|(_, checked)| checked.health.deadline() <= now).collect();
        // The checks that have been due the longest come first, so that every server is checked
        // even if there are too many servers.
        due.sort_by_key(|(_, checked)| checked.health.deadline());
        let begun = due.into_iter().take(most).map(|(key, checked)| {
            checked.health.begin_check(now);
            checked.begun += 1;
            checked.in_progress += 1;
            Check { server: *key, address: checked.address, number: checked.begun }
        });
        begun.collect()
    }

    /// Returns the name of the checked server; `None` if it has been removed.
    pub(super) fn name_of(&self, check: &Check) -> Option<&str> {
        let checked = self.checked.get(&check.server)?;
        (checked.address == check.address).then_some(&checked.name)
    }

    /// Records the outcome of a check, and returns the message to report, if any. An outcome is
    /// ignored if a later check has already ended.
    pub(super) fn on_outcome(
        &mut self,
        now: Timestamp,
        check: &Check,
        outcome: Result<(), CheckFailure>,
    ) -> Option<String> {
        let checked = self.checked.get_mut(&check.server)?;
        // After a change to the file, the check's key may belong to another server.
        if checked.address != check.address {
            return None;
        }
        checked.in_progress = checked.in_progress.saturating_sub(1);
        if check.number < checked.latest {
            return None;
        }
        checked.latest = check.number;
        let has_changed = match &outcome {
            Ok(()) => checked.health.on_success(now),
            Err(CheckFailure { is_unreachable: true, .. }) => checked.health.on_unreachable(now),
            Err(_) => checked.health.on_failure(),
        };
        if !has_changed {
            return None;
        }
        self.has_changed = true;
        let Checked { name, address, .. } = checked;
        Some(match outcome {
            Ok(()) => format!("server {name:?} ({address}) is up"),
            Err(CheckFailure { why, .. }) => format!("server {name:?} ({address}) is down: {why}"),
        })
    }

    /// Returns the time of the next action, if no check ends earlier: starting a check (unless
    /// there are too many), or increasing a server's share.
    pub(super) fn deadline(&self, may_check: bool) -> Option<Timestamp> {
        let waiting = self.checked.values().filter(|checked| may_check && checked.may_begin());
        waiting.map(|checked| checked.health.deadline()).chain(self.next_step).min()
    }

    /// Returns the current pool if it has changed since the last call, and the message to report,
    /// if any.
    ///
    /// # Errors
    /// Returns an error if the servers do not form a valid pool.
    pub(super) fn changed_pool(&mut self, now: Timestamp) -> Result<Option<Changed>, PoolError> {
        let is_step = self.next_step.is_some_and(|at| at <= now);
        match std::mem::take(&mut self.has_changed) || is_step {
            true => self.pool(now).map(Some),
            false => Ok(None),
        }
    }

    fn pool(&mut self, now: Timestamp) -> Result<Changed, PoolError> {
        let steps = self.checked.values().filter_map(|checked| checked.health.next_weight(now));
        self.next_step = steps.min();
        let is_none_up = self.is_none_up();
        let report = match (std::mem::replace(&mut self.is_none_up, is_none_up), is_none_up) {
            (false, true) => {
                Some("no server passes its health checks: all of them get clients until one does")
            }
            (true, false) => {
                Some("a server passes its health checks again: only passing servers get clients")
            }
            _ => None,
        };
        Ok((self.backends.pool(self.servers(now))?, report))
    }

    /// Returns the file's contents.
    pub(super) fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Returns whether all servers that could take new clients are down. In that case, the health
    /// checks are probably wrong.
    fn is_none_up(&self) -> bool {
        let mut described = described(&self.backends);
        let is_candidate = |server: &Server| server.takes_new_clients();
        let has_candidate = self.backends.servers.iter().any(is_candidate);
        let is_up = |key: &ServerKey| {
            self.checked.get(key).is_some_and(|it| it.health.state() != ServerState::Down)
        };
        has_candidate
            && !self.checked.is_empty()
            && !described.any(|(key, server)| is_candidate(server) && is_up(&key))
    }

    fn servers(&self, now: Timestamp) -> Vec<Server> {
        let servers = self.backends.servers.iter().map(|server| {
            let checked = self.checked.get(&ServerKey::of(&server.name));
            let checked = checked.filter(|_| !self.is_none_up);
            let (state, tenths) = match checked {
                None => (server.state, Health::FULL_WEIGHT),
                Some(checked) => (checked.health.state(), checked.health.weight(now)),
            };
            Server { state, weight: server.weight.saturating_mul(tenths), ..server.clone() }
        });
        servers.collect()
    }
}

/// Returns the health state of a server, converted to new settings.
fn with_settings(health: &Health, settings: HealthSettings, now: Timestamp) -> Health {
    if health.state() != ServerState::Down {
        return Health::assumed_up(settings, now);
    }
    let mut health = Health::new(settings, now);
    health.on_failure();
    health
}

/// Returns the servers with health checks, by their keys.
fn described(backends: &Backends) -> impl Iterator<Item = (ServerKey, &Server)> {
    let servers = if backends.health.is_off { &[][..] } else { &backends.servers };
    servers.iter().map(|server| (ServerKey::of(&server.name), server))
}

impl Checked {
    fn new(server: &Server, mut health: Health) -> Self {
        health.set_draining(server.state == ServerState::Draining);
        let (name, address) = (server.name.clone(), server.address);
        Self { name, address, health, begun: 0, in_progress: 0, latest: 0 }
    }

    /// Returns whether another check of this server may start when it is due.
    fn may_begin(&self) -> bool {
        self.in_progress < AT_A_TIME
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
