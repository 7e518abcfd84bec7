//! Tests with a kernel that rejects each batch of an operation in turn, once or for some time, at
//! either endpoint. The operation completes soon after the kernel accepts batches again, and the
//! congestion controller notices nothing.
//!
//! The bounds are those of [`Connection::transmit_failed`](clearway_transport::Connection): the
//! next attempt is made after 20 ms, and each later attempt after twice the previous delay, up to
//! half a second.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::support::{
    Kernel, Pair, Refusal, Route, SECOND_SOCKET, address, delayed, large_tls, milliseconds,
    pattern, quiet, seconds, tls,
};
use bytes::Bytes;
use clearway_network::LinkConfig;
use clearway_transport::{
    Connection, ConnectionError, Event, ReadOutcome, SendFailure, Side, Statistics, TransportConfig,
};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

/// The delay in each direction. A probe timeout is longer than a round trip, so a failure that only
/// a probe repairs takes longer than the bounds allow.
const DELAY: Duration = Duration::from_millis(100);
const RTT: Duration = Duration::from_millis(200);
/// The second address of a client that migrates.
const OTHER_ADDRESS: &str = "10.0.7.1:50000";
/// The time from a first failed send to the next attempt.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The size of a transfer: several rounds of slow start.
const SIZE: usize = 60_000;

/// The operation that is in progress while the kernel rejects batches.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Operation {
    Handshake,
    /// The server's certificate exceeds the anti-amplification limit before the client has
    /// responded, so the server waits for acknowledgments.
    LongHandshake,
    /// The server sends [`SIZE`] bytes on one stream.
    Download,
    /// The client sends [`SIZE`] bytes on one stream.
    Upload,
    /// The server sends one byte, and the client sends only an acknowledgment.
    ByteDown,
    /// The client sends one byte.
    ByteUp,
    /// The client continues at another address.
    Migrate,
    /// This endpoint closes the connection.
    Close(Side),
}

const OPERATIONS: [Operation; 9] = [
    Operation::Handshake,
    Operation::LongHandshake,
    Operation::Download,
    Operation::Upload,
    Operation::ByteDown,
    Operation::ByteUp,
    Operation::Migrate,
    Operation::Close(Side::Client),
    Operation::Close(Side::Server),
];

/// A kernel that rejects one endpoint's batches.
#[derive(Clone, Copy, Debug)]
struct Fault {
    side: Side,
    /// The number of the first rejected batch.
    batch: usize,
    refusal: Refusal,
    /// How long the kernel rejects all batches after the first rejected one.
    lasts: Duration,
}

/// The number of batches of each endpoint since the beginning of an operation.
#[derive(Clone, Default)]
struct Counters {
    client: Rc<Cell<usize>>,
    server: Rc<Cell<usize>>,
}

impl Counters {
    fn of(&self, side: Side) -> &Rc<Cell<usize>> {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// Returns the kernel of an endpoint, which counts its batches, and fails as described by
    /// `fault` if that applies to this endpoint.
    fn kernel(&self, side: Side, fault: Option<Fault>) -> Kernel {
        let (counter, fault) = (self.of(side).clone(), fault.filter(|fault| fault.side == side));
        let mut began = None::<Timestamp>;
        Box::new(move |now, _| {
            let number = counter.replace(counter.get() + 1);
            let fault = fault?;
            let is_first = number == fault.batch;
            if is_first {
                began = Some(now);
            }
            let lasts = began.is_some_and(|began| now < began + fault.lasts);
            (is_first || lasts).then_some(fault.refusal)
        })
    }
}

/// The outcome of an operation.
struct Outcome {
    took: Duration,
    /// The number of batches that each endpoint has offered to its kernel.
    counters: Counters,
    client: Statistics,
    server: Statistics,
}

/// A stream with data from one endpoint.
struct Transfer {
    from: Side,
    stream: StreamId,
    contents: Bytes,
    rest: Bytes,
    received: Vec<u8>,
    is_finished: bool,
}

impl Transfer {
    fn open(pair: &mut Pair, from: Side, size: usize) -> Self {
        let stream = end(pair, from).open(Direction::Unidirectional).unwrap();
        let contents = pattern(size);
        let rest = contents.clone();
        Self { from, stream, contents, rest, received: Vec::new(), is_finished: false }
    }

    /// Writes and reads as much as possible. Returns whether everything was received and
    /// acknowledged.
    fn advance(&mut self, pair: &mut Pair) -> bool {
        let (now, to) = (pair.now, other(self.from));
        let sender = end(pair, self.from);
        if !self.rest.is_empty() {
            let taken = sender.write(self.stream, self.rest.clone()).unwrap();
            self.rest = self.rest.slice(taken..);
            if self.rest.is_empty() {
                sender.finish(self.stream).unwrap();
            }
        }
        let receiver = end(pair, to);
        receiver.accept(Direction::Unidirectional);
        while !self.is_finished {
            match receiver.read(now, self.stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => self.received.extend_from_slice(&data),
                Ok(ReadOutcome::Finished) => self.is_finished = true,
                _ => break,
            }
        }
        let events = match self.from {
            Side::Client => &pair.client_events,
            Side::Server => &pair.server_events,
        };
        let is_acknowledged = events.contains(&Event::Finished(self.stream));
        assert!(!self.is_finished || self.received == self.contents, "other contents arrived");
        self.is_finished && is_acknowledged
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

fn end(pair: &mut Pair, side: Side) -> &mut Connection {
    match side {
        Side::Client => pair.client(),
        Side::Server => pair.server(),
    }
}

fn link() -> LinkConfig {
    delayed(DELAY.as_millis() as u64, 1)
}

/// Both endpoints give up after this time. The endpoint whose kernel fails gives up slightly
/// earlier, because an endpoint that gives up a handshake notifies the other.
const TIMEOUT: Duration = Duration::from_secs(5);

fn config(has_fault: bool) -> TransportConfig {
    let timeout = if has_fault { TIMEOUT } else { TIMEOUT * 2 };
    let builder = quiet().to_builder().discover_path_mtu(true);
    builder.max_idle_timeout(Some(TIMEOUT)).handshake_timeout(timeout).build().unwrap()
}

/// Creates a pair in the state before `operation`, with kernels that then start counting their
/// batches.
fn pair(operation: Operation, fault: Option<Fault>, counters: &Counters) -> Pair {
    let has_fault = |side| fault.is_none_or(|fault| fault.side == side);
    let configs = [Side::Client, Side::Server].map(|side| config(has_fault(side)));
    let [client, server] = configs;
    let tls = if operation == Operation::LongHandshake { large_tls() } else { tls() };
    let mut pair = Pair::with_tls(link(), client, server, tls);
    pair.routes.push(Route::second_socket(OTHER_ADDRESS, link()));
    if !matches!(operation, Operation::Handshake | Operation::LongHandshake) {
        pair.establish();
        // Nothing is in transit anymore.
        pair.run_for(seconds(2));
    }
    pair.kernel = Some(counters.kernel(Side::Client, fault));
    pair.server_kernel = Some(counters.kernel(Side::Server, fault));
    pair
}

/// Begins an operation. Returns its stream.
fn begin(pair: &mut Pair, operation: Operation) -> Option<Transfer> {
    let now = pair.now;
    match operation {
        Operation::Handshake | Operation::LongHandshake => None,
        Operation::Download => Some(Transfer::open(pair, Side::Server, SIZE)),
        Operation::Upload => Some(Transfer::open(pair, Side::Client, SIZE)),
        Operation::ByteDown => Some(Transfer::open(pair, Side::Server, 1)),
        Operation::ByteUp => Some(Transfer::open(pair, Side::Client, 1)),
        Operation::Migrate => {
            let ip = address(OTHER_ADDRESS).ip();
            pair.client().migrate(now, SECOND_SOCKET, Some(ip)).unwrap();
            None
        }
        Operation::Close(side) => {
            end(pair, side).close(now, VarInt::from_u32(7), b"done");
            None
        }
    }
}

/// Continues an operation. Returns whether it is complete.
fn advance(pair: &mut Pair, operation: Operation, transfer: &mut Option<Transfer>) -> bool {
    if let Some(transfer) = transfer {
        return transfer.advance(pair);
    }
    let is_closed =
        |event: &Event| matches!(event, Event::Closed(ConnectionError::ApplicationClosed { .. }));
    match operation {
        Operation::Close(Side::Client) => pair.server_events.iter().any(is_closed),
        Operation::Close(Side::Server) => pair.client_events.iter().any(is_closed),
        Operation::Migrate => {
            pair.client_events.iter().any(|event| matches!(event, Event::Migrated { .. }))
                && pair.server().remote_address() == address(OTHER_ADDRESS)
        }
        _ => {
            let all = [&pair.client_events, &pair.server_events];
            all.iter().all(|events| events.contains(&Event::HandshakeConfirmed))
        }
    }
}

/// Runs `operation` for at most `limit` of virtual time. Returns `None` if it is not complete by
/// then.
fn run(operation: Operation, fault: Option<Fault>, limit: Duration) -> Option<Outcome> {
    let counters = Counters::default();
    let mut pair = pair(operation, fault, &counters);
    let began = pair.now;
    let mut transfer = begin(&mut pair, operation);
    let is_done = pair.run_until(limit, |pair| advance(pair, operation, &mut transfer));
    let took = pair.now.saturating_since(began);
    let (client, server) = (pair.client().statistics(), pair.server().statistics());
    is_done.then_some(Outcome { took, counters, client, server })
}

/// Calls `each` for every batch of every operation, with the time that the operation takes if
/// nothing is rejected.
fn every_batch(mut each: impl FnMut(Operation, Side, usize, Duration)) {
    for operation in OPERATIONS {
        let undisturbed = run(operation, None, seconds(10)).expect("it completes");
        for side in [Side::Client, Side::Server] {
            for batch in 0..undisturbed.counters.of(side).get() {
                each(operation, side, batch, undisturbed.took);
            }
        }
    }
}

/// The ways in which a kernel rejects a batch.
const REFUSALS: [Refusal; 3] = [
    Refusal::Failed(SendFailure::Other),
    Refusal::FailedAfter(1, SendFailure::Other),
    Refusal::TooLarge,
];

/// For how long batches are rejected: only once, or for some time.
const LASTING: [Duration; 2] = [Duration::ZERO, Duration::from_millis(290)];

/// Returns by how much a failure that lasts for `lasts` may delay an operation.
fn bound(operation: Operation, lasts: Duration) -> Duration {
    // The attempts follow after 20, 40, 80 and 160 ms. Data that is sent then may wait for an
    // acknowledgment that is delayed by 25 ms.
    let pauses = if lasts.is_zero() { FIRST_WAIT } else { milliseconds(300) };
    match operation {
        // A challenge for another path is repeated by the timer of its validation (RFC 9000 §8.2.1).
        Operation::Migrate => pauses + milliseconds(700),
        // Packets from the other endpoint that were not acknowledged in time are probes, or follow
        // a probe.
        _ if lasts.is_zero() => pauses + RTT / 2 - milliseconds(20),
        _ => pauses + RTT,
    }
}

/// Runs one operation with one failure: it completes in time, and no controller notices.
fn is_delayed_only(operation: Operation, fault: Fault, undisturbed: Duration) {
    let limit = undisturbed + bound(operation, fault.lasts);
    let Some(outcome) = run(operation, Some(fault), limit) else {
        panic!("{operation:?} takes longer than {limit:?} instead of {undisturbed:?}: {fault:?}");
    };
    for statistics in [outcome.client, outcome.server] {
        let events = [statistics.congestion_events, statistics.persistent_congestion_events];
        assert_eq!(events, [0, 0], "{operation:?} {fault:?}");
    }
}

/// Each batch is rejected in some of the possible ways, which only delays the operation.
#[test]
fn a_refused_batch_only_delays_an_operation() {
    every_batch(|operation, side, batch, undisturbed| {
        for (number, lasts) in LASTING.into_iter().enumerate() {
            let refusal = REFUSALS[(batch + number) % REFUSALS.len()];
            let fault = Fault { side, batch, refusal, lasts };
            is_delayed_only(operation, fault, undisturbed);
        }
    });
}

/// Run with `cargo test --release -p clearway-transport --test suite send_errors -- --ignored`.
#[test]
#[ignore = "takes half a minute without optimization"]
fn every_refusal_of_every_batch_only_delays_an_operation() {
    every_batch(|operation, side, batch, undisturbed| {
        for lasts in LASTING {
            for refusal in REFUSALS {
                let fault = Fault { side, batch, refusal, lasts };
                is_delayed_only(operation, fault, undisturbed);
            }
        }
    });
}

/// If a host never sends again, the error that ends its connection states this.
#[test]
fn a_host_that_sends_nothing_any_more_is_named() {
    let failed = |failure| (Refusal::Failed(failure), failure);
    let refusals = [
        failed(SendFailure::Other),
        failed(SendFailure::NoRoute),
        failed(SendFailure::Forbidden),
        (Refusal::TooLarge, SendFailure::MtuTooSmall),
    ];
    for operation in [Operation::Handshake, Operation::Download, Operation::Upload] {
        let undisturbed = run(operation, None, seconds(10)).expect("it completes");
        for side in [Side::Client, Side::Server] {
            let count = undisturbed.counters.of(side).get();
            for batch in [0, count / 2, count - 1] {
                for (refusal, failure) in refusals {
                    let lasts = seconds(3600);
                    ends_with(operation, Fault { side, batch, refusal, lasts }, failure);
                }
            }
        }
    }
}

fn ends_with(operation: Operation, fault: Fault, failure: SendFailure) {
    let mut pair = pair(operation, Some(fault), &Counters::default());
    let mut transfer = begin(&mut pair, operation);
    let is_closed = |pair: &mut Pair| {
        if let Some(transfer) = transfer.as_mut().filter(|_| !pair.client().is_closed())
            && !pair.server().is_closed()
        {
            transfer.advance(pair);
        }
        match fault.side {
            Side::Client => pair.client().is_closed(),
            Side::Server => !pair.accepted.is_empty() && pair.server().is_closed(),
        }
    };
    assert!(pair.run_until(TIMEOUT * 2, is_closed), "{operation:?} {fault:?}");
    let cause = end(&mut pair, fault.side).close_reason().cloned();
    assert_eq!(cause, Some(ConnectionError::CannotSend(failure)), "{operation:?} {fault:?}");
}
