//! Test applications for downloads over raw streams, several on each connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use clearway_transport::{
    ClientConfig, Connection, Event, Incoming, ReadOutcome, TlsClientConfig, TransportConfig,
};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use super::{Entrance, TIMEOUT};
use crate::{
    Accept, Acceptor, Application, ConnectRequest, ConnectionWaker, Decision, ShardHandle,
};

/// The size of a download in bytes.
const LENGTH: usize = 30_000;
/// Number of the download whose request makes the application panic.
pub const PANIC: u64 = u64::MAX;

fn contents(number: u64) -> Vec<u8> {
    (0..LENGTH as u64).map(|at| (number.wrapping_mul(31).wrapping_add(at)) as u8).collect()
}

/// Accepts every client, and serves its requests.
pub struct Everyone;

impl Acceptor for Everyone {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        Decision::Accept(Accept::new(Box::new(|_| Box::new(Serving::default()))))
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
    /// Returns whether there is more of the response to send.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) -> bool {
        while let Ok(ReadOutcome::Data(data)) = connection.read(now, self.stream, 8) {
            self.asked.extend_from_slice(&data);
        }
        let Ok(asked) = self.asked.as_slice().try_into() else { return true };
        let number = u64::from_be_bytes(asked);
        assert_ne!(number, PANIC, "as the client requested");
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

/// A client's connection.
pub struct Client {
    outcomes: Receiver<Result<u64, String>>,
    /// Receives the connection's waker once.
    pub waker: Receiver<ConnectionWaker>,
    numbers: Arc<Mutex<Vec<u64>>>,
    /// The server's current address.
    pub remote: Arc<Mutex<Option<SocketAddr>>>,
}

impl Client {
    /// Waits for the next download to complete. Returns its number, or the reason why the
    /// connection ended.
    pub fn next(&self) -> Result<u64, String> {
        self.outcomes.recv_timeout(TIMEOUT).expect("no outcome in time")
    }

    /// Starts another download.
    pub fn ask(&self, waker: &ConnectionWaker, number: u64) {
        self.numbers.lock().unwrap().push(number);
        waker.wake();
    }
}

/// Starts a client that downloads `numbers`, the last one first.
pub fn download(
    client: &ShardHandle,
    entrance: &Entrance,
    numbers: &[u64],
    closes: bool,
) -> Client {
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let config = ClientConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    };
    let (outcome, outcomes) = channel();
    let (waker_in, waker) = channel();
    let numbers = Arc::new(Mutex::new(numbers.to_vec()));
    let remote = Arc::default();
    let application = Downloading {
        numbers: numbers.clone(),
        rebinds: entrance.rebinds.clone(),
        outcome,
        closes,
        remote: Arc::clone(&remote),
        current: None,
    };
    let request = ConnectRequest {
        config: Arc::new(config),
        remote: entrance.address,
        server_name: "localhost".to_owned(),
        application: Box::new(move |waker| {
            waker_in.send(waker).unwrap();
            Box::new(application)
        }),
        observer: None,
        on_failure: Box::new(|failure| panic!("{failure}")),
    };
    assert!(client.connect(request).is_ok());
    Client { outcomes, waker, numbers, remote }
}

/// Application that downloads one file after the other.
struct Downloading {
    /// The remaining numbers to download.
    numbers: Arc<Mutex<Vec<u64>>>,
    /// Set before each download after the first.
    rebinds: Arc<AtomicBool>,
    /// Reports the number of each complete download, or the reason why the connection ended.
    outcome: Sender<Result<u64, String>>,
    /// Whether to close the connection after the last download.
    closes: bool,
    /// The server's current address.
    remote: Arc<Mutex<Option<SocketAddr>>>,
    current: Option<(StreamId, u64, Vec<u8>)>,
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
