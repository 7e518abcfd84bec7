//! The raw-stream client that runs inside its shard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use clearway::transport::Connection;
use clearway::{
    Application, ClientConfig, ConnectionWaker, Direction, Endpoint, Event, StreamId, Timestamp,
    VarInt,
};

use super::stream::{pull, push};
use super::{OPENING, REQUEST_LEN, Transfer};
use crate::pattern::{Sink, Source};
use crate::{Outcome, transfer};

/// A message about a connection's progress.
enum Report {
    /// The handshake is complete, and transfers can start.
    Open(ConnectionWaker),
    /// The connection's transfer is complete.
    Done,
    Failed(String),
}

/// Opens all connections, and then runs the transfers on them. Returns the duration of the
/// transfers.
pub(super) fn run(
    config: &ClientConfig,
    remote: SocketAddr,
    count: usize,
    transfer: Transfer,
) -> Outcome<Duration> {
    let endpoint = Endpoint::client(transfer::local_address(remote))?;
    let (sender, reports) = channel();
    let has_started = Arc::new(AtomicBool::new(false));
    let mut wakers = Vec::new();
    for begun in 0..count {
        if begun >= wakers.len() + OPENING {
            wakers.push(next_open(&reports)?);
        }
        let (reporting, failing) = (sender.clone(), sender.clone());
        let has_started = has_started.clone();
        endpoint.connect_application(
            config,
            remote,
            "localhost",
            Box::new(move |waker| {
                let waker = Some(waker);
                Box::new(Client { transfer, has_started, waker, running: None, reporting })
            }),
            Box::new(move |failure| {
                let _ = failing.send(Report::Failed(failure.to_string()));
            }),
        )?;
    }
    while wakers.len() < count {
        wakers.push(next_open(&reports)?);
    }
    let began = Instant::now();
    has_started.store(true, Ordering::Release);
    wakers.iter().for_each(ConnectionWaker::wake);
    let mut left = count;
    while left > 0 {
        match reports.recv()? {
            Report::Open(_) => {}
            Report::Done => left -= 1,
            Report::Failed(error) => return Err(error.into()),
        }
    }
    Ok(began.elapsed())
}

fn next_open(reports: &Receiver<Report>) -> Outcome<ConnectionWaker> {
    match reports.recv()? {
        Report::Open(waker) => Ok(waker),
        Report::Done => Err("a transfer ended before it started".into()),
        Report::Failed(error) => Err(error.into()),
    }
}

/// The application of one connection.
struct Client {
    transfer: Transfer,
    has_started: Arc<AtomicBool>,
    /// The waker of the connection; set until the connection is open.
    waker: Option<ConnectionWaker>,
    running: Option<Running>,
    reporting: Sender<Report>,
}

struct Running {
    stream: StreamId,
    source: Source,
    is_sent: bool,
    sink: Sink,
    is_over: bool,
}

impl Application for Client {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        let is_over = self.running.as_ref().is_some_and(|running| running.is_over);
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                if !is_over {
                    let _ = self.reporting.send(Report::Failed(error.to_string()));
                }
                return;
            }
        }
        if is_over || connection.is_handshaking() {
            return;
        }
        if let Some(waker) = self.waker.take() {
            let _ = self.reporting.send(Report::Open(waker));
        }
        if !self.has_started.load(Ordering::Acquire) {
            return;
        }
        let report = match self.go_on(now, connection) {
            Ok(false) => return,
            Ok(true) => Report::Done,
            Err(error) => Report::Failed(error),
        };
        connection.close(now, VarInt::ZERO, b"");
        let _ = self.reporting.send(report);
    }
}

impl Client {
    /// Writes as much data as the connection accepts, and reads the received data. Returns whether
    /// the transfer is complete.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) -> Result<bool, String> {
        if self.running.is_none() {
            self.running = self.start(connection)?;
        }
        let Some(running) = &mut self.running else { return Ok(false) };
        if !running.is_sent {
            let sent = push(connection, running.stream, &mut running.source);
            running.is_sent = sent.map_err(|error| error.to_string())?;
        }
        if !pull(now, connection, running.stream, &mut running.sink)? {
            return Ok(false);
        }
        running.is_over = true;
        let (received, asked) = (running.sink.received, self.transfer.asked);
        if received < asked {
            return Err(format!("only {received} of {asked} bytes were received"));
        }
        Ok(true)
    }

    fn start(&self, connection: &mut Connection) -> Result<Option<Running>, String> {
        let Some(stream) = connection.open(Direction::Bidirectional) else { return Ok(None) };
        let asked = connection.write_slice(stream, &self.transfer.asked.to_be_bytes());
        if asked.map_err(|error| error.to_string())? < REQUEST_LEN {
            return Err("the server's windows are too small".to_owned());
        }
        let source = Source::new(self.transfer.uploaded);
        Ok(Some(Running { stream, source, is_sent: false, sink: Sink::new(), is_over: false }))
    }
}
