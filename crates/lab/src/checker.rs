//! Observes a run, keeps its own records, and reports which property has been violated.
//!
//! The checker observes both endpoints of every flow, and every datagram that enters or leaves the
//! network. From these observations it derives its own ledger of bytes in flight (`records/`), its
//! own packet-timed rounds, recovery periods and round-trip times. A stack's reports are compared
//! with these records, and never trusted. The properties are in [`Property`]; each has its rule in
//! `safety/` or `liveness/`. The expectations for each controller are in `expectations.rs`.
//!
//! To add a property: add its name and descriptions in `properties/`, a file with the rule, a line
//! in `rules.rs`, and tests with an event sequence that violates the property and the closest one
//! that does not.

mod config;
mod contents;
mod expectations;
mod history;
mod liveness;
mod properties;
mod records;
mod rule;
mod rules;
mod safety;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_network::Ecn;
use clearway_transport::{
    ConnectionError, EcnState, Metrics, Observation, Observer, PacketObservation, TimerChange,
    TimerKind,
};
use clearway_units::Timestamp;

use self::config::EndpointConfig;
use self::history::{Happening, History};
use self::records::PeerAcks;
use self::rules::Failure;
use self::watch::{Watch, space_of};
use crate::end::{EndId, Side};
use crate::setup::Setup;

pub(crate) use self::expectations::{Kind, Regrowth};
pub use self::properties::{Place, Property, PropertySet, UnknownProperty};

/// A violated property.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// The property's ID, such as "L1".
    pub property: &'static str,
    /// The time at which it was detected.
    pub at: Timestamp,
    /// The endpoint whose records show the violation.
    pub end: EndId,
    /// The observation, and the expectation that it contradicts.
    pub explanation: String,
    /// The latest events, newest last.
    pub last_events: Vec<String>,
}

/// Observes all endpoints of a run. Clones observe the same run.
#[derive(Clone, Debug)]
pub struct Checker(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Whether properties are checked; if not, only the windows are recorded.
    is_checking: bool,
    flows: Vec<[WatchedEnd; 2]>,
    history: History,
    violation: Option<Violation>,
    /// Whether a run continues after a violation.
    goes_on: bool,
    /// Whether time no longer advances (S13).
    is_spinning: bool,
}

/// An endpoint of a flow.
#[derive(Debug)]
struct WatchedEnd {
    watch: Watch,
    /// The smallest reported window, and the minimum that the endpoint's controller ever sets.
    lowest: Option<(u64, u64)>,
}

/// Returns the properties that are checked in a run of `setup`.
///
/// # Errors
/// Returns an error if the setup turns off a property that does not exist.
pub fn properties(setup: &Setup) -> Result<PropertySet, UnknownProperty> {
    setup.properties_off.iter().try_fold(PropertySet::ALL, |on, (id, _reason)| {
        Property::from_id(id).map(|property| on.without(property))
    })
}

impl Checker {
    /// Creates a checker for a run of `setup`, in which flows that do not specify a controller use
    /// the one called `controller`. Without `is_checking`, it only records how small windows
    /// became.
    ///
    /// # Errors
    /// Returns an error if the setup turns off a property that does not exist.
    pub fn new(
        setup: &Setup,
        controller: &str,
        is_checking: bool,
    ) -> Result<Self, UnknownProperty> {
        let on = properties(setup)?;
        let watched = |index, side| {
            let watch = Watch::new(side, EndpointConfig::of(setup, index, side, controller), on);
            WatchedEnd { watch, lowest: None }
        };
        let flows = (0..setup.flows.len()).map(|index| Side::BOTH.map(|side| watched(index, side)));
        Ok(Self(Arc::new(Mutex::new(State {
            is_checking,
            flows: flows.collect(),
            history: History::default(),
            violation: None,
            goes_on: false,
            is_spinning: false,
        }))))
    }

    /// Lets the run continue after a violation, unless the run would then never end.
    pub fn go_on(&self) {
        self.state().goes_on = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an observer for the connection at `end`.
    pub fn observer(&self, end: EndId) -> Box<dyn Observer> {
        Box::new(EndObserver { end, checker: self.clone() })
    }

    /// Records that a datagram of `size` bytes to `to` with the ECN codepoint `ecn` was submitted
    /// to the network.
    pub fn on_submitted(&self, now: Timestamp, from: EndId, to: SocketAddr, ecn: Ecn, size: usize) {
        let mut state = self.state();
        let watch = &mut state.end_mut(from).watch;
        let verdict = watch.on_submitted(to, ecn, size as u64);
        if watch.has_other_connection() {
            // It is unknown which of the server's connections the client's packets reach.
            let client = EndId { side: Side::Client, ..from };
            state.end_mut(client).watch.on_peer_unknown();
        }
        state.judge(now, from, verdict);
    }

    /// Records that an endpoint submitted `datagram` to the network from this socket.
    pub fn on_path_used(
        &self,
        now: Timestamp,
        from: EndId,
        socket: u32,
        to: SocketAddr,
        datagram: &[u8],
    ) {
        let mut state = self.state();
        let verdict = state.end_mut(from).watch.on_path_used(socket, to, datagram);
        state.judge(now, from, verdict);
    }

    /// Records that the network delivered `datagram`, which came from `from`, with the ECN
    /// codepoint `ecn`.
    pub fn on_delivered(&self, to: EndId, from: SocketAddr, ecn: Ecn, datagram: &[u8]) {
        let mut state = self.state();
        state.end_mut(to).watch.records.marks.on_delivered(ecn);
        state.end_mut(to).watch.records.resets.on_delivered(datagram);
        state.end_mut(to).watch.records.connection_ids.on_received(from, datagram);
        if to.side == Side::Client {
            return;
        }
        state.end_mut(to).watch.on_delivered(from, datagram);
    }

    /// Checks an endpoint that has no more work to do at this time. Its application has written
    /// `written` bytes of content so far. Returns whether the run is over because a property was
    /// violated.
    pub fn on_settled(
        &self,
        now: Timestamp,
        end: EndId,
        deadline: Option<Timestamp>,
        written: u64,
    ) -> bool {
        let mut state = self.state();
        let verdict = state.end_mut(end).watch.on_settled(now, deadline, written);
        state.judge(now, end, verdict);
        state.is_spinning || (state.violation.is_some() && !state.goes_on)
    }

    /// Handles a stalled simulation: no more events will occur, although some flows are unfinished.
    pub fn on_standstill(&self, now: Timestamp) {
        let mut state = self.state();
        let unfinished = state
            .flows
            .iter()
            .position(|ends| ends.iter().any(|watched| !watched.watch.records.stage.is_closed));
        let end = EndId { flow: unfinished.unwrap_or(0), side: Side::Server };
        if state.end_mut(end).watch.is_on(Property::L9) {
            let explanation = "no more events are scheduled, but some transfers are not complete";
            let failure = Failure::new(Property::L9, explanation.to_owned());
            state.judge(now, end, Err(failure));
        }
    }

    /// Returns whether a property was violated.
    pub fn is_violated(&self) -> bool {
        self.state().violation.is_some()
    }

    /// Returns the first violation, if there was one.
    pub fn violation(&self) -> Option<Violation> {
        self.state().violation.clone()
    }

    /// Returns the number of CUBIC congestion avoidance phases that S24 has checked for several
    /// rounds.
    #[cfg(test)]
    pub(crate) fn stages_judged(&self) -> u64 {
        self.state().flows.iter().flatten().map(|watched| watched.watch.stages_judged()).sum()
    }

    /// Returns whether the congestion window of the sender at `end` reached its controller's
    /// minimum.
    pub fn reached_floor(&self, end: EndId) -> bool {
        let lowest = self.state().end_mut(end).lowest;
        lowest.is_some_and(|(window, minimum)| window <= minimum)
    }
}

impl State {
    fn end_mut(&mut self, end: EndId) -> &mut WatchedEnd {
        &mut self.flows[end.flow][end.side as usize]
    }

    /// Keeps the first violation and ignores later ones.
    fn judge(&mut self, now: Timestamp, end: EndId, verdict: Result<(), Failure>) {
        let Err(Failure { property, explanation }) = verdict else { return };
        self.is_spinning |= property == Property::S13;
        if self.violation.is_none() {
            let last_events = self.history.tell();
            let property = property.id();
            self.violation = Some(Violation { property, at: now, end, explanation, last_events });
        }
    }

    fn observe(&mut self, now: Timestamp, end: EndId, observation: &Observation<'_>) {
        let verdict = match observation {
            Observation::PacketSent(packet) => self.on_sent(now, end, packet),
            Observation::PacketReceived(packet) => self.on_received(now, end, packet),
            Observation::PacketLost(lost) => {
                let (space, number) = (lost.space, lost.number.get());
                self.history.note(now, end, Happening::Lost { space, number });
                self.end_mut(end).watch.on_lost(now, lost)
            }
            Observation::Metrics(metrics) => self.on_metrics(now, end, metrics),
            Observation::SendLimitUpdated { new, .. } => {
                self.history.note(now, end, Happening::Limit(*new));
                self.end_mut(end).watch.on_limit(now, *new);
                Ok(())
            }
            Observation::TimerUpdated { timer: TimerKind::Pacing, change } => {
                self.on_pacing(now, end, *change)
            }
            Observation::TimerUpdated { .. } => Ok(()),
            _ => self.observe_life(now, end, observation),
        };
        self.judge(now, end, verdict);
    }

    /// Processes the rare observations, which occur a few times per connection.
    fn observe_life(
        &mut self,
        now: Timestamp,
        end: EndId,
        observation: &Observation<'_>,
    ) -> Result<(), Failure> {
        let watch = &mut self.flows[end.flow][end.side as usize].watch;
        match observation {
            Observation::Started { remote, .. } => watch.on_started(now, *remote),
            Observation::StateUpdated(state) => watch.on_state(now, *state),
            Observation::ParametersSet { owner, parameters } => {
                let own = match end.side {
                    Side::Client => clearway_transport::Side::Client,
                    Side::Server => clearway_transport::Side::Server,
                };
                if *owner != own {
                    watch.records.streams.set_parameters(own, parameters);
                    watch.records.peer_acks = PeerAcks::of(parameters);
                    if let Some(token) = &parameters.stateless_reset_token {
                        watch.records.resets.on_token(token.as_bytes());
                    }
                }
            }
            Observation::ParametersRestored(parameters) => {
                watch.records.streams.set_parameters(clearway_transport::Side::Client, parameters);
            }
            Observation::EarlyDataRejected => {
                self.history.note(now, end, Happening::EarlyDataRejected);
                watch.on_early_data_rejected(now);
            }
            // A client that knows the server's supported versions has received a Version
            // Negotiation packet.
            Observation::VersionInformation { client, server, chosen: Some(_) }
                if !client.is_empty() && !server.is_empty() =>
            {
                self.history.note(now, end, Happening::BegunAgain);
                watch.on_begun_again(now);
            }
            Observation::KeyDiscarded(space) => {
                self.history.note(now, end, Happening::Discarded(*space));
                watch.on_discarded(now, *space);
            }
            Observation::PathUpdated { socket, remote, is_validated, is_new_path } => {
                if *is_new_path {
                    self.history.note(now, end, Happening::Path);
                    watch.on_new_path(now);
                }
                return watch.on_moved(now, (socket.0, *remote), *is_validated);
            }
            Observation::EcnStateUpdated { new: EcnState::Failed(_), .. } => {
                return watch.on_ecn_given_up();
            }
            Observation::PacketBuffered { .. } => watch.records.marks.on_waiting(),
            Observation::MtuUpdated { new, .. } => return watch.on_mtu(now, *new),
            Observation::Closed(error) => {
                self.history.note(now, end, Happening::Closed);
                watch.records.stage.is_closed = true;
                if matches!(error, ConnectionError::Reset) {
                    return watch.on_reset();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_sent(
        &mut self,
        now: Timestamp,
        end: EndId,
        packet: &PacketObservation<'_>,
    ) -> Result<(), Failure> {
        let verdict = self.end_mut(end).watch.on_sent(now, packet);
        let (number, size) = (packet.number.get(), packet.size as u32);
        let (space, is_probe) = (space_of(packet.packet_type), packet.is_probe);
        let elicits = *verdict.as_ref().unwrap_or(&true);
        self.history.note(now, end, Happening::Sent { space, number, size, is_probe, elicits });
        verdict.map(drop)
    }

    fn on_received(
        &mut self,
        now: Timestamp,
        end: EndId,
        packet: &PacketObservation<'_>,
    ) -> Result<(), Failure> {
        let (number, size) = (packet.number.get(), packet.size as u32);
        let space = space_of(packet.packet_type);
        self.history.note(now, end, Happening::Received { space, number, size });
        let [client, server] = &mut self.flows[end.flow];
        let (own, peer) =
            if end.side == Side::Client { (client, server) } else { (server, client) };
        let arrival = peer.watch.records.ledger.arrive(space, number, now);
        let acknowledged = own.watch.on_received(now, packet, arrival)?;
        if let Some((first, last)) = acknowledged.ranges {
            let space = acknowledged.space;
            self.history.note(now, end, Happening::Acked { space, first, last });
        }
        Ok(())
    }

    fn on_metrics(&mut self, now: Timestamp, end: EndId, metrics: &Metrics) -> Result<(), Failure> {
        let watched = self.end_mut(end);
        watched.note_window(metrics);
        let before =
            watched.watch.records.metrics.map(|before| {
                (before.congestion.window, before.congestion.phase, before.pto_count)
            });
        let verdict = watched.watch.on_metrics(now, metrics);
        let congestion = &metrics.congestion;
        let (window, phase) = (congestion.window, congestion.phase);
        if before.is_none_or(|(_, _, count)| count < metrics.pto_count) && metrics.pto_count > 0 {
            self.history.note(now, end, Happening::ProbeTimeout(metrics.pto_count));
        }
        if verdict.is_err() || before.is_none_or(|(w, p, _)| (w, p) != (window, phase)) {
            let threshold = congestion.slow_start_threshold;
            let (in_flight, phase) = (metrics.bytes_in_flight, phase.name());
            let figures = Happening::Figures { window, threshold, in_flight, phase };
            self.history.note(now, end, figures);
        }
        verdict
    }

    fn on_pacing(
        &mut self,
        now: Timestamp,
        end: EndId,
        change: TimerChange,
    ) -> Result<(), Failure> {
        if let TimerChange::Paced(release) = change {
            let until = Happening::PacedUntil(release.deadline());
            self.history.note(now, end, until);
        }
        self.end_mut(end).watch.on_pacing(now, change)
    }
}

impl WatchedEnd {
    fn note_window(&mut self, metrics: &Metrics) {
        let seen = (metrics.congestion.window, metrics.congestion.minimum_window);
        self.lowest = Some(self.lowest.map_or(seen, |lowest| lowest.min(seen)));
    }
}

struct EndObserver {
    end: EndId,
    checker: Checker,
}

impl Observer for EndObserver {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Observation::TimerUpdated { timer, .. } = observation
            && *timer != TimerKind::Pacing
        {
            return;
        }
        let mut state = self.checker.state();
        if state.is_checking {
            state.observe(now, self.end, observation);
        } else if let Observation::Metrics(metrics) = observation {
            state.end_mut(self.end).note_window(metrics);
        }
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
