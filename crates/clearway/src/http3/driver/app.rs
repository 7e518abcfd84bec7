//! The interface between the HTTP/3 driver and an application.

use core::time::Duration;

use bytes::Bytes;
use clearway_http3::{Code, Priority, StreamError};
use clearway_transport::{Connection, Event, Statistics};
use clearway_wire::VarInt;
use http::{HeaderMap, Request, Response};

use super::super::{Error, Timeouts};
use super::turn::Turn;

/// The application of one connection: tasks, or a handler in the shard.
pub(in crate::http3) trait App: Send {
    /// Work that a turn defers until the turn has ended.
    type News;
    /// The application for the duration of a turn. For tasks, it holds their lock.
    type Open<'a>: AppTurn<News = Self::News>
    where
        Self: 'a;

    /// Opens the application for a turn.
    fn open(&mut self) -> Self::Open<'_>;

    /// Carries out the work that a turn has deferred. Returns whether another turn must follow
    /// immediately.
    fn after(&mut self, news: Self::News, connection: &Connection) -> bool {
        let _ = (news, connection);
        false
    }

    /// Called before the turns that one call of the driver runs.
    fn begin(&mut self) {}

    /// Called after the turns that one call of the driver runs.
    fn end(&mut self) {}

    /// Frees the memory that only a busy connection needs.
    fn compact(&mut self) {}

    /// Returns the number of bytes that the application buffers on behalf of the peer.
    fn held_bytes(&self) -> u64;

    /// Receives the connection's final statistics after it has been closed.
    fn closed(&mut self, statistics: &Statistics);
}

/// How a connection should end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::http3) enum Ending {
    /// The connection should not end yet, or has already ended.
    No,
    /// Close the connection when no request is in progress.
    WhenIdle,
    /// Close the connection when no request is in progress, after a graceful shutdown (RFC 9114
    /// §5.2).
    Shutdown,
}

/// Access to an [`App`] for the duration of a turn. The application sends and abandons messages
/// only through the [`Turn`].
pub(in crate::http3) trait AppTurn {
    type News;

    /// Called first in every turn.
    fn begin(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Called when the handshake is complete.
    fn connected(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Called for an event of the transport that does not belong to a stream.
    fn path_event(&mut self, turn: &mut Turn<'_>, event: Event) {
        let _ = (turn, event);
    }

    /// Called when a request has arrived (server).
    fn request(&mut self, turn: &mut Turn<'_>, stream: u64, request: Request<()>);

    /// Called when an interim response has arrived (client).
    fn informational(&mut self, stream: u64, response: Response<()>) {
        let _ = (stream, response);
    }

    /// Called when a final response has arrived (client).
    fn response(&mut self, stream: u64, response: Response<()>) {
        let _ = (stream, response);
    }

    /// Called when content may have arrived. The content can be read now or in a later turn.
    fn readable(&mut self, turn: &mut Turn<'_>, stream: u64);

    /// Called when the peer's message is complete.
    fn finished(&mut self, turn: &mut Turn<'_>, stream: u64, trailers: Option<Box<HeaderMap>>);

    /// Called when the transport accepts more of the local message.
    fn writable(&mut self, turn: &mut Turn<'_>, stream: u64);

    /// Called when the peer has abandoned its message.
    fn reset(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// Called when the peer has stopped reading the local message.
    fn stopped(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// Called when both messages have been abandoned because of a peer error.
    fn failed(&mut self, turn: &mut Turn<'_>, stream: u64, error: StreamError);

    /// Called when the peer has not completed a request in time. The request was already passed to
    /// the application, and is stopped with `code`.
    fn request_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// Called when the peer has not accepted the response in time. The response is reset with
    /// `code`.
    fn response_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code);

    /// Called when a datagram has arrived.
    fn datagram(&mut self, turn: &mut Turn<'_>, stream: u64, payload: Bytes);

    /// Called when the client has changed the priority of its request (server).
    fn priority(&mut self, stream: u64, priority: Priority) {
        let _ = (stream, priority);
    }

    /// Called when the peer accepts no more requests.
    fn going_away(&mut self) {}

    /// Called when these streams became writable or the peer granted more flow control credit for
    /// them.
    fn permitted(&mut self, turn: &mut Turn<'_>, streams: &[u64]) {
        let _ = (turn, streams);
    }

    /// Carries out the changes that the application requested since the last turn.
    fn changes(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Returns the limits on how long the peer may go without making progress.
    fn timeouts(&self) -> Option<Timeouts>;

    /// Returns whether the application waits for the rest of the peer's message, if the message is
    /// incomplete.
    fn wants_content(&self, stream: u64) -> bool;

    /// Returns whether the application needs flow control credit from the peer before it produces
    /// more of the response.
    fn awaits_credit(&self, stream: u64) -> bool {
        let _ = stream;
        false
    }

    /// Returns the time after the handshake at which the connection should be shut down.
    fn max_age(&self) -> Option<Duration> {
        None
    }

    /// Begins a graceful shutdown, since the connection has reached its maximum age.
    fn drain(&mut self) {}

    /// Removes and returns the code and reason with which the application closes the connection.
    fn take_close(&mut self) -> Option<(VarInt, Bytes)> {
        None
    }

    /// Returns how the connection should end.
    fn ending(&self) -> Ending;

    /// Abandons requests that no task waits for, since the connection is shutting down.
    fn give_up_unwanted(&mut self, turn: &mut Turn<'_>) {
        let _ = turn;
    }

    /// Returns whether the application needs no more streams and has accepted all requests.
    fn is_idle(&self) -> bool {
        true
    }

    /// Called when the connection has ended, after everything that was received has been passed to
    /// the application.
    fn ended(&mut self, error: Error);

    /// Ends the turn.
    fn close(self, turn: &mut Turn<'_>) -> Self::News;
}
