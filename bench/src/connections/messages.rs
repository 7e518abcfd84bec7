//! A connection with raw streams, driven by its shard. Each request opens a stream and asks for a
//! number of bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway::transport::Connection;
use clearway::{
    Application, ClientConfig, ConnectionWaker, Direction, Endpoint, Event, StreamId, Timestamp,
};
use tokio::sync::oneshot;

use crate::pattern::Sink;
use crate::raw::REQUEST_LEN;
use crate::raw::stream::pull;

/// Callback that receives the outcome of a request; called exactly once.
pub(super) type Ended = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Handle to the connection for other threads.
pub(super) struct Messages {
    waker: ConnectionWaker,
    shared: Arc<Shared>,
}

/// State shared between the shard and other threads.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Requests that have not been started yet.
    asked: Mutex<Vec<Asked>>,
}

struct Asked {
    size: u64,
    ended: Ended,
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    /// Opens a connection.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        config: &ClientConfig,
        remote: SocketAddr,
    ) -> Result<Self, String> {
        let (sender, opened) = oneshot::channel();
        let shared = Arc::new(Shared::default());
        let of_shard = shared.clone();
        let application = move |waker| {
            let opening = Some((waker, sender));
            Box::new(InShard::new(of_shard, opening)) as Box<dyn Application>
        };
        // If the connection fails immediately, the application is dropped, which notifies the
        // waiting task.
        let on_failure = Box::new(|_| ());
        endpoint
            .connect_application(config, remote, "localhost", Box::new(application), on_failure)
            .map_err(|error| error.to_string())?;
        let opened = opened.await.map_err(|_| "the endpoint cannot connect".to_owned())?;
        opened.map(|waker| Self { waker, shared })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.shared.is_over.load(Ordering::Relaxed)
    }

    /// Requests `size` bytes, and checks the received bytes.
    pub(super) fn ask(&self, size: u64, ended: Ended) {
        let mut asked = self.shared.asked();
        if self.is_open() {
            asked.push(Asked { size, ended });
            drop(asked);
            self.waker.wake();
        } else {
            drop(asked);
            ended(Err("the connection is closed".to_owned()));
        }
    }
}

/// The connection's waker, and the channel through which the waker is returned once the connection
/// is open.
type Opening = (ConnectionWaker, oneshot::Sender<Result<ConnectionWaker, String>>);

/// The application of the connection, which runs in the shard.
struct InShard {
    shared: Arc<Shared>,
    /// The channel to notify; set until the connection is open.
    opening: Option<Opening>,
    running: Vec<Running>,
}

/// A request whose response is still incomplete.
struct Running {
    stream: StreamId,
    sink: Sink,
    asked: Asked,
}

impl Application for InShard {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                return self.end(&error.to_string());
            }
        }
        if connection.is_handshaking() {
            return;
        }
        if let Some((waker, opened)) = self.opening.take() {
            // The receiver is gone if the caller has stopped waiting.
            let _ = opened.send(Ok(waker));
        }
        self.begin(connection);
        self.go_on(now, connection);
        if connection.is_compacted() {
            self.running.shrink_to_fit();
        }
    }
}

impl Drop for InShard {
    /// The shard may end before its connections do.
    fn drop(&mut self) {
        self.end("the endpoint has ended");
    }
}

impl InShard {
    fn new(shared: Arc<Shared>, opening: Option<Opening>) -> Self {
        Self { shared, opening, running: Vec::new() }
    }

    /// Starts the queued requests, up to the server's stream limit.
    fn begin(&mut self, connection: &mut Connection) {
        let shared = self.shared.clone();
        let mut waiting = shared.asked();
        while !waiting.is_empty()
            && let Some(stream) = connection.open(Direction::Bidirectional)
        {
            let asked = waiting.remove(0);
            match connection.write_slice(stream, &asked.size.to_be_bytes()) {
                Ok(REQUEST_LEN) if connection.finish(stream).is_ok() => {
                    self.running.push(Running { stream, sink: Sink::new(), asked });
                }
                outcome => (asked.ended)(Err(format!("a request was not accepted: {outcome:?}"))),
            }
        }
        if waiting.is_empty() {
            *waiting = Vec::new();
        }
    }

    /// Reads the received parts of the responses.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) {
        let mut index = 0;
        while let Some(Running { stream, sink, .. }) = self.running.get_mut(index) {
            match pull(now, connection, *stream, sink) {
                Ok(false) => index += 1,
                outcome => {
                    let Running { sink, asked, .. } = self.running.swap_remove(index);
                    let is_whole = sink.received == asked.size;
                    let wrong = || Err(format!("{} of {} bytes", sink.received, asked.size));
                    let outcome = outcome.and_then(|_| if is_whole { Ok(()) } else { wrong() });
                    (asked.ended)(outcome);
                }
            }
        }
    }

    /// Fails all pending requests once the connection has ended.
    fn end(&mut self, reason: &str) {
        if let Some((_, opened)) = self.opening.take() {
            // The receiver is gone if the caller has stopped waiting.
            let _ = opened.send(Err(reason.to_owned()));
        }
        let mut waiting = self.shared.asked();
        self.shared.is_over.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *waiting);
        let running = self.running.drain(..).map(|running| running.asked);
        running.chain(waiting).for_each(|asked| (asked.ended)(Err(reason.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use clearway::wire::Initiator;

    use super::*;

    /// Requests one byte, and returns the channel for the outcome.
    fn ask(shared: &Shared) -> Receiver<Result<(), String>> {
        let (sender, outcome) = channel();
        let ended: Ended = Box::new(move |outcome| drop(sender.send(outcome)));
        shared.asked().push(Asked { size: 1, ended });
        outcome
    }

    #[test]
    fn requests_end_with_their_shard() {
        let shared = Arc::new(Shared::default());
        let mut in_shard = InShard::new(shared.clone(), None);
        let waiting = ask(&shared);
        let running = ask(&shared);
        let asked = shared.asked().pop().expect("it was asked");
        let stream =
            StreamId::new(Initiator::Client, Direction::Bidirectional, 0).expect("it is the first");
        in_shard.running.push(Running { stream, sink: Sink::new(), asked });
        drop(in_shard);
        for outcome in [waiting, running] {
            assert_eq!(outcome.try_recv(), Ok(Err("the endpoint has ended".to_owned())));
        }
        assert!(shared.is_over.load(Ordering::Relaxed));
    }
}
