//! Tests with injected kernel errors, at each system call of a transfer in turn, on either
//! endpoint. Transfers complete soon after the errors end, and datagrams that are counted as sent
//! were sent. If the errors persist, the connections end and report the reason.
//!
//! Testing all errors at all calls takes minutes:
//! `cargo test --release -p clearway-io every_error_at_every_call -- --ignored`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clearway_transport::{
    ClientConfig, Connection, ConnectionError, Event, Incoming, ReadOutcome, SendFailure,
    ServerConfig, TlsClientConfig, TransportConfig,
};
use clearway_udp::Socket;
use clearway_udp::faults::{Call, Fault, Faults, Plan};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};
use rustix::io::Errno;

use super::{endpoint_config, server_config};
use crate::acceptor::Admission;
use crate::mailbox::Mailbox;
use crate::shard::sockets::Sockets;
use crate::shard::{ShardSetup, start};
use crate::{
    Accept, Acceptor, Application, ConnectRequest, Decision, ShardFailure, ShardHandle,
    ShardStatistics,
};

/// Number of connections that the client opens simultaneously, so that the batches of several
/// connections are passed to the kernel in one call.
const CONNECTIONS: usize = 3;
/// Number of bytes that the client sends on each connection, and that the server echoes.
const LENGTH: usize = 20_000;
/// Duration of a temporary fault.
const LASTING: Duration = Duration::from_millis(300);
/// Duration of a fault that outlasts the longest pause between two attempts.
const LONG: Duration = Duration::from_secs(2);
/// Time within which a transfer must complete after the end of the fault. The longest pause between
/// two attempts is half a second; the rest is for busy machines.
const BOUND: Duration = Duration::from_secs(3);
/// Number of concurrent transfers, which mostly wait.
const TOGETHER: usize = 16;

/// The errors that Linux documents for sending a datagram (sendmsg(2), sendmmsg(2), udp(7), ip(7)),
/// and additional errors that firewalls and drivers cause.
const SEND_FAULTS: [Fault; 22] = [
    Fault::Error(Errno::AGAIN),
    Fault::Error(Errno::NOBUFS),
    Fault::Error(Errno::NOMEM),
    Fault::Error(Errno::PERM),
    Fault::Error(Errno::ACCESS),
    Fault::Error(Errno::MSGSIZE),
    Fault::Error(Errno::IO),
    Fault::Error(Errno::INVAL),
    Fault::Error(Errno::NETUNREACH),
    Fault::Error(Errno::HOSTUNREACH),
    Fault::Error(Errno::NETDOWN),
    Fault::Error(Errno::HOSTDOWN),
    Fault::Error(Errno::CONNREFUSED),
    Fault::Error(Errno::ADDRNOTAVAIL),
    Fault::Error(Errno::INTR),
    Fault::Error(Errno::OPNOTSUPP),
    Fault::Error(Errno::NOPROTOOPT),
    Fault::Error(Errno::NONET),
    Fault::Error(Errno::PROTO),
    Fault::Error(Errno::PIPE),
    Fault::AtMost(1),
    Fault::AtMost(2),
];

/// The errors that Linux documents for receiving: recvmsg(2), recvmmsg(2), udp(7). Errors after
/// which a descriptor is not used again are in [`a_socket_that_cannot_receive_ends_its_shard`].
const RECEIVE_FAULTS: [Fault; 18] = [
    Fault::Error(Errno::AGAIN),
    Fault::Error(Errno::CONNREFUSED),
    Fault::Error(Errno::HOSTUNREACH),
    Fault::Error(Errno::NETUNREACH),
    Fault::Error(Errno::ACCESS),
    Fault::Error(Errno::PERM),
    Fault::Error(Errno::INTR),
    Fault::Error(Errno::NOMEM),
    Fault::Error(Errno::NOBUFS),
    Fault::Error(Errno::IO),
    Fault::Error(Errno::NETDOWN),
    // Linux returns these after certain ICMP messages.
    Fault::Error(Errno::MSGSIZE),
    Fault::Error(Errno::NOPROTOOPT),
    Fault::Error(Errno::OPNOTSUPP),
    Fault::Error(Errno::HOSTDOWN),
    Fault::Error(Errno::NONET),
    Fault::Error(Errno::PROTO),
    Fault::AtMost(1),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Client,
    Server,
}

/// A fault to inject into one endpoint's socket.
#[derive(Clone, Copy, Debug)]
struct Case {
    end: End,
    plan: Plan,
}

/// The reason why a connection ended, or `Ok` if its transfer is complete.
type Report = Result<(), ConnectionError>;

/// Sends [`LENGTH`] bytes and receives them back.
struct Client {
    stream: Option<StreamId>,
    written: usize,
    received: Vec<u8>,
    /// The channel for the report; `None` once the client has reported.
    report: Option<Sender<Report>>,
}

impl Client {
    fn report(&mut self, report: Report) {
        if let Some(sender) = self.report.take() {
            let _ = sender.send(report);
        }
    }
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

impl Application for Client {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                self.report(Err(error));
            }
        }
        if connection.is_closed() || connection.is_handshaking() {
            return;
        }
        let open = || connection.open(Direction::Bidirectional).unwrap();
        let stream = *self.stream.get_or_insert_with(open);
        while self.written < LENGTH {
            let end = LENGTH.min(self.written + 1_000);
            let part: Vec<u8> = (self.written..end).map(byte).collect();
            let Ok(written @ 1..) = connection.write_slice(stream, &part) else { break };
            self.written += written;
            if self.written == LENGTH {
                connection.finish(stream).unwrap();
            }
        }
        loop {
            match connection.read(now, stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => self.received.extend_from_slice(&data),
                Ok(ReadOutcome::Finished) => break,
                _ => return,
            }
        }
        let is_whole = self.received.iter().copied().eq((0..LENGTH).map(byte));
        assert!(is_whole, "other bytes came back");
        self.report(Ok(()));
        connection.close(now, VarInt::ZERO, b"");
    }
}

/// Accepts every client, and echoes what it sends.
struct Echo(Sender<Report>);

impl Acceptor for Echo {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        let report = self.0.clone();
        let application = Echoing { stream: None, rest: Vec::new(), is_whole: false, report };
        Decision::Accept(Accept::new(Box::new(|_| Box::new(application))))
    }
}

struct Echoing {
    stream: Option<StreamId>,
    rest: Vec<u8>,
    is_whole: bool,
    report: Sender<Report>,
}

impl Application for Echoing {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                let _ = self.report.send(Err(error));
            }
        }
        self.stream = self.stream.or_else(|| connection.accept(Direction::Bidirectional));
        let Some(stream) = self.stream else { return };
        while let Ok(outcome) = connection.read(now, stream, usize::MAX) {
            match outcome {
                ReadOutcome::Data(data) => self.rest.extend_from_slice(&data),
                ReadOutcome::Finished => {
                    self.is_whole = true;
                    break;
                }
                _ => break,
            }
        }
        while !self.rest.is_empty() {
            let Ok(written @ 1..) = connection.write_slice(stream, &self.rest) else { return };
            self.rest.drain(..written);
        }
        if std::mem::take(&mut self.is_whole) {
            let _ = connection.finish(stream);
        }
    }
}

/// The two shards of a test.
struct Place {
    idle_timeout: Duration,
    /// The handshake timeout for the endpoint with the fault.
    handshake_timeout: Duration,
    case: Option<Case>,
}

impl Place {
    fn transport(&self, end: End) -> Arc<TransportConfig> {
        let has_fault = self.case.is_none_or(|case| case.end == end);
        // The other endpoint must not time out first.
        let timeout = self.handshake_timeout * if has_fault { 1 } else { 10 };
        let builder = TransportConfig::builder()
            .max_idle_timeout(Some(self.idle_timeout))
            .handshake_timeout(timeout);
        Arc::new(builder.build().unwrap())
    }

    fn faults(&self, end: End) -> Faults {
        Faults::planned(self.case.filter(|case| case.end == end).map(|case| case.plan))
    }

    /// Starts a shard at an address that no other test uses.
    fn shard(&self, faults: Faults, acceptor: Option<Echo>) -> ShardHandle {
        let mut socket = Socket::bind("127.0.61.1:0".parse().unwrap()).unwrap();
        socket.inject(faults);
        let config = ServerConfig { transport: self.transport(End::Server), ..server_config() };
        start(ShardSetup {
            sockets: Sockets::new(socket),
            config: endpoint_config(),
            server: acceptor.is_some().then(|| Arc::new(config)),
            acceptor: acceptor.map(|echo| Box::new(echo) as Box<dyn Acceptor>),
            admission: Admission::default(),
            mailbox: Arc::new(Mailbox::new()),
            peer_shards: None,
            predecessor: None,
            memory_budget: None,
        })
        .unwrap()
    }

    fn connect(&self, client: &ShardHandle, remote: SocketAddr, report: Sender<Report>) {
        let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
        let config = ClientConfig {
            sessions: Arc::new(tls),
            transport: self.transport(End::Client),
            token: Vec::new(),
        };
        let report = Some(report);
        let application = Client { stream: None, written: 0, received: Vec::new(), report };
        let request = ConnectRequest {
            config: Arc::new(config),
            remote,
            server_name: "localhost".to_owned(),
            application: Box::new(|_| Box::new(application)),
            observer: None,
            on_failure: Box::new(|_| ()),
        };
        // A shard that has ended drops the request, and with it the application.
        let _ = client.connect(request);
    }
}

/// The outcome of a transfer.
struct Outcome {
    /// The client's first report of a failure, or success of all transfers.
    client: Result<Report, RecvTimeoutError>,
    /// The server's report, if requested.
    server: Option<Result<Report, RecvTimeoutError>>,
    took: Duration,
    failure: [Option<ShardFailure>; 2],
    /// The statistics of the client's and the server's shard.
    statistics: [ShardStatistics; 2],
    client_calls: Faults,
    server_calls: Faults,
}

impl Outcome {
    fn faults(&self, end: End) -> &Faults {
        match end {
            End::Client => &self.client_calls,
            End::Server => &self.server_calls,
        }
    }

    fn statistics(&self, end: End) -> &ShardStatistics {
        &self.statistics[end as usize]
    }
}

/// Waits until each shard has received everything that the other counts as sent: loopback does not
/// lose datagrams. Returns their last statistics.
fn settle(client: &ShardHandle, server: &ShardHandle) -> [ShardStatistics; 2] {
    let began = Instant::now();
    loop {
        let all = [client.statistics(), server.statistics()];
        let [client, server] = &all;
        let has_arrived = |from: &ShardStatistics, at: &ShardStatistics| {
            from.datagrams_sent <= at.datagrams_received
        };
        if (has_arrived(client, server) && has_arrived(server, client)) || began.elapsed() > BOUND {
            return all;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs transfers with a fault. If `asks_server` is set, waits for the server's report too.
fn run(case: Option<Case>, timeout: Duration, patience: Duration, asks_server: bool) -> Outcome {
    let place = Place { idle_timeout: timeout, handshake_timeout: timeout, case };
    let (client_calls, server_calls) = (place.faults(End::Client), place.faults(End::Server));
    let (server_report, from_server) = mpsc::channel();
    let (client_report, from_client) = mpsc::channel();
    let server = place.shard(server_calls.clone(), Some(Echo(server_report)));
    let client = place.shard(client_calls.clone(), None);
    let began = Instant::now();
    for _ in 0..CONNECTIONS {
        place.connect(&client, server.local_address(), client_report.clone());
    }
    drop(client_report);
    let mut report = from_client.recv_timeout(patience);
    for _ in 1..CONNECTIONS {
        if report == Ok(Ok(())) {
            report = from_client.recv_timeout(patience.saturating_sub(began.elapsed()));
        }
    }
    let took = began.elapsed();
    let server_report = asks_server.then(|| from_server.recv_timeout(patience));
    let statistics = match &report {
        Ok(Ok(())) => settle(&client, &server),
        _ => [client.statistics(), server.statistics()],
    };
    let failure = [client.failure(), server.failure()];
    Outcome {
        client: report,
        server: server_report,
        took,
        failure,
        statistics,
        client_calls,
        server_calls,
    }
}

/// Calls `check` for every case, several at a time. `check` returns whether the fault occurred,
/// which must be true for most cases: the calls differ slightly between transfers.
fn for_each(cases: Vec<Case>, check: impl Fn(Case) -> bool + Sync) {
    let (count, begun) = (cases.len(), AtomicUsize::new(0));
    let cases = Mutex::new(cases.into_iter());
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().next() else { return };
                    begun.fetch_add(usize::from(check(case)), Ordering::Relaxed);
                }
            });
        }
    });
    let begun = begun.into_inner();
    assert!(begun * 4 >= count * 3, "{begun} of {count} faults have begun");
}

/// Asserts that the transfer completes within the bound, unless it could not begin for lack of a
/// route.
fn completes(case: Case) -> bool {
    let limit = case.plan.lasts + BOUND;
    let outcome = run(Some(case), Duration::from_secs(30), limit, false);
    let Outcome { client, took, .. } = &outcome;
    let is_first_route = case.end == End::Client
        && matches!(client, Ok(Err(ConnectionError::Unreachable)))
        && is_without_route(case.plan.fault);
    let is_complete = matches!(client, Ok(Ok(()))) && *took < limit;
    assert!(is_complete || is_first_route, "{case:?}: {client:?} after {took:?}");
    let [client, server] = &outcome.statistics;
    for (sender, receiver) in [(client, server), (server, client)] {
        let (sent, received) = (sender.datagrams_sent, receiver.datagrams_received);
        assert!(is_first_route || sent <= received, "{case:?}: {received} of {sent} have arrived");
    }
    outcome.faults(case.end).has_begun()
}

fn is_without_route(fault: Fault) -> bool {
    let errnos = [
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::HOSTDOWN,
        Errno::ADDRNOTAVAIL,
    ];
    errnos.iter().any(|errno| fault == Fault::Error(*errno))
}

/// Returns the faults of a direction.
fn faults(call: Call) -> &'static [Fault] {
    match call {
        Call::Send => &SEND_FAULTS,
        Call::Receive => &RECEIVE_FAULTS,
    }
}

/// Combines every call that most undisturbed transfers make with the faults that `choose` returns.
fn cases(choose: impl Fn(Call, usize) -> Vec<(Fault, Duration)>) -> Vec<Case> {
    let patience = Duration::from_secs(10);
    // This uses the same concurrency as the runs with faults, since it affects which batches are
    // sent in one call.
    let undisturbed: Vec<_> = thread::scope(|scope| {
        let begun = [(); TOGETHER].map(|()| scope.spawn(|| run(None, patience, patience, false)));
        begun.into_iter().map(|transfer| transfer.join().unwrap()).collect()
    });
    for Outcome { client, .. } in &undisturbed {
        assert_eq!(*client, Ok(Ok(())));
    }
    let mut cases = Vec::new();
    for end in [End::Client, End::Server] {
        for call in [Call::Send, Call::Receive] {
            let mut calls: Vec<_> =
                undisturbed.iter().map(|outcome| outcome.faults(end).calls(call)).collect();
            calls.sort();
            for number in 0..calls[TOGETHER / 4] {
                let chosen = choose(call, number);
                let plan = |(fault, lasts)| Plan { call, number, fault, lasts };
                cases.extend(chosen.into_iter().map(plan).map(|plan| Case { end, plan }));
            }
        }
    }
    cases
}

/// Each call fails with some of the errors, and each error occurs in several calls.
#[test]
fn an_error_at_each_call_in_turn_only_delays_a_transfer() {
    let cases = cases(|call, number| {
        let all = faults(call);
        let at = |offset: usize| all[(number + offset) % all.len()];
        vec![
            (at(0), Duration::ZERO),
            (at(all.len() / 2), Duration::ZERO),
            (at(all.len() / 3), if number % 4 == 0 { LONG } else { LASTING }),
        ]
    });
    for_each(cases, completes);
}

#[test]
#[ignore = "takes minutes; it is meant for a release build"]
fn every_error_at_every_call() {
    let cases = cases(|call, _| {
        let both = |fault: &Fault| [(*fault, Duration::ZERO), (*fault, LASTING)];
        faults(call).iter().flat_map(both).collect()
    });
    for_each(cases, completes);
}

/// On the endpoint with a persistent error, the connection ends with that error as the reason.
#[test]
fn an_error_that_stays_is_named() {
    use SendFailure::{Forbidden, MtuTooSmall, NoRoute, Other};
    let named = [
        (Errno::PERM, Forbidden),
        (Errno::ACCESS, Forbidden),
        (Errno::NOBUFS, Other),
        (Errno::NOMEM, Other),
        (Errno::IO, Other),
        (Errno::INVAL, Other),
        (Errno::NETUNREACH, NoRoute),
        (Errno::HOSTUNREACH, NoRoute),
        (Errno::NETDOWN, NoRoute),
        (Errno::ADDRNOTAVAIL, NoRoute),
        (Errno::CONNREFUSED, Other),
        (Errno::MSGSIZE, MtuTooSmall),
    ];
    let mut cases = Vec::new();
    for end in [End::Client, End::Server] {
        for (errno, _) in named {
            for number in [0, 3] {
                let (fault, lasts) = (Fault::Error(errno), Duration::MAX);
                let plan = Plan { call: Call::Send, number, fault, lasts };
                cases.push(Case { end, plan });
            }
        }
    }
    for_each(cases, |case| {
        let asks_server = case.end == End::Server;
        let outcome =
            run(Some(case), Duration::from_millis(1500), Duration::from_secs(20), asks_server);
        let has_begun = outcome.faults(case.end).has_begun();
        let report = if asks_server { outcome.server.as_ref().unwrap() } else { &outcome.client };
        let expected = named.iter().find(|(errno, _)| case.plan.fault == Fault::Error(*errno));
        let cause = ConnectionError::CannotSend(expected.unwrap().1);
        let is_first_route = !asks_server
            && is_without_route(case.plan.fault)
            && *report == Ok(Err(ConnectionError::Unreachable));
        assert!(*report == Ok(Err(cause)) || is_first_route, "{case:?}: {report:?}");
        // An error that affects every datagram is not mistaken for missing segmentation offload.
        assert_eq!(outcome.statistics(case.end).segmentation_refused, 0, "{case:?}");
        has_begun
    });
}

/// A descriptor that is no longer a socket ends the shard, and all applications get the reason.
#[test]
fn a_socket_that_cannot_receive_ends_its_shard() {
    for errno in [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT] {
        for number in [0, 3] {
            let fault = Fault::Error(errno);
            let plan = Plan { call: Call::Receive, number, fault, lasts: Duration::MAX };
            let case = Case { end: End::Client, plan };
            let patience = Duration::from_secs(8);
            let outcome = run(Some(case), patience, patience, false);
            // The application is dropped with the connection.
            assert_eq!(outcome.client, Err(RecvTimeoutError::Disconnected), "{case:?}");
            assert!(outcome.took < BOUND, "{case:?}: {:?}", outcome.took);
            assert_eq!(outcome.failure[0], Some(ShardFailure::SocketUnusable), "{case:?}");
        }
    }
}
