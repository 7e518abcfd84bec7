//! What the driver of HTTP/3 tells and asks an application.

use bytes::Bytes;
use clearway_http3::{Code, Priority, StreamError};
use clearway_transport::{Connection, Event, Statistics};
use clearway_wire::VarInt;
use http::{HeaderMap, Request, Response};

use super::super::{Error, Timeouts};
use super::turn::Turn;

/// The application of one connection: tasks, or a handler in the shard.
pub(in crate::http3) trait Face: Send {
    /// What a turn leaves for afterwards.
    type News;
    /// The face for the duration of a turn. That of tasks holds their lock.
    type Open<'a>: OpenFace<News = Self::News>
    where
        Self: 'a;

    /// Opens the face for a turn.
    fn open(&mut self) -> Self::Open<'_>;

    /// Carries out what a turn has left, and returns whether another turn is to follow at once.
    fn after(&mut self, news: Self::News, connection: &Connection) -> bool {
        let _ = (news, connection);
        false
    }

    /// Prepares for the turns of one call of the driver.
    fn begin(&mut self) {}

    /// Ends the turns of one call of the driver.
    fn end(&mut self) {}

    /// Gives back the memory that only a busy connection needs.
    fn rest(&mut self) {}

    /// Returns how many bytes the face keeps because of the peer.
    fn held_bytes(&self) -> u64;

    /// The connection is closed, and these are its last metrics.
    fn closed(&mut self, statistics: &Statistics);
}

/// How a connection is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::http3) enum Ending {
    /// Not yet, or it has ended.
    No,
    /// When no request is in progress.
    WhenIdle,
    /// The same, after a graceful shutdown (RFC 9114 §5.2).
    Shutdown,
}

/// A [`Face`] for the duration of a turn. Everything that it sends or abandons goes through the [`Turn`].
pub(in crate::http3) trait OpenFace {
    type News;

    /// Called first in every turn.
    fn begin(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// The handshake is complete.
    fn connected(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// An event of the transport that does not belong to a stream.
    fn path_event(&mut self, event: Event) {
        let _ = event;
    }

    /// A request has arrived (server).
    fn request(&mut self, turn: &mut Turn<'_>, stream: u64, request: Request<()>);

    /// An interim response has arrived (client).
    fn informational(&mut self, stream: u64, response: Response<()>) {
        let _ = (stream, response);
    }

    /// A final response has arrived (client).
    fn response(&mut self, stream: u64, response: Response<()>) {
        let _ = (stream, response);
    }

    /// Content may have arrived. It can be read now, or in a later turn.
    fn readable(&mut self, turn: &mut Turn<'_>, stream: u64);

    /// The peer's message is complete.
    fn finished(&mut self, turn: &mut Turn<'_>, stream: u64, trailers: Option<Box<HeaderMap>>);

    /// The transport accepts more of this end's message.
    fn writable(&mut self, turn: &mut Turn<'_>, stream: u64);

    /// The peer has abandoned its message.
    fn reset(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// The peer does not want the rest of this end's message.
    fn stopped(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// This end has abandoned both messages because of the peer's error.
    fn failed(&mut self, turn: &mut Turn<'_>, stream: u64, error: StreamError);

    /// The peer does not complete its request, which was passed on and is stopped with `code`.
    fn request_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// The peer does not accept the response, which is reset with `code`.
    fn response_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// A datagram has arrived.
    fn datagram(&mut self, turn: &mut Turn<'_>, stream: u64, payload: Bytes);

    /// The client has changed the priority of its request (server).
    fn priority(&mut self, stream: u64, priority: Priority) {
        let _ = (stream, priority);
    }

    /// The peer accepts no more requests.
    fn going_away(&mut self) {}

    /// More can be written on these streams, or the peer permits to send more.
    fn permitted(&mut self, turn: &mut Turn<'_>, streams: &[u64]) {
        let _ = (turn, streams);
    }

    /// Carries out what the application has asked for since the last turn.
    fn changes(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Returns how long the peer may make no progress.
    fn timeouts(&self) -> Option<Timeouts>;

    /// Whether the application waits for the rest of the peer's message, if that is not complete.
    fn wants_content(&self, stream: u64) -> bool;

    /// Whether the application waits for the peer's credit to produce more of the response.
    fn awaits_credit(&self, stream: u64) -> bool {
        let _ = stream;
        false
    }

    /// Takes the code and reason with which the application closes the connection.
    fn take_close(&mut self) -> Option<(VarInt, Bytes)> {
        None
    }

    /// Returns how the connection is to end.
    fn ending(&self) -> Ending;

    /// The connection shuts down: gives up requests that nobody waits for.
    fn give_up_unwanted(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Whether the application needs no more streams, and has taken all requests.
    fn is_idle(&self) -> bool {
        true
    }

    /// The connection has ended. Everything that was received before was passed on.
    fn ended(&mut self, error: Error);

    /// The turn is over.
    fn close(self, turn: &mut Turn<'_>) -> Self::News;
}
