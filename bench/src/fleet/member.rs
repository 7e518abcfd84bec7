//! A connection that downloads repeatedly while changing its address and its connection ID.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clearway::Endpoint;
use clearway::http3::Client;
use http::StatusCode;
use serde_json::{Value, json};

use super::nat::Nat;
use super::{Fleet, connect, request};
use crate::Outcome;
use crate::pattern::Sink;

/// Interval between address changes, and between connection ID changes.
const MOVING: Duration = Duration::from_secs(1);

pub(super) struct Member {
    number: u8,
    fleet: Arc<Fleet>,
    /// The endpoint, which owns the connection's socket and thread.
    _endpoint: Endpoint,
    client: Client,
    /// The NAT between client and balancer, if the address changes through a NAT.
    nat: Option<Nat>,
    /// The name of the connection's server.
    server: String,
    state: Mutex<State>,
}

/// The connection's results so far.
#[derive(Default)]
struct State {
    /// Number of bytes that were received and are correct.
    bytes: u64,
    /// Number of downloads started.
    begun: u64,
    complete: u64,
    /// Number of address changes, and number of connection ID changes. A migration changes both.
    moved: u64,
    not_moved: u64,
    rotated: u64,
    /// The longest wait for new content since the last report.
    waited: Duration,
    /// Why the connection has stopped downloading.
    failure: Option<String>,
    /// Whether wrong bytes were received.
    is_wrong: bool,
    has_ended: bool,
}

impl Member {
    /// Opens connection `number` of `count`, and starts downloading. The connections change their
    /// addresses in turn.
    pub(super) async fn open(
        fleet: &Arc<Fleet>,
        number: u8,
        count: u8,
        has_nat: bool,
    ) -> Outcome<Arc<Self>> {
        let outside = fleet.addresses.of_member(number, 0);
        let nat = match has_nat {
            true => Some(Nat::open(outside, fleet.remote).await?),
            false => None,
        };
        let local = if has_nat { any_loopback() } else { outside };
        let endpoint = Endpoint::client(local)?;
        let remote = nat.as_ref().map_or(fleet.remote, |nat| nat.inside);
        let connected = connect(&endpoint, fleet, remote).await;
        let (client, server) =
            connected.map_err(|error| format!("connection {number}: {error}"))?;
        let member = Arc::new(Self {
            number,
            fleet: fleet.clone(),
            _endpoint: endpoint,
            client,
            nat,
            server,
            state: Mutex::default(),
        });
        tokio::spawn(member.clone().download());
        let share = f64::from(number) / f64::from(count);
        tokio::spawn(member.clone().travel(MOVING.mul_f64(1.0 + share)));
        if has_nat {
            tokio::spawn(member.clone().rotate(MOVING.mul_f64(1.5 + share)));
        }
        Ok(member)
    }

    /// Returns whether a download is in progress.
    pub(super) fn is_busy(&self) -> bool {
        !self.lock().has_ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn download(self: Arc<Self>) {
        while !self.fleet.is_over() {
            self.lock().begun += 1;
            match self.download_once().await {
                Ok(()) => self.lock().complete += 1,
                Err(error) => {
                    self.lock().failure = Some(error.to_string());
                    break;
                }
            }
        }
        self.lock().has_ended = true;
    }

    /// Downloads the content at the configured rate, and checks every byte.
    async fn download_once(&self) -> Outcome {
        let mut response = self.client.send(request("/content")).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("/content has status {}", response.status()).into());
        }
        let (began, mut sink) = (Instant::now(), Sink::new());
        loop {
            let waiting = Instant::now();
            let chunk = response.body_mut().chunk().await;
            self.waited(waiting.elapsed());
            let Some(chunk) = chunk else { break };
            self.accept(&chunk?, &mut sink)?;
            let due = Duration::from_secs_f64(sink.received as f64 / f64::from(self.fleet.rate));
            tokio::time::sleep_until((began + due).into()).await;
        }
        match sink.received == self.fleet.size {
            true => Ok(()),
            false => Err(format!("only {} of {} bytes", sink.received, self.fleet.size).into()),
        }
    }

    fn waited(&self, time: Duration) {
        let mut state = self.lock();
        state.waited = state.waited.max(time);
    }

    /// Checks and counts content.
    fn accept(&self, chunk: &[u8], sink: &mut Sink) -> Result<(), String> {
        let mut state = self.lock();
        if !sink.accept(chunk) {
            state.is_wrong = true;
            return Err(format!("wrong bytes after {}", sink.received));
        }
        state.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Changes the address once a second, starting after `first`, either by migrating to another
    /// address with a new connection ID, or by a NAT rebinding.
    async fn travel(self: Arc<Self>, first: Duration) {
        let mut due = every(first);
        for turn in 1.. {
            due.tick().await;
            if !self.goes_on() {
                return;
            }
            let outcome = match &self.nat {
                Some(nat) => nat.rebind().await.map_err(|error| error.to_string()),
                None => self.migrate(self.fleet.addresses.of_member(self.number, turn)).await,
            };
            let mut state = self.lock();
            match outcome {
                Ok(()) => state.moved += 1,
                Err(error) => {
                    state.not_moved += 1;
                    eprintln!(
                        "clearway-bench: connection {} could not migrate: {error}",
                        self.number
                    );
                }
            }
        }
    }

    /// Changes the connection ID once a second, starting after `first`. The client moves to another
    /// port inside the NAT, which maps that port to the client's previous external port.
    async fn rotate(self: Arc<Self>, first: Duration) {
        let mut due = every(first);
        loop {
            due.tick().await;
            if !self.goes_on() {
                return;
            }
            if let Err(error) = self.migrate(any_loopback()).await {
                eprintln!(
                    "clearway-bench: connection {} could not change its connection ID: \
                    {error}",
                    self.number
                );
            }
        }
    }

    async fn migrate(&self, local: SocketAddr) -> Result<(), String> {
        self.client.migrate(local).await.map_err(|error| error.to_string())?;
        self.lock().rotated += 1;
        Ok(())
    }

    /// Returns whether to continue changing the address: until all downloads have ended.
    fn goes_on(&self) -> bool {
        let state = self.lock();
        !state.has_ended && state.failure.is_none()
    }

    /// Returns the results, with the longest wait since the last report.
    pub(super) fn report(&self) -> Value {
        let state = &mut *self.lock();
        json!({
            "server": self.server,
            "bytes": state.bytes,
            "begun": state.begun,
            "complete": state.complete,
            "moved": state.moved,
            "not_moved": state.not_moved,
            "rotated": state.rotated,
            "waited": std::mem::take(&mut state.waited).as_secs_f64(),
            "failure": state.failure,
            "is_wrong": state.is_wrong,
        })
    }
}

fn every(first: Duration) -> tokio::time::Interval {
    let mut due = tokio::time::interval_at(tokio::time::Instant::now() + first, MOVING);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    due
}

/// Returns a loopback address with any port.
fn any_loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}
