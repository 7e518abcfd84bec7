//! Keeps the pool up to date with the file and the health checks, using sockets and the clock.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use clearway::{
    ClientConfig, ConnectError, ConnectionError, Endpoint, Timestamp, TransportConfig, VarInt,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::backends::Checks;
use super::counts::FleetCounts;
use super::fleet::{Check, CheckFailure, Fleet};
use super::report_skipped;
use super::retries::SharedLimit;
use super::routing::SharedPool;
use super::watch::Reread;
use crate::output;

/// Maximum number of concurrent health checks.
const MAX_CHECKS: usize = 64;
/// H3_NO_ERROR (RFC 9114 §8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// The outcome of a health check: the reason if it failed.
type Outcome = (Check, Result<(), CheckFailure>);

/// Runs the health checks and determines the current pool.
pub(super) struct Supervisor {
    fleet: Fleet,
    origin: Instant,
    pool: SharedPool,
    retry_limit: Arc<SharedLimit>,
    counts: Arc<FleetCounts>,
    checks: JoinSet<Outcome>,
    endpoints: Endpoints,
    is_quiet: bool,
}

impl Supervisor {
    /// Creates a supervisor; the timestamps in `fleet` are relative to `origin`.
    pub(super) fn new(
        fleet: Fleet,
        origin: Instant,
        (pool, retry_limit): (SharedPool, Arc<SharedLimit>),
        counts: Arc<FleetCounts>,
        is_quiet: bool,
    ) -> Self {
        let (checks, endpoints) = (JoinSet::new(), Endpoints::default());
        Self { fleet, origin, pool, retry_limit, counts, checks, endpoints, is_quiet }
    }

    /// Runs health checks, and applies changes to `file`.
    pub(super) async fn run(mut self, mut file: mpsc::Receiver<Reread>) -> Infallible {
        loop {
            self.begin_checks();
            self.publish();
            let deadline = self.fleet.deadline(self.checks.len() < MAX_CHECKS);
            let deadline = deadline.map(|at| self.origin + at.since_origin());
            let wait = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(outcome) = self.checks.join_next() => {
                    // A check that has panicked has no outcome.
                    if let Ok((check, outcome)) = outcome {
                        self.on_outcome(&check, outcome);
                    }
                }
                Some(reread) = file.recv() => self.on_reread(reread),
                () = wait => {}
            }
        }
    }

    fn begin_checks(&mut self) {
        let slots = MAX_CHECKS.saturating_sub(self.checks.len());
        for check in self.fleet.checks_due(self.now(), slots) {
            let endpoint = self.endpoints.towards(check.address);
            let checks = self.fleet.backends().health.clone();
            self.checks.spawn(async move {
                let outcome = match endpoint {
                    Ok(endpoint) => handshake(endpoint, check.address, &checks).await,
                    Err(why) => Err(CheckFailure { why, is_unreachable: false }),
                };
                (check, outcome)
            });
        }
    }

    fn on_outcome(&mut self, check: &Check, outcome: Result<(), CheckFailure>) {
        if let Some(name) = self.fleet.name_of(check) {
            self.counts.checked(name, outcome.is_ok());
        }
        let report = self.fleet.on_outcome(self.now(), check, outcome);
        self.report(report.as_deref());
    }

    fn on_reread(&mut self, reread: Reread) {
        self.counts.reloaded(reread.is_ok());
        match reread {
            Ok(backends) => {
                output::status(&format!("reloaded the backends: {}", backends.summary()));
                report_skipped(&backends);
                self.counts.skipped(backends.skipped.len());
                self.counts.retain(&backends.servers);
                self.retry_limit.set(backends.retry_above);
                self.fleet.replace(self.now(), backends);
            }
            Err(failure) => output::status(&format!(
                "clearway: the backends were not reloaded and the previous ones stay in use: {failure}"
            )),
        }
    }

    fn publish(&mut self) {
        match self.fleet.changed_pool(self.now()) {
            Ok(None) => {}
            Ok(Some((pool, report))) => {
                self.pool.store(pool);
                self.report(report);
            }
            Err(error) => output::status(&format!(
                "clearway: cannot update the servers, which stay unchanged: {error}"
            )),
        }
    }

    fn report(&self, line: Option<&str>) {
        if let Some(line) = line.filter(|_| !self.is_quiet) {
            output::status(line);
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }
}

/// The client endpoints for health checks, one per address family, opened on demand.
#[derive(Default)]
struct Endpoints {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

impl Endpoints {
    fn towards(&mut self, server: SocketAddr) -> Result<Endpoint, String> {
        let (endpoint, any) = match server {
            SocketAddr::V4(_) => (&mut self.v4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (&mut self.v6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        if let Some(endpoint) = endpoint {
            return Ok(endpoint.clone());
        }
        let new = Endpoint::client((any, 0).into()).map_err(|error| {
            format!("the balancer cannot open a socket for the health check: {error}")
        })?;
        Ok(endpoint.insert(new).clone())
    }
}

/// Checks a server by completing a handshake on a new connection, which is closed immediately.
async fn handshake(
    endpoint: Endpoint,
    server: SocketAddr,
    checks: &Checks,
) -> Result<(), CheckFailure> {
    let failed = |why| CheckFailure { why, is_unreachable: false };
    // A packet whose QUIC bit is cleared may look to the server like a preface followed by a
    // client's datagram.
    let transport = TransportConfig::builder().grease_quic_bit(false).build();
    let transport = transport.map_err(|error| failed(error.to_string()))?;
    // A new configuration has no sessions of other servers. The certificate does not matter here:
    // clients verify it.
    let config = ClientConfig::dangerous_without_certificate_verification()
        .application_protocols([&checks.application_protocol])
        .transport(transport);
    let connecting = endpoint
        .connect_with(&config, server, &checks.server_name)
        .map_err(|error| failed(error.to_string()))?;
    match tokio::time::timeout(checks.timeout, connecting).await {
        Ok(Ok(connection)) => {
            connection.close(NO_ERROR, b"");
            Ok(())
        }
        // The server's host reports that nothing listens there.
        Ok(Err(error @ ConnectError::Lost(ConnectionError::Unreachable))) => {
            Err(CheckFailure { why: error.to_string(), is_unreachable: true })
        }
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no handshake within {:?}", checks.timeout))),
    }
}
