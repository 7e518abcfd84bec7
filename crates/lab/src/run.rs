//! A run: simulates a setup with a controller and a seed.

use core::time::Duration;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use clearway_congestion::{Algorithm, ControllerFactory, UnknownAlgorithm};
use clearway_network::{Link, LinkConfig};
use clearway_transport::{InvalidSetting, Observer, TransportConfig, TransportConfigBuilder};
use clearway_units::{Random, Timestamp};
use clearway_wire::Version;

use crate::application::{Client, Server};
use crate::checker::{Checker, UnknownProperty, Violation};
use crate::digest::Digest;
use crate::end::{EndId, Side};
use crate::samples::Sample;
use crate::setup::{EndSetup, Flow, SessionKind, Setup, StackKind, TlsSetup};
#[cfg(feature = "quinn")]
use crate::stack::QuinnStack;
use crate::stack::{ClearwayStack, ResumedTls, Stack, Vitals};
use crate::world::{End, FlowPlan, Stop, World, preferred_address};

/// Creates an observer for an endpoint; returns `None` if the endpoint is not observed.
pub type MakeObserver = Box<dyn Fn(EndId) -> Option<Box<dyn Observer>>>;

/// Optional outputs and checks of a run.
#[derive(Default)]
pub struct Extras {
    /// Whether to compute a digest of all datagrams.
    pub digest: bool,
    /// Whether to check the properties.
    pub check: bool,
    /// Whether the run continues after a violation, so that the log shows what follows. A violation
    /// that stops time from advancing still ends the run.
    pub goes_on: bool,
    /// The interval at which the bytes that the flows have received are sampled; `None` takes no samples.
    pub sample_every: Option<Duration>,
    /// Creates additional observers, such as one that writes a log file.
    pub observers: Option<MakeObserver>,
}

/// The outcome of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowOutcome {
    /// The name of the flow in reports.
    pub name: String,
    /// The controller of the flow.
    pub controller: String,
    /// The time from the beginning of the flow until its client had received everything; `None` if
    /// it did not finish.
    pub took: Option<Duration>,
    /// The time from the beginning of the flow until its first byte of content arrived.
    pub first_byte: Option<Duration>,
    /// Bytes of content that the receiving endpoint has received.
    pub received: u64,
    /// Whether the sender's congestion window fell to its controller's minimum.
    pub reached_floor: bool,
    /// The sender's metrics at the end of the run.
    pub sender: Vitals,
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The reason why the run stopped.
    pub stop: Stop,
    /// The virtual time at which the run stopped.
    pub at: Duration,
    /// The flows of the run.
    pub flows: Vec<FlowOutcome>,
    /// The property that was violated, if one was.
    pub violation: Option<Violation>,
    /// The digest of all datagrams and their number, if [`Extras::digest`] is set.
    pub digest: Option<String>,
    /// The bytes received by the flows at regular points in time, if [`Extras::sample_every`] is
    /// set.
    pub samples: Vec<Sample>,
    /// The network's counters.
    pub network: clearway_network::Counters,
}

impl Outcome {
    /// Creates the outcome of a run for which only the reason for stopping is known.
    pub(crate) fn stopped(stop: Stop) -> Self {
        Self {
            stop,
            at: Duration::ZERO,
            flows: Vec::new(),
            violation: None,
            digest: None,
            samples: Vec::new(),
            network: clearway_network::Counters::default(),
        }
    }

    /// Returns how long the run took until every required flow had finished; `None` if not all of
    /// them finished.
    pub fn took(&self) -> Option<Duration> {
        (self.stop == Stop::Finished).then_some(self.at)
    }

    /// Returns whether some sender's congestion window reached its controller's minimum.
    pub fn reached_floor(&self) -> bool {
        self.flows.iter().any(|flow| flow.reached_floor)
    }
}

/// The controller under test: a built-in one, found by its name, or any other.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name of the controller in reports.
    pub name: String,
    /// Creates the controller.
    pub factory: Arc<dyn ControllerFactory>,
}

impl From<Algorithm> for Candidate {
    fn from(algorithm: Algorithm) -> Self {
        Self { name: algorithm.name().to_owned(), factory: Arc::new(algorithm) }
    }
}

impl FromStr for Candidate {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        name.parse().map(|algorithm: Algorithm| algorithm.into())
    }
}

/// Simulates `setup`; flows that do not specify a controller use `candidate`. The same seed yields
/// the same run.
///
/// An endpoint with another stack uses that stack's controller of the same name. If the stack has
/// no such controller, the run fails when the flow begins ([`Stop::Failed`]).
///
/// # Errors
/// Returns an error if the setup specifies a controller or a property that does not exist.
pub fn run(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    extras: Extras,
) -> Result<Outcome, RunError> {
    let mut random = Random::from_number(seed);
    let checker = Checker::new(setup, &candidate.name, extras.check)?;
    if extras.goes_on {
        checker.go_on();
    }
    let observers = Rc::new(Observers { checker: checker.clone(), more: extras.observers });
    let plans = setup.flows.iter().enumerate().map(|(index, flow)| {
        let candidate = candidate_of(flow, candidate)?;
        Ok(plan(index, flow, setup.turns.batch, candidate, random.fork(), observers.clone()))
    });
    let plans = plans.collect::<Result<Vec<_>, UnknownAlgorithm>>()?;
    let network = LinkConfig { seed: random.number(), ..setup.network.clone() };
    let covers_bytes = setup.flows.iter().all(|flow| flow.session == SessionKind::Null);
    let digest = extras.digest.then(|| Digest::new(covers_bytes));
    let watching = extras.check.then(|| checker.clone());
    let mut world = World::new(Link::new(network), plans, watching, digest);
    world.set_acting(setup.turns.acting);
    if let Some(interval) = extras.sample_every {
        world.sample_every(interval);
    }
    let stop = world.run(Timestamp::from_origin(setup.limit));
    let flows = setup.flows.iter().enumerate();
    let flows = flows.map(|(index, flow)| outcome(&world, &checker, candidate, index, flow));
    Ok(Outcome {
        stop,
        at: world.now().since_origin(),
        flows: flows.collect(),
        violation: checker.violation(),
        digest: world.digest(),
        samples: world.take_samples(),
        network: world.link().counters().clone(),
    })
}

/// Checks that `setup` can be run with `candidate`.
///
/// # Errors
/// Returns an error if `setup` specifies a controller or a property that does not exist.
pub fn validate(setup: &Setup, candidate: &Candidate) -> Result<(), RunError> {
    Checker::new(setup, &candidate.name, true)?;
    setup.flows.iter().try_for_each(|flow| candidate_of(flow, candidate).map(drop))?;
    Ok(())
}

/// Returns the transport settings of `end`, one of the two endpoints of `flow`, in a run with
/// `candidate`.
///
/// # Errors
/// Returns an error if the flow specifies a controller that does not exist, or the endpoint has an
/// invalid setting.
pub fn transport_config(
    flow: &Flow,
    end: &EndSetup,
    candidate: &Candidate,
) -> Result<TransportConfig, RunError> {
    Ok(transport(end, &candidate_of(flow, candidate)?)?)
}

/// Returns the controller of a flow: its own if it specifies one, otherwise the candidate.
fn candidate_of(flow: &Flow, candidate: &Candidate) -> Result<Candidate, UnknownAlgorithm> {
    match &flow.controller {
        Some(name) => name.parse(),
        None => Ok(candidate.clone()),
    }
}

/// The reason why a setup cannot be run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// There is no controller with that name.
    UnknownController(UnknownAlgorithm),
    /// The setup turns off a property that does not exist.
    UnknownProperty(UnknownProperty),
    /// An endpoint has an invalid setting.
    InvalidSetting(InvalidSetting),
}

impl core::fmt::Display for RunError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownController(error) => error.fmt(formatter),
            Self::UnknownProperty(error) => error.fmt(formatter),
            Self::InvalidSetting(error) => error.fmt(formatter),
        }
    }
}

impl core::error::Error for RunError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::UnknownController(error) => Some(error),
            Self::UnknownProperty(error) => Some(error),
            Self::InvalidSetting(error) => Some(error),
        }
    }
}

impl From<UnknownAlgorithm> for RunError {
    fn from(error: UnknownAlgorithm) -> Self {
        Self::UnknownController(error)
    }
}

impl From<InvalidSetting> for RunError {
    fn from(error: InvalidSetting) -> Self {
        Self::InvalidSetting(error)
    }
}

impl From<UnknownProperty> for RunError {
    fn from(error: UnknownProperty) -> Self {
        Self::UnknownProperty(error)
    }
}

struct Observers {
    checker: Checker,
    more: Option<MakeObserver>,
}

impl Observers {
    fn observer(&self, end: EndId) -> Box<dyn Observer> {
        let checker = self.checker.observer(end);
        match self.more.as_ref().and_then(|more| more(end)) {
            Some(other) => Box::new(Both(checker, other)),
            None => checker,
        }
    }
}

/// The error reported for an endpoint that uses quinn, if this build does not include it.
#[cfg(not(feature = "quinn"))]
const NO_QUINN: &str = "this program is built without quinn (cargo feature `quinn`)";

/// Combines two observers of one connection.
struct Both(Box<dyn Observer>, Box<dyn Observer>);

impl Observer for Both {
    fn observe(&mut self, now: Timestamp, observation: &clearway_transport::Observation<'_>) {
        self.0.observe(now, observation);
        self.1.observe(now, observation);
    }
}

fn plan(
    index: usize,
    flow: &Flow,
    batch: usize,
    candidate: Candidate,
    mut random: Random,
    observers: Rc<Observers>,
) -> FlowPlan {
    let flow = flow.clone();
    let (start, is_optional) = (Timestamp::from_origin(flow.start), flow.is_optional);
    let create = move |now, server_address| {
        let failed = |error: crate::stack::LabCertificateError| error.to_string();
        let watch = |side| Some(observers.observer(EndId { flow: index, side }));
        let resuming_tls = resuming_tls(&flow, &candidate, &mut random)?;
        let client: Box<dyn Stack> = match flow.client.stack {
            StackKind::Clearway => {
                let transport = transport(&flow.client, &candidate);
                let transport = transport.map_err(|error| error.to_string())?;
                let random = random.fork();
                let observer = watch(Side::Client);
                let stack = match &resuming_tls {
                    Some(known) => known.client(now, server_address, transport, random, observer),
                    None => ClearwayStack::client(
                        now,
                        server_address,
                        flow.session,
                        transport,
                        random,
                        observer,
                    )
                    .map_err(failed)?,
                };
                Box::new(stack.with_batch(batch))
            }
            #[cfg(feature = "quinn")]
            StackKind::Quinn => {
                let (end, session) = (&flow.client, flow.session);
                let (name, random) = (&candidate.name, random.fork());
                let stack = QuinnStack::client(now, server_address, session, end, name, random);
                Box::new(stack.map_err(|error| error.to_string())?)
            }
            #[cfg(not(feature = "quinn"))]
            StackKind::Quinn => return Err(NO_QUINN.to_owned()),
        };
        let server: Box<dyn Stack> = match flow.server.stack {
            StackKind::Clearway => {
                let transport = transport(&flow.server, &candidate);
                let transport = transport.map_err(|error| error.to_string())?;
                let random = random.fork();
                let observer = watch(Side::Server);
                let preferred = flow.server.prefers_address.then(|| preferred_address(index));
                let session = flow.session;
                let stack = match &resuming_tls {
                    Some(known) => known.server(now, transport, preferred, random, observer),
                    None => {
                        ClearwayStack::server(now, session, transport, preferred, random, observer)
                            .map_err(failed)?
                    }
                };
                Box::new(stack.with_batch(batch))
            }
            #[cfg(feature = "quinn")]
            StackKind::Quinn => {
                let (end, session) = (&flow.server, flow.session);
                let (name, random) = (&candidate.name, random.fork());
                let stack = QuinnStack::server(session, end, name, random);
                Box::new(stack.map_err(|error| error.to_string())?)
            }
            #[cfg(not(feature = "quinn"))]
            StackKind::Quinn => return Err(NO_QUINN.to_owned()),
        };
        let application =
            Box::new(Client::new(now, &flow.traffic, http3(&flow.client), &mut random));
        let client = End::new(client, application, flow.client.stack.is_observable())
            .with_key_updates(flow.client.key_updates.clone())
            .with_migrations(flow.client.migrations.clone())
            .with_host_changes(&flow.client.host_changes);
        let application = Box::new(Server::new(http3(&flow.server), &mut random));
        let server = End::new(server, application, flow.server.stack.is_observable())
            .with_key_updates(flow.server.key_updates.clone());
        Ok([client, server])
    };
    FlowPlan { start, create: Box::new(create), is_optional }
}

/// Returns the TLS configuration of endpoints that resume an earlier connection; `None` if they do
/// not.
fn resuming_tls(
    flow: &Flow,
    candidate: &Candidate,
    random: &mut Random,
) -> Result<Option<ResumedTls>, String> {
    let SessionKind::Tls(setup @ TlsSetup { early_data: Some(early_data), .. }) = flow.session
    else {
        return Ok(None);
    };
    let of = |end| transport(end, candidate).map_err(|error| error.to_string());
    let transports = (of(&flow.client)?, of(&flow.server)?);
    let known = ResumedTls::new(setup, early_data, transports, random);
    known.map(Some).map_err(|error| error.to_string())
}

/// The minimum ACK delay that a peer can request from an endpoint.
const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

fn transport(end: &EndSetup, candidate: &Candidate) -> Result<TransportConfig, InvalidSetting> {
    versions(TransportConfig::builder(), end)
        .ecn(end.marks_ecn)
        .min_ack_delay(end.ack_frequency.then_some(MIN_ACK_DELAY))
        .ack_frequency(end.ack_frequency)
        .reset_stream_at(false)
        .grease_quic_bit(end.grease_quic_bit)
        .spin_bit(end.spin_bit)
        .initial_datagram_size(end.max_datagram_size.into())
        .discover_path_mtu(end.discovers_mtu)
        .ack_eliciting_threshold(end.ack_eliciting_threshold)
        .max_ack_delay(end.max_ack_delay)
        .max_idle_timeout(end.max_idle_timeout)
        .keep_alive_interval(end.keep_alive_interval)
        .handshake_timeout(end.handshake_timeout)
        .initial_rtt(end.initial_rtt)
        .packet_threshold(end.packet_threshold)
        .initial_window(end.initial_window)
        .maximum_window(end.maximum_window)
        .initial_stream_receive_window(end.initial_stream_receive_window)
        .max_stream_receive_window(end.max_stream_receive_window)
        .initial_connection_receive_window(end.initial_connection_receive_window)
        .max_connection_receive_window(end.max_connection_receive_window)
        .send_buffer(end.send_buffer)
        .controller(candidate.factory.clone())
        .build()
}

fn http3(end: &EndSetup) -> clearway_http3::Config {
    let config = clearway_http3::Config::default();
    if end.http3_extensions {
        return config;
    }
    clearway_http3::Config { prioritize: false, ..config.without_dynamic_table() }
}

fn versions(builder: TransportConfigBuilder, end: &EndSetup) -> TransportConfigBuilder {
    let builder = match &end.versions {
        Some(versions) => builder.versions(versions.iter().copied()).prefers_own_version(true),
        None => builder.versions([Version::V1]).version_information(false),
    };
    match end.first_version {
        Some(first) => builder.first_version(first),
        None => builder,
    }
}

fn outcome(
    world: &World,
    checker: &Checker,
    candidate: &Candidate,
    index: usize,
    flow: &Flow,
) -> FlowOutcome {
    let end = |side| EndId { flow: index, side };
    let (sender, receiver) = if flow.traffic.is_upload() {
        (end(Side::Client), end(Side::Server))
    } else {
        (end(Side::Server), end(Side::Client))
    };
    let start = Timestamp::from_origin(flow.start);
    let client = world.progress(end(Side::Client)).cloned().unwrap_or_default();
    let received = world.progress(receiver).cloned().unwrap_or_default();
    FlowOutcome {
        name: flow.name.clone(),
        controller: flow.controller.clone().unwrap_or_else(|| candidate.name.clone()),
        took: client.finished_at.map(|at| at.saturating_since(start)),
        first_byte: received.first_received_at.map(|at| at.saturating_since(start)),
        received: received.received,
        reached_floor: checker.reached_floor(sender) || world.reached_floor(sender),
        sender: world.vitals(sender).unwrap_or_default(),
    }
}
