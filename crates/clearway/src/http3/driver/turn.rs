//! HTTP/3 as a face uses it.

use bytes::Bytes;
use clearway_http3::{Code, DatagramError, Priority, QuicStreams, Role, SendError, Transport};
use clearway_transport::{Connection, SendCredits, StreamProgress};
use clearway_wire::{StreamId, VarInt};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::super::early::Early;
use super::Core;

/// The protocol and its streams, for one turn of the driver or a part of it. A message can be sent, ended or abandoned only here,
/// where it is noted that the peer has not acknowledged that yet.
pub(in crate::http3) struct Turn<'a> {
    pub(super) core: &'a mut Core,
    pub(super) streams: QuicStreams<'a>,
    /// The connection has ended: everything that was received is passed on, whatever its size, which flow control has bounded.
    pub(super) is_draining: bool,
}

fn stream_id(stream: u64) -> StreamId {
    StreamId::from_varint(VarInt::saturating(stream))
}

impl<'a> Turn<'a> {
    pub(super) fn new(core: &'a mut Core, streams: QuicStreams<'a>) -> Self {
        Self { core, streams, is_draining: false }
    }

    /// The same turn, borrowed for a shorter lifetime.
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

    /// Whether the connection has ended, so that everything that was received is to be read.
    pub(in crate::http3) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Marks a request that came in early data. Returns whether it was refused, because its method is not safe.
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
        // If the client has gone, there is nobody to answer.
        let _ = self.respond(stream, &too_early, true);
        self.stop(stream, Code::NO_ERROR);
        true
    }

    /// Opens a stream for a request, and sends it.
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

    /// Sends the header section of a response and its first content in one write, and its end, too, if it `is_last`. Returns how
    /// many bytes of content the transport has taken, and whether the response is complete.
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

    /// Sends content. Returns how many bytes of it the transport has taken.
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

    /// A message was passed to the transport: closing the connection before the peer has acknowledged it could lose it.
    fn note_end(&mut self, stream: u64, is_whole: bool) {
        if is_whole {
            self.core.undelivered.add(stream);
        }
    }

    /// Abandons this end's message.
    pub(in crate::http3) fn reset(&mut self, stream: u64, code: Code) {
        // For a request that a client abandons, the end of the connection says the same.
        if self.core.http3.reset(&mut self.streams, stream, code) && self.role() == Role::Server {
            self.core.undelivered.add(stream);
        }
    }

    /// Abandons this end's message, also if it is complete and the peer has not acknowledged all of it.
    pub(in crate::http3) fn abort(&mut self, stream: u64, code: Code) {
        self.reset(stream, code);
        // The protocol may have finished the stream already and discarded it, so reset the transport's stream as well.
        self.streams.reset(stream, code.get());
    }

    /// Stops reading the peer's message. No more is passed on of it.
    pub(in crate::http3) fn stop(&mut self, stream: u64, code: Code) {
        self.core.http3.stop(&mut self.streams, stream, code);
        self.core.take_trailers(stream);
    }

    /// The next content of the peer's message, at most `max` bytes; `None` if there is none now.
    pub(in crate::http3) fn read(&mut self, stream: u64, max: usize) -> Option<Bytes> {
        self.core.http3.read_body(&mut self.streams, stream, max)
    }

    /// Whether a response can still be sent and was not begun (server).
    pub(in crate::http3) fn awaits_response(&self, stream: u64) -> bool {
        self.core.http3.awaits_response(stream)
    }

    pub(in crate::http3) fn priority(&self, stream: u64) -> Priority {
        self.core.http3.priority(stream).unwrap_or_default()
    }

    pub(in crate::http3) fn set_priority(&mut self, stream: u64, priority: Priority) {
        // An exchange that has ended needs no priority.
        let _ = self.core.http3.set_priority(&mut self.streams, stream, priority);
    }

    pub(in crate::http3) fn send_datagram(
        &mut self,
        stream: u64,
        payload: &[u8],
    ) -> Result<(), DatagramError> {
        self.core.http3.send_datagram(&mut self.streams, stream, payload)
    }

    /// The largest payload of a datagram that can be sent now, in bytes.
    pub(in crate::http3) fn max_datagram(&mut self, stream: u64) -> Option<usize> {
        self.core.http3.max_datagram(&mut self.streams, stream).ok()
    }

    /// How much the peer permits to send on a stream, if it can be written to.
    pub(in crate::http3) fn credit(&mut self, stream: u64) -> Option<SendCredits> {
        self.streams.connection_mut().send_credit(stream_id(stream)).ok()
    }

    /// Asks for the news when the peer permits to send more on a stream.
    pub(in crate::http3) fn await_credit(&mut self, stream: u64) {
        // This fails if nothing can be written any more, which an event reports.
        let _ = self.streams.connection_mut().await_credit(stream_id(stream));
    }

    pub(super) fn progress(&mut self, stream: u64) -> Option<StreamProgress> {
        self.streams.connection_mut().stream_progress(stream_id(stream))
    }
}
