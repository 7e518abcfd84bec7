//! The driver's HTTP/3 operations, for use by the application.

use bytes::Bytes;
use clearway_http3::{Code, DatagramError, Priority, QuicStreams, Role, SendError, Transport};
use clearway_transport::{Connection, SendCredits, StreamProgress};
use clearway_wire::{StreamId, VarInt};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::super::early::Early;
use super::Core;

/// The HTTP/3 connection and its streams, for one turn of the driver or part of a turn. Messages
/// can be sent, ended or abandoned only here, so that unacknowledged messages are recorded.
pub(in crate::http3) struct Turn<'a> {
    pub(super) core: &'a mut Core,
    pub(super) streams: QuicStreams<'a>,
    /// Whether the connection has ended. If so, all received data is passed on, regardless of its
    /// size, which flow control has already limited.
    pub(super) is_draining: bool,
}

fn stream_id(stream: u64) -> StreamId {
    StreamId::from_varint(VarInt::saturating(stream))
}

impl<'a> Turn<'a> {
    pub(super) fn new(core: &'a mut Core, streams: QuicStreams<'a>) -> Self {
        Self { core, streams, is_draining: false }
    }

    /// Borrows the turn for a shorter lifetime.
    pub(in crate::http3) fn reborrow(&mut self) -> Turn<'_> {
        Turn {
            core: &mut *self.core,
            streams: self.streams.reborrow(),
            is_draining: self.is_draining,
        }
    }

    pub(in crate::http3) fn role(&self) -> Role {
        self.core.http3.role()
    }

    pub(in crate::http3) fn connection(&self) -> &Connection {
        self.streams.connection()
    }

    /// Returns whether the connection has ended, in which case everything received must be read.
    pub(in crate::http3) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Marks a request that arrived in early data. Returns whether it was refused because its
    /// method is not safe.
    pub(super) fn is_too_early(&mut self, stream: u64, request: &mut Request<()>) -> bool {
        if !self.streams.connection_mut().is_early(stream_id(stream)) {
            return false;
        }
        if request.method().is_safe() && request.method() != Method::CONNECT {
            request.extensions_mut().insert(Early);
            return false;
        }
        let mut too_early = Response::new(());
        *too_early.status_mut() = StatusCode::TOO_EARLY;
        // Fails if the client is gone; no response is needed then.
        let _ = self.respond(stream, &too_early, true);
        self.stop(stream, Code::NO_ERROR);
        true
    }

    /// Opens a stream for a request, and sends the request.
    pub(in crate::http3) fn send_request(
        &mut self,
        request: &Request<()>,
        is_whole: bool,
    ) -> Result<u64, SendError> {
        let stream = self.core.http3.send_request(&mut self.streams, request, is_whole)?;
        self.note_end(stream, is_whole);
        Ok(stream)
    }

    /// Sends an interim response.
    pub(in crate::http3) fn inform(
        &mut self,
        stream: u64,
        response: &Response<()>,
    ) -> Result<(), SendError> {
        self.core.http3.send_informational(&mut self.streams, stream, response)
    }

    /// Sends the header section of a response.
    pub(in crate::http3) fn respond(
        &mut self,
        stream: u64,
        response: &Response<()>,
        is_whole: bool,
    ) -> Result<(), SendError> {
        self.core.http3.send_response(&mut self.streams, stream, response, is_whole)?;
        self.note_end(stream, is_whole);
        Ok(())
    }

    /// Sends the header section of a response and its first content in one write, which also ends
    /// the message if `is_last` is set. Returns the number of bytes of content that the transport
    /// has accepted, and whether the response is complete.
    pub(in crate::http3) fn respond_with(
        &mut self,
        stream: u64,
        response: &Response<()>,
        content: Bytes,
        is_last: bool,
    ) -> Result<(usize, bool), SendError> {
        let Self { core, streams, .. } = self;
        let sent = core.http3.send_response_with(streams, stream, response, content, is_last)?;
        self.note_end(stream, sent.1);
        Ok(sent)
    }

    /// Sends content. Returns the number of bytes that the transport has accepted.
    pub(in crate::http3) fn send_body(
        &mut self,
        stream: u64,
        content: Bytes,
    ) -> Result<usize, SendError> {
        self.core.http3.send_body(&mut self.streams, stream, content)
    }

    /// Ends a message, with `trailers` if there are any.
    pub(in crate::http3) fn finish(
        &mut self,
        stream: u64,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), SendError> {
        if let Some(trailers) = trailers {
            self.core.http3.send_trailers(&mut self.streams, stream, trailers)?;
        }
        self.core.http3.finish(&mut self.streams, stream)?;
        self.note_end(stream, true);
        Ok(())
    }

    /// Records a message that was passed to the transport: closing the connection before the peer
    /// has acknowledged it could lose it.
    fn note_end(&mut self, stream: u64, is_whole: bool) {
        if is_whole {
            self.core.undelivered.add(stream);
        }
    }

    /// Abandons the local message.
    pub(in crate::http3) fn reset(&mut self, stream: u64, code: Code) {
        // The peer treats the end of the connection like the reset of an abandoned request, so only
        // servers record it.
        if self.core.http3.reset(&mut self.streams, stream, code) && self.role() == Role::Server {
            self.core.undelivered.add(stream);
        }
    }

    /// Abandons the local message, even if it is complete and the peer has not acknowledged all of
    /// it.
    pub(in crate::http3) fn abort(&mut self, stream: u64, code: Code) {
        self.reset(stream, code);
        // The protocol may already have finished and discarded the stream, so the transport's
        // stream is reset as well.
        self.streams.reset(stream, code.get());
    }

    /// Stops reading the peer's message. The rest of the message is not passed on.
    pub(in crate::http3) fn stop(&mut self, stream: u64, code: Code) {
        self.core.http3.stop(&mut self.streams, stream, code);
        self.core.take_trailers(stream);
    }

    /// Returns the next content of the peer's message, at most `max` bytes; `None` if no content is
    /// available now.
    pub(in crate::http3) fn read(&mut self, stream: u64, max: usize) -> Option<Bytes> {
        self.core.http3.read_body(&mut self.streams, stream, max)
    }

    /// Returns whether a response can still be sent and has not begun (server).
    pub(in crate::http3) fn awaits_response(&self, stream: u64) -> bool {
        self.core.http3.awaits_response(stream)
    }

    pub(in crate::http3) fn priority(&self, stream: u64) -> Priority {
        self.core.http3.priority(stream).unwrap_or_default()
    }

    pub(in crate::http3) fn set_priority(&mut self, stream: u64, priority: Priority) {
        // Fails if the exchange has ended; it then needs no priority.
        let _ = self.core.http3.set_priority(&mut self.streams, stream, priority);
    }

    pub(in crate::http3) fn send_datagram(
        &mut self,
        stream: u64,
        payload: &[u8],
    ) -> Result<(), DatagramError> {
        self.core.http3.send_datagram(&mut self.streams, stream, payload)
    }

    /// Returns the largest datagram payload that can be sent now, in bytes.
    pub(in crate::http3) fn max_datagram(&mut self, stream: u64) -> Option<usize> {
        self.core.http3.max_datagram(&mut self.streams, stream).ok()
    }

    /// Starts path MTU discovery because a datagram is too large for the path.
    pub(in crate::http3) fn want_larger_datagrams(&mut self) {
        self.streams.connection_mut().want_larger_datagrams();
    }

    /// Returns the peer's flow control credit for a stream, if the stream is writable.
    pub(in crate::http3) fn credit(&mut self, stream: u64) -> Option<SendCredits> {
        self.streams.connection_mut().send_credit(stream_id(stream)).ok()
    }

    /// Requests an event for when the peer grants more flow control credit for a stream.
    pub(in crate::http3) fn await_credit(&mut self, stream: u64) {
        // Fails if nothing more can be written; an event reports this.
        let _ = self.streams.connection_mut().await_credit(stream_id(stream));
    }

    pub(super) fn progress(&mut self, stream: u64) -> Option<StreamProgress> {
        self.streams.connection_mut().stream_progress(stream_id(stream))
    }
}
