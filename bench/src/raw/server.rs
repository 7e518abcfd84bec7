//! The raw-stream server that runs inside its shard.

use std::net::SocketAddr;

use clearway::transport::{Connection, Incoming, ReadOutcome};
use clearway::{
    Accept, Acceptor, Application, Decision, Direction, Endpoint, ServerConfig, StreamId,
    Timestamp, VarInt,
};

use super::REQUEST_LEN;
use super::stream::{pull, push};
use crate::pattern::{Sink, Source};
use crate::{Outcome, attached};

/// Error code for a stream whose upload contains wrong bytes.
const WRONG: VarInt = VarInt::from_u32(1);

pub(super) fn serve(listen: SocketAddr, config: ServerConfig, is_attached: bool) -> Outcome {
    let endpoint = Endpoint::server_with_applications(listen, config, |_| Everyone)?;
    attached::serve(&endpoint, is_attached)
}

/// An acceptor that accepts every client.
struct Everyone;

impl Acceptor for Everyone {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        let application = Box::new(|_waker| Box::new(Server::default()) as Box<dyn Application>);
        Decision::Accept(Accept::new(application))
    }
}

#[derive(Default)]
struct Server {
    answers: Vec<Answer>,
}

/// A stream that the server is answering.
struct Answer {
    stream: StreamId,
    /// The received bytes of the number that the client sends first.
    asked: Vec<u8>,
    upload: Sink,
    /// The response data, once the upload has ended.
    source: Option<Source>,
}

impl Application for Server {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        while let Some(stream) = connection.accept(Direction::Bidirectional) {
            let (asked, upload) = (Vec::new(), Sink::new());
            self.answers.push(Answer { stream, asked, upload, source: None });
        }
        self.answers.retain_mut(|answer| match answer.go_on(now, connection) {
            Ok(is_over) => !is_over,
            Err(_) => {
                // Both calls fail if the client has reset the stream or the connection is closed,
                // and neither is needed in that case.
                let _ = connection.reset(answer.stream, WRONG);
                let _ = connection.stop_sending(now, answer.stream, WRONG);
                false
            }
        });
        if connection.is_compacted() {
            self.answers.shrink_to_fit();
        }
    }
}

impl Answer {
    /// Reads the upload to its end, and then writes as much data as the connection accepts. Returns
    /// whether all data has been written.
    fn go_on(&mut self, now: Timestamp, connection: &mut Connection) -> Result<bool, String> {
        if self.source.is_none() {
            if !self.read_request(now, connection)? {
                return Ok(false);
            }
            if !pull(now, connection, self.stream, &mut self.upload)? {
                return Ok(false);
            }
            let length = self.asked.as_slice().try_into().map_err(|_| "no length")?;
            self.source = Some(Source::new(u64::from_be_bytes(length)));
        }
        let Some(source) = &mut self.source else { return Ok(false) };
        push(connection, self.stream, source).map_err(|error| error.to_string())
    }

    /// Reads the number that the client sends first. Returns whether the number is complete.
    fn read_request(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
    ) -> Result<bool, String> {
        while self.asked.len() < REQUEST_LEN {
            match connection.read(now, self.stream, REQUEST_LEN - self.asked.len()) {
                Ok(ReadOutcome::Data(data)) => self.asked.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => return Ok(false),
                Ok(ReadOutcome::Finished) => return Err("no length".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }
}
