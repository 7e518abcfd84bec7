//! The simulation: several pairs of endpoints, one network and one clock.
//!
//! Time jumps from one point at which something happens to the next. At each point, all datagrams
//! that the network delivers are passed on first, just as a real endpoint receives a batch. Then
//! every endpoint that has received something or whose deadline has been reached acts until it has
//! nothing more to send. A setup can make the endpoints act more often ([`Acting`]).

mod host;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use clearway_network::{Datagram, Delivery, Ecn, FlowCounters, Link, Moment, Way};
use clearway_units::Timestamp;

use crate::application::{Application, Progress};
use crate::checker::Checker;
use crate::digest::Digest;
use crate::end::{EndId, Side};
use crate::samples::{Queueing, Sample, Sampler};
use crate::setup::{Acting, HostChange, Migration, MigrationTarget};
use crate::stack::{LocalAddress, Stack, Vitals};

use host::{Host, HostState, REPLACED};

/// A stack together with its application.
pub struct End {
    stack: Box<dyn Stack>,
    application: Box<dyn Application>,
    /// The time at which the endpoint has to act next.
    deadline: Option<Timestamp>,
    is_touched: bool,
    /// Whether an observer sees the endpoint's congestion window.
    is_observed: bool,
    /// Whether the congestion window has ever been at its controller's minimum, as reported by a
    /// stack without an observer.
    reached_floor: bool,
    /// The future points at which the endpoint updates its keys.
    key_updates: Vec<Moment>,
    /// The migrations that have not begun yet.
    migrations: VecDeque<Migration>,
    /// For each socket of the endpoint, whether it has an IP address other than the first.
    sockets: Vec<bool>,
    /// The changes to the endpoint's host.
    host: Host,
}

impl End {
    /// Creates an endpoint in its initial state. If an observer sees its congestion window, the
    /// stack is not polled for it.
    pub fn new(
        stack: Box<dyn Stack>,
        application: Box<dyn Application>,
        is_observed: bool,
    ) -> Self {
        let (deadline, is_touched, reached_floor) = (None, true, false);
        Self {
            stack,
            application,
            deadline,
            is_touched,
            is_observed,
            reached_floor,
            key_updates: Vec::new(),
            migrations: VecDeque::new(),
            sockets: vec![false],
            host: Host::default(),
        }
    }

    /// Sets the points at which the endpoint updates its keys.
    pub fn with_key_updates(self, key_updates: Vec<Moment>) -> Self {
        Self { key_updates, ..self }
    }

    /// Sets the migrations that the endpoint requests, in this order.
    pub fn with_migrations(self, migrations: Vec<Migration>) -> Self {
        Self { migrations: migrations.into(), ..self }
    }

    /// Sets the changes to the endpoint's host.
    pub fn with_host_changes(self, changes: &[HostChange]) -> Self {
        Self { host: Host::new(changes), ..self }
    }

    /// Records the changes to the endpoint's host.
    fn note_host(&mut self, now: Timestamp, link: &Link, flow: usize) {
        let Some(first) = link.first_entry() else { return };
        let Self { host, migrations, .. } = self;
        host.note(now, link, |at| {
            let at = Moment::After(at.saturating_since(first));
            migrations.push_back(Migration { at, to: MigrationTarget::Address });
        });
        let other = client_address(flow, 0, 0, (REPLACED as usize, true)).ip();
        self.stack.set_kernel(host.state(now).kernel(other));
    }

    /// Begins the next migration, if it is due and the connection can migrate.
    fn migrate(&mut self, now: Timestamp, link: &Link, flow: usize) {
        let Some(next) = self.migrations.front() else { return };
        if time_of(next.at, link).is_none_or(|at| now < at) {
            return;
        }
        let (socket, is_other_ip) = match next.to {
            MigrationTarget::Back => (0, false),
            MigrationTarget::Port => (self.sockets.len(), false),
            MigrationTarget::Address => (self.sockets.len(), true),
        };
        let ip = Some(client_address(flow, 0, 0, (socket, is_other_ip)).ip());
        if self.stack.migrate(now, LocalAddress { socket: socket as u32, ip }) {
            self.migrations.pop_front();
            if socket > 0 {
                self.sockets.push(is_other_ip);
            }
        }
    }

    /// Returns whether a migration could begin now.
    fn migration_is_due(&self, now: Timestamp, link: &Link) -> bool {
        let due = self.migrations.front().and_then(|next| time_of(next.at, link));
        due.is_some_and(|at| at == now)
    }

    /// Returns the time of the next migration, if it is known and in the future.
    fn next_migration(&self, now: Timestamp, link: &Link) -> Option<Timestamp> {
        let next = self.migrations.front()?;
        time_of(next.at, link).filter(|at| now < *at)
    }

    /// Starts the key updates that are due.
    fn update_keys(&mut self, now: Timestamp, link: &Link) {
        let before = self.key_updates.len();
        self.key_updates.retain(|moment| time_of(*moment, link).is_none_or(|at| now < at));
        if self.key_updates.len() < before {
            self.stack.update_keys(now);
            self.is_touched = true;
        }
    }

    /// Returns the time of the next key update, if it is known.
    fn next_key_update(&self, link: &Link) -> Option<Timestamp> {
        self.key_updates.iter().filter_map(|moment| time_of(*moment, link)).min()
    }

    fn note_floor(&mut self) {
        if self.is_observed || self.reached_floor {
            return;
        }
        let Vitals { window, minimum_window, .. } = self.stack.vitals();
        self.reached_floor |= minimum_window > 0 && window <= minimum_window;
    }

    /// Returns whether a client has completed all of its traffic.
    fn is_finished(&self) -> bool {
        self.application.progress().finished_at.is_some()
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.is_touched || self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Creates the client and the server of a flow when the flow begins; the argument is the server's
/// address.
pub type CreateEnds = Box<dyn FnOnce(Timestamp, SocketAddr) -> Result<[End; 2], String>>;

/// A flow that has not begun yet.
pub struct FlowPlan {
    /// The start time of the flow.
    pub start: Timestamp,
    /// Creates the flow's endpoints.
    pub create: CreateEnds,
    /// Whether the run may end before this flow has finished.
    pub is_optional: bool,
}

struct Flow {
    start: Timestamp,
    create: Option<CreateEnds>,
    ends: Option<[End; 2]>,
    /// The client's addresses from which datagrams have arrived, each with the generation of its
    /// NAT mapping and the client's socket.
    places: Vec<(SocketAddr, u64, u32)>,
    is_optional: bool,
}

impl Flow {
    /// Returns the address that the server sees for one of the client's sockets behind a NAT
    /// mapping.
    fn client_at(&mut self, index: usize, binding: u64, socket: u32, link: &Link) -> SocketAddr {
        let known = self.places.iter().find(|(_, of, from)| (*of, *from) == (binding, socket));
        if let Some((address, ..)) = known {
            return *address;
        }
        let place = self.socket(socket);
        let address = client_address(index, binding, link.addresses(binding), place);
        self.places.push((address, binding, socket));
        address
    }

    /// Returns the client's own address for one of its sockets.
    fn local_address(&self, index: usize, socket: u32) -> LocalAddress {
        let ip = client_address(index, 0, 0, self.socket(socket)).ip();
        LocalAddress { socket, ip: Some(ip) }
    }

    fn socket(&self, socket: u32) -> (usize, bool) {
        let sockets = self.ends.as_ref().map(|[client, _]| client.sockets.as_slice());
        let number = socket as usize;
        if socket == REPLACED {
            return (number, true);
        }
        (number, sockets.and_then(|sockets| sockets.get(number)).copied().unwrap_or_default())
    }
}

/// The reason why a simulation stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// All required flows have finished.
    Finished,
    /// The time limit was reached.
    TimeUp,
    /// No more events are scheduled, although flows are unfinished.
    Standstill,
    /// A connection or a transfer failed.
    Failed {
        /// The endpoint at which it failed.
        end: EndId,
        /// The error.
        why: String,
    },
    /// The checker detected a violated property.
    Violated,
    /// The simulation itself failed, for example by a panic.
    Broken(String),
}

impl core::fmt::Display for Stop {
    /// Describes the end of the run as a predicate, such as "finished".
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Finished => formatter.write_str("finished"),
            Self::TimeUp => formatter.write_str("did not finish within its time limit"),
            Self::Standstill => formatter.write_str("stopped: no more events were scheduled"),
            Self::Failed { end, why } => {
                write!(formatter, "failed at the {} of flow {}: {why}", end.side.name(), end.flow)
            }
            Self::Violated => formatter.write_str("violated a property"),
            Self::Broken(why) => write!(formatter, "stopped because the simulation failed: {why}"),
        }
    }
}

/// The simulation.
pub struct World {
    now: Timestamp,
    link: Link,
    flows: Vec<Flow>,
    checker: Option<Checker>,
    digest: Option<Digest>,
    sampler: Option<Sampler>,
    /// Endpoints that have to act now.
    due: Vec<EndId>,
    acting: Acting,
}

const SERVER_PORT: u16 = 443;
/// The port of the server's preferred address.
const PREFERRED_PORT: u16 = 8443;
const CLIENT_PORT: u16 = 50_000;
/// The client socket with which a connection begins.
const FIRST: (usize, bool) = (0, false);
const HOSTS_OF_A_SOCKET: u64 = 13;
const PORTS_OF_A_SOCKET: u16 = 1000;

/// Returns the path ID of a datagram inside the network, which encodes its flow and the sockets of
/// client and server. The network's own settings for flows apply to the path with which a flow
/// begins.
fn path(flow: usize, client: u32, server: u32) -> u32 {
    flow as u32 | client << 24 | server << 28
}

/// Returns the flow of a path, and the sockets of client and server.
fn ends_of(path: u32) -> (usize, u32, u32) {
    ((path & 0xff_ffff) as usize, path >> 24 & 0xf, path >> 28)
}

fn address(flow: usize, host: u8, port: u16) -> SocketAddr {
    let [high, low] = (flow as u16).to_be_bytes();
    SocketAddr::new(Ipv4Addr::new(10, high, low, host).into(), port)
}

/// Returns the client's address after its NAT mapping has changed `binding` times, and the IP
/// address `hosts` times, for one of its sockets. The socket is given by its number and by whether
/// it has an IP address other than the first.
fn client_address(
    flow: usize,
    binding: u64,
    hosts: u64,
    (socket, is_other_ip): (usize, bool),
) -> SocketAddr {
    let socket = socket as u64 % 16;
    let moved = if is_other_ip { HOSTS_OF_A_SOCKET * socket } else { 0 };
    let host = 2 + ((hosts + moved) % 250) as u8;
    let port = CLIENT_PORT - PORTS_OF_A_SOCKET * socket as u16;
    address(flow, host, port + (binding % 10_000) as u16)
}

/// Returns the preferred address that a server announces to the client of a flow.
pub fn preferred_address(flow: usize) -> SocketAddrV4 {
    let [high, low] = (flow as u16).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(10, high, low, 1), PREFERRED_PORT)
}

impl World {
    /// Creates a simulation in its initial state.
    pub fn new(
        link: Link,
        flows: Vec<FlowPlan>,
        checker: Option<Checker>,
        digest: Option<Digest>,
    ) -> Self {
        let flows = flows.into_iter().enumerate().map(|(index, plan)| Flow {
            start: plan.start,
            create: Some(plan.create),
            ends: None,
            places: vec![(client_address(index, 0, 0, FIRST), 0, 0)],
            is_optional: plan.is_optional,
        });
        Self {
            now: Timestamp::ORIGIN,
            link,
            flows: flows.collect(),
            checker,
            digest,
            sampler: None,
            due: Vec::new(),
            acting: Acting::default(),
        }
    }

    /// Sets when endpoints act on arriving datagrams.
    pub fn set_acting(&mut self, acting: Acting) {
        self.acting = acting;
    }

    /// Enables sampling of the progress of all flows every `interval`.
    pub fn sample_every(&mut self, interval: Duration) {
        self.sampler = Some(Sampler::new(interval));
    }

    /// Removes and returns the samples, and stops sampling.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.sampler.take().map_or_else(Vec::new, Sampler::into_samples)
    }

    /// Simulates until every flow has finished, something fails, or `limit` is reached.
    pub fn run(&mut self, limit: Timestamp) -> Stop {
        loop {
            if let Some(stop) = self.act().or_else(|| self.update_keys()) {
                return stop;
            }
            match self.next_moment() {
                None => return self.stand_still(),
                Some(next) if next > limit => {
                    self.sample(limit);
                    self.now = limit;
                    return Stop::TimeUp;
                }
                Some(next) => {
                    self.sample(next);
                    self.now = self.now.max(next);
                }
            }
            while let Some(delivery) = self.link.poll(self.now) {
                self.deliver(delivery);
                if self.acting == Acting::OnEach
                    && let Some(stop) = self.act()
                {
                    return stop;
                }
            }
        }
    }

    fn stand_still(&self) -> Stop {
        let Some(checker) = &self.checker else { return Stop::Standstill };
        checker.on_standstill(self.now);
        if checker.is_violated() { Stop::Violated } else { Stop::Standstill }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the network.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the progress of an endpoint; `None` before its flow began.
    pub fn progress(&self, end: EndId) -> Option<&Progress> {
        self.end(end).map(|end| end.application.progress())
    }

    /// Returns the metrics that an endpoint reports about itself; `None` before its flow began.
    pub fn vitals(&self, end: EndId) -> Option<Vitals> {
        self.end(end).map(|end| end.stack.vitals())
    }

    /// Returns whether an endpoint's congestion window, as reported by its stack, has ever been at
    /// its controller's minimum. Always `false` for endpoints with an observer.
    pub fn reached_floor(&self, end: EndId) -> bool {
        self.end(end).is_some_and(|end| end.reached_floor)
    }

    /// Returns the digest of every datagram that was sent, if one is computed.
    pub fn digest(&self) -> Option<String> {
        self.digest.as_ref().map(Digest::value)
    }

    fn end(&self, id: EndId) -> Option<&End> {
        let [client, server] = self.flows.get(id.flow)?.ends.as_ref()?;
        Some(if id.side == Side::Client { client } else { server })
    }

    fn end_mut(&mut self, id: EndId) -> Option<&mut End> {
        let [client, server] = self.flows.get_mut(id.flow)?.ends.as_mut()?;
        Some(if id.side == Side::Client { client } else { server })
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let starts = self.flows.iter().filter(|flow| flow.create.is_some()).map(|flow| flow.start);
        let ends = self.flows.iter().filter_map(|flow| flow.ends.as_ref()).flatten();
        let wakes = |end: &End| {
            let planned = end.next_key_update(&self.link).into_iter();
            let planned = planned.chain(end.next_migration(self.now, &self.link));
            let planned = planned.chain(end.host.next_change(&self.link));
            end.deadline.into_iter().chain(planned).min()
        };
        starts.chain(ends.filter_map(wakes)).chain(self.link.deadline()).min()
    }

    /// Starts the key updates that are due, and lets the endpoints act on them.
    fn update_keys(&mut self) -> Option<Stop> {
        let Self { now, link, flows, .. } = self;
        let ends = flows.iter_mut().filter_map(|flow| flow.ends.as_mut()).flatten();
        let is_any = ends.fold(false, |is_any, end| {
            end.update_keys(*now, link);
            end.is_touched |= end.migration_is_due(*now, link);
            is_any || end.is_touched
        });
        is_any.then(|| self.act()).flatten()
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { way, datagram, binding, .. } = delivery;
        let Datagram { mut payload, ecn, flow } = datagram;
        let (index, client_socket, server_socket) = ends_of(flow);
        let Some(flow) = self.flows.get_mut(index) else { return };
        let server_port = if server_socket == 0 { SERVER_PORT } else { PREFERRED_PORT };
        let server = address(index, 1, server_port);
        let (from, at) = match way {
            Way::ToServer => {
                let from = flow.client_at(index, binding, client_socket, &self.link);
                (from, LocalAddress { socket: server_socket, ip: Some(server.ip()) })
            }
            Way::ToClient => {
                let client = flow.ends.as_ref().map(|[client, _]| client.host.state(self.now));
                let receiver = client.and_then(|host| host.receiver(client_socket));
                let Some(socket) = receiver else { return };
                (server, LocalAddress { socket, ..flow.local_address(index, client_socket) })
            }
        };
        let (now, side) = (self.now, Side::receiver(way));
        if let Some(checker) = &self.checker {
            checker.on_delivered(EndId { flow: index, side }, from, ecn, &payload);
        }
        if let Some(end) = self.end_mut(EndId { flow: index, side }) {
            end.stack.receive(now, from, at, ecn, &mut payload);
            end.is_touched = true;
        }
        self.link.recycle(payload);
    }

    /// Begins the flows that are due, and lets every endpoint act that has received something or
    /// whose deadline has been reached.
    fn act(&mut self) -> Option<Stop> {
        let now = self.now;
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            if let Some([client, _]) = &mut flow.ends {
                client.note_host(now, &self.link, index);
            }
            if let Some(create) = flow.create.take_if(|_| flow.start <= now) {
                match create(now, address(index, 1, SERVER_PORT)) {
                    Ok(ends) => flow.ends = Some(ends),
                    Err(why) => {
                        let end = EndId { flow: index, side: Side::Client };
                        return Some(Stop::Failed { end, why });
                    }
                }
            }
        }
        let mut due = core::mem::take(&mut self.due);
        for flow in 0..self.flows.len() {
            for side in Side::BOTH {
                let id = EndId { flow, side };
                if self.end(id).is_some_and(|end| end.is_due(now)) {
                    due.push(id);
                }
            }
        }
        let stop = due.drain(..).find_map(|id| self.act_one(id));
        self.due = due;
        stop.or_else(|| self.is_finished().then_some(Stop::Finished))
    }

    /// Lets one endpoint do everything that it can do now.
    fn act_one(&mut self, id: EndId) -> Option<Stop> {
        let Self { now, link, flows, checker, digest, .. } = self;
        let now = *now;
        let flow = flows.get_mut(id.flow)?;
        let [client, server] = flow.ends.as_mut()?;
        client.note_host(now, link, id.flow);
        let host = client.host.state(now);
        let end = if id.side == Side::Client { &mut *client } else { server };
        end.is_touched = false;
        // The stack's own deadline may have moved to a later time; in that case the call has no
        // effect.
        if end.deadline.is_some_and(|deadline| deadline <= now) {
            end.stack.on_deadline(now);
        }
        end.application.run(now, &mut *end.stack);
        end.migrate(now, link, id.flow);
        let places = &flow.places;
        end.stack.transmit(now, &mut |socket, to, ecn, payload| {
            if let Some(digest) = digest {
                digest.add(now, id, to, payload);
            }
            if let Some(checker) = checker {
                checker.on_submitted(now, id, to, ecn, payload.len());
                let socket = if id.side == Side::Client { host.number_of(socket) } else { socket };
                checker.on_path_used(now, id, socket, to, payload);
            }
            let mut bytes = link.buffer();
            bytes.extend_from_slice(payload);
            submit(link, now, (id, socket), (places, host), to, (bytes, ecn));
        });
        end.note_floor();
        let deadline = end.stack.deadline();
        end.deadline = deadline.into_iter().chain(end.application.deadline()).min();
        let written = end.application.progress().written;
        let is_over = checker.as_ref().is_some_and(|it| it.on_settled(now, id, deadline, written));
        let failure = end.application.progress().failure.clone();
        // Failures do not matter after the client has finished.
        if let Some(why) = failure.filter(|_| !client.is_finished()) {
            return Some(Stop::Failed { end: id, why });
        }
        is_over.then_some(Stop::Violated)
    }

    /// Takes the samples that are due before `until`.
    fn sample(&mut self, until: Timestamp) {
        let Some(mut sampler) = self.sampler.take() else { return };
        let received = |flow| {
            let of = |side| self.progress(EndId { flow, side }).map_or(0, |it| it.received);
            of(Side::Client) + of(Side::Server)
        };
        sampler.advance(until, |at| Sample {
            at,
            received: (0..self.flows.len()).map(received).collect(),
            datagrams: [Way::ToServer, Way::ToClient]
                .map(|way| self.link.counters().of(way).received),
            to_server: queueing(&self.link, Way::ToServer),
            to_client: queueing(&self.link, Way::ToClient),
        });
        self.sampler = Some(sampler);
    }

    fn is_finished(&self) -> bool {
        self.flows
            .iter()
            .filter(|flow| !flow.is_optional)
            .all(|flow| flow.ends.as_ref().is_some_and(|[client, _]| client.is_finished()))
    }
}

/// Returns the time of `moment`, if it is known. The time of a datagram is known only once the
/// datagram has been sent.
fn time_of(moment: Moment, link: &Link) -> Option<Timestamp> {
    match moment {
        Moment::After(after) => link.first_entry().map(|first| first + after),
        Moment::Datagram { way, number } => {
            (link.counters().of(way).received >= number).then_some(Timestamp::ORIGIN)
        }
    }
}

fn queueing(link: &Link, way: Way) -> Queueing {
    let add = |sum: Queueing, (_, flow): (u32, &FlowCounters)| Queueing {
        datagrams: sum.datagrams + flow.queued,
        waited: sum.waited.saturating_add(flow.queueing_delay_total),
    };
    link.flows(way).fold(Queueing::default(), add)
}

/// Sends a datagram into the network, from a socket of an endpoint. A datagram to an address that
/// the client never had is dropped.
fn submit(
    link: &mut Link,
    now: Timestamp,
    (from, socket): (EndId, u32),
    (places, host): (&[(SocketAddr, u64, u32)], HostState),
    to: SocketAddr,
    (payload, ecn): (Vec<u8>, Ecn),
) {
    let size = payload.len();
    let datagram = |flow| Datagram { payload, ecn, flow };
    match from.side {
        Side::Client => {
            let socket = host.number_of(socket);
            if !host.passes(socket, size) {
                return;
            }
            let server = u32::from(to.port() == PREFERRED_PORT);
            link.submit(now, Way::ToServer, datagram(path(from.flow, socket, server)));
        }
        Side::Server => {
            let place = places.iter().find(|(address, ..)| *address == to);
            if let Some((_, binding, client)) = place
                && host.passes(*client, size)
            {
                let datagram = datagram(path(from.flow, *client, socket));
                link.submit_to_client(now, *binding, datagram);
            }
        }
    }
}
