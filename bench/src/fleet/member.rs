//! A connection that downloads again and again, and changes its address and its connection ID meanwhile.

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

/// How often a connection changes its address, and how often its ID.
const MOVING: Duration = Duration::from_secs(1);

pub(super) struct Member {
    number: u8,
    fleet: Arc<Fleet>,
    /// Its socket and thread.
    _endpoint: Endpoint,
    client: Client,
    /// Between the client and the balancer, if its address changes in this way.
    nat: Option<Nat>,
    /// The name of its server.
    server: String,
    state: Mutex<State>,
}

/// What became of it so far.
#[derive(Default)]
struct State {
    /// Bytes that were received and are right.
    bytes: u64,
    /// Downloads.
    begun: u64,
    complete: u64,
    /// Changes of the address, and of the connection ID. A migration is both.
    moved: u64,
    not_moved: u64,
    rotated: u64,
    /// The longest time without new content while it was waited for, since the last report.
    waited: Duration,
    /// Why it downloads no more.
    failure: Option<String>,
    /// Bytes were wrong.
    is_wrong: bool,
    has_ended: bool,
}

impl Member {
    /// Opens a connection, of `count` that change their addresses in turn, and lets it begin.
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

    /// Whether a download is in progress.
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

    /// Downloads the content at the rate that it is to have, and checks every byte.
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

    /// Changes the address once a second, for the first time after `first`: by migration to another one, which has an ID of its
    /// own, or because the NAT changes the port.
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
                    eprintln!("clearway-bench: connection {} has not moved: {error}", self.number);
                }
            }
        }
    }

    /// Changes the connection ID once a second, for the first time after `first`: the client moves to another port inside of the
    /// NAT, which returns to the port outside that it had before.
    async fn rotate(self: Arc<Self>, first: Duration) {
        let mut due = every(first);
        loop {
            due.tick().await;
            if !self.goes_on() {
                return;
            }
            if let Err(error) = self.migrate(any_loopback()).await {
                eprintln!("clearway-bench: connection {} keeps its ID: {error}", self.number);
            }
        }
    }

    async fn migrate(&self, local: SocketAddr) -> Result<(), String> {
        self.client.migrate(local).await.map_err(|error| error.to_string())?;
        self.lock().rotated += 1;
        Ok(())
    }

    /// The addresses change for as long as there is something to download.
    fn goes_on(&self) -> bool {
        let state = self.lock();
        !state.has_ended && state.failure.is_none()
    }

    /// What became of it; how long it has waited, since the last report.
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

/// Any port of the loopback.
fn any_loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}
