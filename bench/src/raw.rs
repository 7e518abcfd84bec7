//! Downloads on a raw stream; both endpoints run inside their shards.

use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use clearway::transport::{Connection, ReadError, ReadOutcome};
use clearway::{
    Accept, Acceptor, Application, Decision, Direction, Endpoint, Event, StreamId, Timestamp,
    VarInt,
};
use clearway_transport::Incoming;

use crate::pattern::{Sink, Source};
use crate::{Mtu, Outcome, RawClientOptions, ServerOptions, tls};

const ALPN: &str = "perf";
/// The size of the length field that a client sends.
const LENGTH_LEN: usize = 8;

pub(crate) fn serve(options: &ServerOptions, mtu: Mtu) -> Outcome {
    let config = tls::server(&options.cert, &options.key, ALPN, mtu, tls::IDLE_TIMEOUT)?;
    let endpoint = Endpoint::server_with_applications(options.listen, config, |_| Everyone)?;
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

/// Accepts every client.
struct Everyone;

impl Acceptor for Everyone {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        let application = Box::new(|_waker| Box::new(Server::default()) as Box<dyn Application>);
        Decision::Accept(Accept { application, observer: None })
    }
}

#[derive(Default)]
struct Server {
    answers: Vec<Answer>,
}

struct Answer {
    stream: StreamId,
    asked: Vec<u8>,
    source: Option<Source>,
}

impl Answer {
    /// Reads the length, then writes as much as the connection accepts. Returns `false` when the response is complete.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) -> bool {
        while self.source.is_none() {
            match connection.read(now, self.stream, LENGTH_LEN) {
                Ok(ReadOutcome::Data(data)) => self.asked.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => return true,
                Ok(ReadOutcome::Finished) | Err(_) => return false,
            }
            if let Ok(length) = <[u8; LENGTH_LEN]>::try_from(self.asked.as_slice()) {
                self.source = Some(Source::new(u64::from_be_bytes(length)));
            }
        }
        let Some(source) = &mut self.source else { return true };
        loop {
            let next = source.peek();
            if next.is_empty() {
                return connection.finish(self.stream).is_err();
            }
            match connection.write(self.stream, next) {
                Ok(0) => return true,
                Ok(taken) => source.advance(taken),
                Err(_) => return false,
            }
        }
    }
}

impl Application for Server {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        while let Some(stream) = connection.accept(Direction::Bidirectional) {
            self.answers.push(Answer { stream, asked: Vec::new(), source: None });
        }
        self.answers.retain_mut(|answer| answer.go_on(now, connection));
    }
}

pub(crate) fn download(options: &RawClientOptions, mtu: Mtu) -> Outcome {
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let local = match options.address.is_ipv4() {
        true => "0.0.0.0:0",
        false => "[::]:0",
    };
    let endpoint = Endpoint::client(local.parse()?)?;
    let (done, outcome) = channel();
    let failed = done.clone();
    let client = Client { bytes: options.bytes, download: None, done };
    endpoint.connect_application(
        &config,
        options.address,
        "localhost",
        Box::new(|_waker| Box::new(client)),
        Box::new(move |failure| {
            let _ = failed.send(Err(failure.to_string()));
        }),
    )?;
    let seconds = outcome.recv()??;
    println!(r#"{{"bytes":{},"seconds":{seconds},"status":200}}"#, options.bytes);
    Ok(())
}

struct Client {
    bytes: u64,
    download: Option<Download>,
    done: Sender<Result<f64, String>>,
}

struct Download {
    stream: StreamId,
    began: Instant,
    sink: Sink,
}

impl Client {
    fn start(&mut self, connection: &mut Connection) {
        let Some(stream) = connection.open(Direction::Bidirectional) else { return };
        let asked = connection.write_slice(stream, &self.bytes.to_be_bytes());
        if asked.is_ok() && connection.finish(stream).is_ok() {
            self.download = Some(Download { stream, began: Instant::now(), sink: Sink::new() });
        }
    }

    /// Reads the data that has arrived. Returns the outcome when the download is over.
    fn go_on(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
    ) -> Option<Result<f64, String>> {
        let download = self.download.as_mut()?;
        loop {
            match connection.read(now, download.stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) if download.sink.accept(&data) => {}
                Ok(ReadOutcome::Data(_)) => {
                    return Some(Err(format!("wrong bytes after {}", download.sink.received)));
                }
                Ok(ReadOutcome::Blocked) => return None,
                Ok(ReadOutcome::Finished) if download.sink.received == self.bytes => {
                    return Some(Ok(download.began.elapsed().as_secs_f64()));
                }
                Ok(ReadOutcome::Finished) | Err(ReadError::UnknownStream) => {
                    let received = download.sink.received;
                    return Some(Err(format!(
                        "only {received} of {} bytes were received",
                        self.bytes
                    )));
                }
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }
}

impl Application for Client {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Closed(error) = event {
                let _ = self.done.send(Err(error.to_string()));
                return;
            }
        }
        if self.download.is_none() && !connection.is_handshaking() {
            self.start(connection);
        }
        if let Some(outcome) = self.go_on(now, connection) {
            connection.close(now, VarInt::ZERO, b"");
            let _ = self.done.send(outcome);
        }
    }
}
