//! Downloads over raw streams, several on each connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use clearway_transport::{Connection, Event, Incoming, ReadOutcome};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use crate::{Accept, Acceptor, Application, Decision};

/// How many bytes a download has.
const LENGTH: usize = 30_000;
/// Asked for, this makes the application panic.
pub(super) const PANIC: u64 = u64::MAX;

fn contents(number: u64) -> Vec<u8> {
    (0..LENGTH as u64).map(|at| (number.wrapping_mul(31).wrapping_add(at)) as u8).collect()
}

/// Accepts every client, and gives it what it asks for.
pub(super) struct Everyone;

impl Acceptor for Everyone {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        Decision::Accept(Accept {
            application: Box::new(|_| Box::new(Serving::default())),
            observer: None,
        })
    }
}

#[derive(Default)]
struct Serving(Vec<Answer>);

struct Answer {
    stream: StreamId,
    asked: Vec<u8>,
    rest: Option<Vec<u8>>,
}

impl Answer {
    /// Returns whether it goes on.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) -> bool {
        while let Ok(ReadOutcome::Data(data)) = connection.read(now, self.stream, 8) {
            self.asked.extend_from_slice(&data);
        }
        let Ok(asked) = self.asked.as_slice().try_into() else { return true };
        let number = u64::from_be_bytes(asked);
        assert_ne!(number, PANIC, "as the client wishes");
        let rest = self.rest.get_or_insert_with(|| contents(number));
        while !rest.is_empty() {
            match connection.write_slice(self.stream, rest) {
                Ok(0) => return true,
                Ok(taken) => drop(rest.drain(..taken)),
                Err(_) => return false,
            }
        }
        let _ = connection.finish(self.stream);
        false
    }
}

impl Application for Serving {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        while let Some(stream) = connection.accept(Direction::Bidirectional) {
            self.0.push(Answer { stream, asked: Vec::new(), rest: None });
        }
        self.0.retain_mut(|answer| answer.go_on(now, connection));
    }
}

/// Downloads one after the other.
pub(super) struct Downloading {
    /// What is still to be downloaded.
    pub(super) numbers: Arc<Mutex<Vec<u64>>>,
    /// Set before each download after the first.
    pub(super) rebinds: Arc<AtomicBool>,
    /// The number of each download that is complete, and why the connection ended.
    pub(super) outcome: Sender<Result<u64, String>>,
    /// Whether the connection is closed after the last one.
    pub(super) closes: bool,
    /// Where the server is.
    pub(super) remote: Arc<Mutex<Option<SocketAddr>>>,
    pub(super) current: Option<(StreamId, u64, Vec<u8>)>,
}

impl Downloading {
    fn begin(&mut self, connection: &mut Connection) {
        let Some(number) = self.numbers.lock().unwrap().pop() else { return };
        let stream = connection.open(Direction::Bidirectional).unwrap();
        connection.write_slice(stream, &number.to_be_bytes()).unwrap();
        connection.finish(stream).unwrap();
        self.current = Some((stream, number, Vec::new()));
    }
}

impl Application for Downloading {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                let _ = self.outcome.send(Err(error.to_string()));
            }
        }
        if connection.is_closed() || connection.is_handshaking() {
            return;
        }
        *self.remote.lock().unwrap() = Some(connection.remote_address());
        if self.current.is_none() {
            self.begin(connection);
        }
        let Some((stream, number, received)) = &mut self.current else { return };
        loop {
            match connection.read(now, *stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
                Ok(ReadOutcome::Finished) => break,
                Ok(ReadOutcome::Blocked) | Err(_) => return,
            }
        }
        let is_right = *received == contents(*number);
        let outcome = if is_right { Ok(*number) } else { Err(format!("download {number}")) };
        let _ = self.outcome.send(outcome);
        self.rebinds.store(true, Ordering::SeqCst);
        self.current = None;
        self.begin(connection);
        if self.current.is_none() && self.closes {
            connection.close(now, VarInt::ZERO, b"");
        }
    }
}
