//! Operations on a stream, alone and in pairs (RFC 9000 §3, draft-ietf-quic-reliable-stream-reset §5).

use std::time::Duration;

use bytes::Bytes;
use clearway_transport::{Event, ReadError, ReadOutcome, TransportConfig};
use clearway_wire::{Direction, StreamId, VarInt};

use super::{bound, every_mask, lose, quick_masks, with_masks};
use crate::support::{Pair, delayed, milliseconds, pattern, quiet, seconds};

/// The number of bytes written before the first operation, and by each write.
const WRITTEN: usize = 3000;
/// The reliable sizes of a partial reset, and of a later one that is smaller and covers fewer
/// packets.
const RELIABLE: [u64; 2] = [1500, 500];
/// The receiving endpoint's limits. The second write exceeds them.
const STREAM_WINDOW: u64 = 4000;
const CONNECTION_WINDOW: u64 = 6000;

const RESET: VarInt = VarInt::from_u32(1);
const RESET_AT: VarInt = VarInt::from_u32(2);
const STOP: VarInt = VarInt::from_u32(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Write,
    Finish,
    Reset,
    ResetAt,
    /// STOP_SENDING by the receiving endpoint, as soon as the stream exists there.
    Stop,
}

const OPERATIONS: [Operation; 5] =
    [Operation::Write, Operation::Finish, Operation::Reset, Operation::ResetAt, Operation::Stop];

/// The state of the stream, as observed by the receiving application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Open,
    Finished,
    Reset(VarInt),
    Stopped,
}

/// The two applications of one stream, each of which acts only on events.
struct Run {
    pair: Pair,
    stream: StreamId,
    /// The bytes that the sender still has to write.
    rest: Bytes,
    written: u64,
    finishes: bool,
    stops: bool,
    accepted: bool,
    received: Vec<u8>,
    seen: Seen,
    /// The sender's events about the end of the stream.
    ends: Vec<Event>,
    done: Vec<Operation>,
}

fn receiver_config() -> TransportConfig {
    quiet()
        .to_builder()
        .initial_stream_receive_window(STREAM_WINDOW)
        .max_stream_receive_window(STREAM_WINDOW)
        .initial_connection_receive_window(CONNECTION_WINDOW)
        .max_connection_receive_window(CONNECTION_WINDOW)
        .max_concurrent_unidirectional_streams(1)
        .build()
        .unwrap()
}

impl Run {
    fn new(mask: u32) -> Self {
        let config = quiet().to_builder().skip_packet_numbers(false).build().unwrap();
        let mut pair = Pair::with(delayed(10, 1), config, receiver_config());
        pair.establish();
        pair.run_for(seconds(1));
        pair.client_events.clear();
        pair.server_events.clear();
        let stream = pair.client().open(Direction::Unidirectional).unwrap();
        lose(&mut pair, mask);
        let mut run = Self {
            pair,
            stream,
            rest: Bytes::new(),
            written: 0,
            finishes: false,
            stops: false,
            accepted: false,
            received: Vec::new(),
            seen: Seen::Open,
            ends: Vec::new(),
            done: Vec::new(),
        };
        run.write();
        run
    }

    /// Returns whether the sender can still write.
    fn is_open(&mut self) -> bool {
        let ends = [Operation::Finish, Operation::Reset, Operation::ResetAt];
        self.ends.is_empty() && !self.done.iter().any(|operation| ends.contains(operation))
    }

    fn write(&mut self) {
        let start = self.written as usize + self.rest.len();
        let mut all = self.rest.to_vec();
        all.extend_from_slice(&pattern(start + WRITTEN)[start..]);
        self.rest = all.into();
        self.write_rest();
    }

    fn write_rest(&mut self) {
        if !self.rest.is_empty() {
            let Ok(taken) = self.pair.client().write(self.stream, self.rest.clone()) else {
                return;
            };
            self.written += taken as u64;
            self.rest = self.rest.slice(taken..);
        }
        if self.finishes && self.rest.is_empty() {
            self.finishes = false;
            let _ = self.pair.client().finish(self.stream);
        }
    }

    fn perform(&mut self, operation: Operation) {
        let stream = self.stream;
        match operation {
            Operation::Write if self.is_open() => self.write(),
            Operation::Write => {}
            Operation::Finish => {
                self.finishes = self.is_open();
                self.write_rest();
            }
            Operation::Reset => {
                let _ = self.pair.client().reset(stream, RESET);
                self.rest = Bytes::new();
            }
            Operation::ResetAt => {
                let size = self.reliable_size().map_or(RELIABLE[0], |_| RELIABLE[1]);
                let _ = self.pair.client().reset_at(stream, RESET_AT, size);
                self.rest = Bytes::new();
            }
            Operation::Stop => self.stops = true,
        }
        self.done.push(operation);
        self.act();
        self.pair.settle();
    }

    /// Lets both applications react to their events.
    fn act(&mut self) {
        for event in std::mem::take(&mut self.pair.client_events) {
            match event {
                Event::Writable(_) => self.write_rest(),
                Event::Finished(_) | Event::ResetAcknowledged(_) | Event::Stopped { .. } => {
                    self.ends.push(event);
                }
                _ => {}
            }
        }
        for event in std::mem::take(&mut self.pair.server_events) {
            match event {
                Event::Opened(direction) => {
                    self.accepted |= self.pair.server().accept(direction) == Some(self.stream);
                    self.read();
                }
                Event::Readable(_) => self.read(),
                _ => {}
            }
        }
        if self.stops && self.accepted {
            self.stops = false;
            let (now, stream) = (self.pair.now, self.stream);
            if self.pair.server().stop_sending(now, stream, STOP).is_ok() {
                self.seen = Seen::Stopped;
            }
        }
    }

    fn read(&mut self) {
        let (now, stream) = (self.pair.now, self.stream);
        while self.accepted && self.seen == Seen::Open {
            match self.pair.server().read(now, stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => self.received.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => return,
                Ok(ReadOutcome::Finished) => self.seen = Seen::Finished,
                Err(ReadError::Reset(code)) => self.seen = Seen::Reset(code),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the reliable size of the last partial reset.
    fn reliable_size(&self) -> Option<u64> {
        let resets = self.done.iter().filter(|done| **done == Operation::ResetAt);
        RELIABLE.into_iter().take(resets.count()).next_back()
    }

    /// Returns whether the performed operations end the stream.
    fn must_end(&self) -> bool {
        self.done.iter().any(|operation| *operation != Operation::Write)
    }

    /// Returns whether both endpoints are in the final state of the operations.
    fn is_settled(&mut self) -> bool {
        let [sent, received] =
            [self.pair.client().streams_statistics(), self.pair.server().streams_statistics()];
        let is_delivered = sent.bytes_sent == received.bytes_received;
        if self.must_end() {
            return is_delivered && sent.open == 0 && received.open == 0;
        }
        self.rest.is_empty()
            && sent.bytes_buffered == 0
            && self.received.len() as u64 == self.written
    }

    fn run(&mut self, limit: Duration) -> bool {
        let end = self.pair.now + limit;
        loop {
            self.act();
            if self.is_settled() {
                return true;
            }
            let left = end.saturating_since(self.pair.now);
            if left.is_zero() {
                return false;
            }
            one_step(&mut self.pair, left);
        }
    }

    fn describe(&mut self) -> String {
        let (written, received) = (self.written, self.received.len());
        format!(
            "{:?}: wrote {written}, received {received}, saw {:?}, ends {:?}\n{:?}\n{:?}",
            self.done,
            self.seen,
            self.ends,
            self.pair.client().streams_statistics(),
            self.pair.server().streams_statistics()
        )
    }

    /// Checks that nothing is delivered twice, out of order or past a reset, and that each endpoint
    /// knows how the stream ended.
    fn check_delivery(&mut self) {
        let text = self.describe();
        let received = self.received.len();
        assert!(self.received == pattern(received), "not what was written: {text}");
        assert!(received as u64 <= self.written, "{text}");
        let has = |operation| self.done.contains(&operation);
        match self.seen {
            Seen::Open => assert!(!self.must_end(), "{text}"),
            Seen::Finished => {
                assert!(has(Operation::Finish) && received as u64 == self.written, "{text}");
            }
            Seen::Reset(code) => {
                // The error code of the first reset is kept (draft-ietf-quic-reliable-stream-reset
                // §5.2). The response to STOP_SENDING has the code of that frame (RFC 9000 §3.5).
                let resets = [(Operation::Reset, RESET), (Operation::ResetAt, RESET_AT)];
                let first = self.done.iter().find_map(|done| {
                    resets.iter().find(|(operation, _)| operation == done).map(|(_, code)| *code)
                });
                assert_eq!(Some(code), first, "{text}");
                if !has(Operation::Reset) {
                    assert!(received as u64 >= self.reliable_size().unwrap(), "{text}");
                }
            }
            Seen::Stopped => assert!(has(Operation::Stop), "{text}"),
        }
        self.check_ends(&text);
    }

    /// Checks that one event reports to the sender how the stream ended, and that the receiver saw
    /// the same.
    fn check_ends(&self, text: &str) {
        let stopped = self.ends.iter().filter(|end| matches!(end, Event::Stopped { .. })).count();
        let ends: Vec<_> =
            self.ends.iter().filter(|end| !matches!(end, Event::Stopped { .. })).collect();
        assert!(stopped <= usize::from(self.done.contains(&Operation::Stop)), "{text}");
        assert_eq!(ends.len(), usize::from(self.must_end()), "{text}");
        match (ends.first(), self.seen) {
            (None, _) | (_, Seen::Stopped) => {}
            (Some(Event::Finished(_)), seen) => assert_eq!(seen, Seen::Finished, "{text}"),
            // RFC 9000 §3.2: data that was received completely may be delivered despite a reset.
            (Some(_), seen) => assert_ne!(seen, Seen::Open, "{text}"),
        }
    }

    /// Checks that the stream's credit was returned to the connection, and that another stream may
    /// be opened instead (RFC 9000 §4.1, §4.6).
    fn check_credit(&mut self, mask: u32) {
        let text = self.describe();
        self.pair.run_for(seconds(1) + bound(mask));
        let next = self.pair.client().open(Direction::Unidirectional);
        let next = next.unwrap_or_else(|| panic!("no other stream can be opened: {text}"));
        let credit = self.pair.client().send_credit(next).unwrap();
        assert_eq!(credit.stream, STREAM_WINDOW, "{text}");
        let least = CONNECTION_WINDOW - CONNECTION_WINDOW / 8;
        assert!((least..=CONNECTION_WINDOW).contains(&credit.connection), "{credit:?} {text}");
        self.check_rest(&text);
    }

    /// Checks that nothing is in flight or waiting to be sent, and that everything has arrived.
    fn check_rest(&mut self, text: &str) {
        let client = self.pair.client().statistics().bytes_in_flight;
        let server = self.pair.server().statistics().bytes_in_flight;
        assert_eq!((client, server), (0, 0), "{text}");
        assert_eq!(self.pair.client().streams_statistics().bytes_buffered, 0, "{text}");
        self.pair.watch.check_all_arrived();
    }
}

/// Advances to the next time at which anything happens, by at most `limit`.
fn one_step(pair: &mut Pair, limit: Duration) {
    let mut calls = 0;
    pair.run_until(limit, |_| {
        calls += 1;
        calls > 1
    });
}

/// Performs the operations, `gap` apart, and checks the final state of both endpoints.
fn perform(operations: &[Operation], gap: Duration, mask: u32) {
    let mut run = Run::new(mask);
    for (index, operation) in operations.iter().enumerate() {
        if index > 0 && !gap.is_zero() {
            let end = run.pair.now + gap;
            while run.pair.now < end {
                let left = end.saturating_since(run.pair.now);
                one_step(&mut run.pair, left);
                run.act();
            }
        }
        run.perform(*operation);
    }
    let start = run.pair.now;
    let is_settled = run.run(bound(mask));
    let took = run.pair.now.saturating_since(start);
    assert!(is_settled, "not settled after {took:?}: {}", run.describe());
    run.check_delivery();
    if run.must_end() {
        run.check_credit(mask);
    }
}

/// Returns the times between two operations: both are sent in the same datagram, or the second one
/// begins while the first or its acknowledgment is in transit.
fn gaps() -> [Duration; 3] {
    [Duration::ZERO, milliseconds(5), milliseconds(15)]
}

fn alone(masks: &[u32]) {
    for operation in OPERATIONS {
        with_masks(&format!("{operation:?}"), masks, |mask| {
            perform(&[operation], Duration::ZERO, mask);
        });
    }
}

fn pairs(masks: &[u32]) {
    for first in OPERATIONS {
        for second in OPERATIONS {
            for gap in gaps() {
                with_masks(&format!("{first:?}, {second:?} after {gap:?}"), masks, |mask| {
                    perform(&[first, second], gap, mask);
                });
            }
        }
    }
}

#[test]
fn an_operation_on_a_stream_survives_losses() {
    alone(&quick_masks());
}

#[test]
fn two_operations_on_a_stream_survive_losses() {
    pairs(&quick_masks());
}

#[test]
#[ignore = "1,024 masks for each operation: cargo test --release -p clearway-transport --test suite masks -- --ignored"]
fn operations_on_a_stream_survive_every_loss() {
    alone(&every_mask());
    pairs(&every_mask());
}
