//! Sending requests and responses.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use super::peer_control::remembered;
use super::priorities::ExchangePriority;
use super::send::SendPart;
use super::{Connection, RequestStream};
use crate::message::{
    Content, Exchange, content_length, encode_request, encode_response, encode_trailers,
};
use crate::{Code, Event, Priority, Protocol, Role, SendError, Transport, WriteError};

/// Checks that a header section that ends the message does not declare content.
fn check_end(content: Content, end: bool) -> Result<(), SendError> {
    match content.announced() {
        Some(announced) if end && announced > 0 => {
            Err(SendError::ContentLength { announced, sent: 0 })
        }
        _ => Ok(()),
    }
}

impl Connection {
    /// Opens a stream, sends a request on it and returns the stream ID.
    ///
    /// Set `end` if the request has neither content nor trailers. A [`Priority`] extension is sent
    /// as a `priority` field (RFC 9218 §5); a [`Protocol`] extension makes a CONNECT request an
    /// extended one (RFC 9220).
    ///
    /// # Errors
    /// Returns [`SendError::StreamsBlocked`] (retry when the peer allows more streams),
    /// [`SendError::GoingAway`], [`SendError::Malformed`], [`SendError::FieldSectionTooLarge`],
    /// [`SendError::ContentLength`], [`SendError::WrongRole`], [`SendError::ConnectionClosed`]; for
    /// a CONNECT with a [`Protocol`] also [`SendError::SettingsUnknown`] (try again later) and
    /// [`SendError::ExtendedConnectUnsupported`]. [`SendError::SettingsUnknown`] is also returned
    /// for a field section that is too large to be sent early, according to the server's previous
    /// settings.
    pub fn send_request<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        request: &Request<()>,
        end: bool,
    ) -> Result<u64, SendError> {
        self.check_role(Role::Client)?;
        // No requests are sent after a GOAWAY in either direction (RFC 9114 §5.2).
        if self.peer_goaway.is_some() || self.control.goaway().is_some() {
            return Err(SendError::GoingAway);
        }
        if request.extensions().get::<Protocol>().is_some() {
            // Extended CONNECT is used only once the server has advertised it (RFC 9220 §3, RFC
            // 8441 §3).
            let settings = self.peer_settings.ok_or(SendError::SettingsUnknown)?;
            if !settings.extended_connect {
                return Err(SendError::ExtendedConnectUnsupported);
            }
        }
        let exchange = Exchange::new(request);
        let content = Content::new(exchange.request_rule(content_length(request.headers())?));
        check_end(content, end)?;
        encode_request(&mut self.busy.lines, request)?;
        self.check_size(transport)?;
        let stream = transport.open_bidirectional().ok_or(SendError::StreamsBlocked)?;
        let frame = self.section_frame(transport, stream, None)?;
        let mut entry = RequestStream::new(self.role, exchange, SendPart::request(content, end));
        let stated = request.extensions().get::<Priority>().copied();
        let stated = stated.or_else(|| Priority::of_request(request.headers()));
        entry.priority = ExchangePriority::new(stated, exchange.is_tunnel());
        self.requests.insert(stream, entry);
        self.apply_priority(transport, stream);
        self.put_frame(transport, stream, frame);
        Ok(stream)
    }

    /// Sends an interim response (1xx, but not 101), any number of times before the response.
    pub fn send_informational<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        response: &Response<()>,
    ) -> Result<(), SendError> {
        self.check_role(Role::Server)?;
        if !response.status().is_informational() {
            return Err(SendError::Malformed {
                reason: "an interim response must have a 1xx status",
            });
        }
        let exchange = self.exchange(stream);
        encode_response(&mut self.busy.lines, exchange, response)?;
        self.check_size(transport)?;
        let entry = self.requests.get(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_leading()?;
        let frame = self.section_frame(transport, stream, None)?;
        self.put_frame(transport, stream, frame);
        Ok(())
    }

    /// Sends the final response's header section. Set `end` if neither content nor trailers follow.
    /// A `priority` field, or a [`Priority`] extension, changes the priority of the exchange (RFC
    /// 9218 §8).
    pub fn send_response<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        response: &Response<()>,
        end: bool,
    ) -> Result<(), SendError> {
        let content = self.prepare_response(transport, stream, response)?;
        check_end(content, end)?;
        self.prioritize_response(transport, stream, response);
        let frame = self.section_frame(transport, stream, None)?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.begin(content, end);
        self.put_frame(transport, stream, frame);
        Ok(())
    }

    /// Sends the final response's header section and content in one write.
    ///
    /// Equivalent to [`send_response`](Self::send_response), [`send_body`](Self::send_body) and, if
    /// `end` is set, [`finish`](Self::finish). Returns the number of bytes of `data` that the
    /// transport accepted, and whether the message is complete. If not, the rest of `data` and the
    /// end must be sent as if they had not been passed here.
    ///
    /// # Errors
    /// Returns the same errors as [`send_response`](Self::send_response). Errors in the content are
    /// reported only when it is sent with [`send_body`](Self::send_body); in this case, this method
    /// accepts none of the content.
    pub fn send_response_with<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        response: &Response<()>,
        data: Bytes,
        end: bool,
    ) -> Result<(usize, bool), SendError> {
        let content = self.prepare_response(transport, stream, response)?;
        self.prioritize_response(transport, stream, response);
        let length = data.len() as u64;
        let is_whole = end && content.announced().is_none_or(|announced| announced == length);
        if length == 0 || !content.admits(length) || end && !is_whole {
            let frame = self.section_frame(transport, stream, None)?;
            let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
            entry.send.begin(content, false);
            self.put_frame(transport, stream, frame);
            return Ok((0, false));
        }
        let frame = self.section_frame(transport, stream, Some(length))?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.begin(content, false);
        match entry.send.put(transport, stream, frame, Some(data), end) {
            Ok(taken) => {
                let is_over = entry.send.is_ended();
                self.retire(stream);
                Ok((taken, is_over))
            }
            Err(error) => {
                self.write_failed(transport, stream, error);
                Ok((0, false))
            }
        }
    }

    /// Checks a final response, and encodes its fields in `busy.lines`. Returns the rule for its
    /// content.
    fn prepare_response<T: Transport + ?Sized>(
        &mut self,
        transport: &T,
        stream: u64,
        response: &Response<()>,
    ) -> Result<Content, SendError> {
        self.check_role(Role::Server)?;
        if response.status().is_informational() {
            return Err(SendError::Malformed {
                reason: "a final response must not have a 1xx status",
            });
        }
        let exchange = self.exchange(stream);
        encode_response(&mut self.busy.lines, exchange, response)?;
        self.check_size(transport)?;
        let announced = content_length(response.headers())?;
        let entry = self.requests.get(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_leading()?;
        Ok(Content::new(entry.exchange.response_rule(response.status(), announced)))
    }

    /// Returns the kind of the exchange on `stream`.
    fn exchange(&self, stream: u64) -> Exchange {
        // Nothing is sent on unknown streams.
        self.requests.get(&stream).map_or(Exchange::Other, |entry| entry.exchange)
    }

    fn prioritize_response<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        response: &Response<()>,
    ) {
        let stated = response.extensions().get::<Priority>().copied();
        self.respond_with_priority(transport, stream, stated, response.headers());
    }

    /// Sends content and returns the number of bytes of `data` that the transport accepted.
    ///
    /// The DATA frame has the length of all of `data`. If fewer bytes were accepted, the rest must
    /// be sent before trailers or the end; [`Event::Writable`] reports when that is possible.
    ///
    /// # Errors
    /// Returns [`SendError::ContentLength`] if the content would exceed the content-length field,
    /// [`SendError::Stopped`], [`SendError::OutOfOrder`], [`SendError::StreamClosed`],
    /// [`SendError::ConnectionClosed`].
    pub fn send_body<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        data: Bytes,
    ) -> Result<usize, SendError> {
        self.check_open()?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_body(data.len() as u64)?;
        match entry.send.body(transport, stream, data, &mut self.busy.scratch) {
            Ok(taken) => Ok(taken),
            Err(error) => Err(self.write_failed(transport, stream, error)),
        }
    }

    /// Sends the trailer section, after all content and before `finish`.
    pub fn send_trailers<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        trailers: &HeaderMap,
    ) -> Result<(), SendError> {
        self.check_open()?;
        encode_trailers(&mut self.busy.lines, trailers)?;
        self.check_size(transport)?;
        let entry = self.requests.get(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_trailers()?;
        let frame = self.section_frame(transport, stream, None)?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.trailers();
        self.put_frame(transport, stream, frame);
        Ok(())
    }

    /// Ends the local message.
    ///
    /// # Errors
    /// Returns [`SendError::FrameIncomplete`] or [`SendError::ContentLength`] if the message would
    /// be malformed (send the rest, or call [`Connection::reset`]), [`SendError::OutOfOrder`],
    /// [`SendError::Stopped`], [`SendError::StreamClosed`], [`SendError::ConnectionClosed`].
    pub fn finish<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
    ) -> Result<(), SendError> {
        self.check_open()?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.finish()?;
        self.flush_request(transport, stream);
        Ok(())
    }

    /// Abandons the local message. Returns whether there was anything to abandon.
    ///
    /// A client cancels with [`Code::REQUEST_CANCELLED`]; a server may use
    /// [`Code::REQUEST_REJECTED`] only if it processed nothing (RFC 9114 §4.1.1).
    pub fn reset<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        code: Code,
    ) -> bool {
        let Some(entry) = self.requests.get_mut(&stream) else { return false };
        let is_sending = !entry.send.is_ended();
        if is_sending {
            transport.reset(stream, code.get());
            entry.send.end();
        }
        self.retire(stream);
        is_sending
    }

    /// Asks the peer to stop sending the rest of its message (STOP_SENDING). A server that has
    /// responded without needing the rest uses [`Code::NO_ERROR`] (RFC 9114 §4.1). There are no
    /// more events for the peer's message.
    pub fn stop<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: Code) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if !entry.receive.is_ended() {
            transport.stop_sending(stream, code.get());
            self.end_reading(stream, false);
            self.flush_feedback(transport);
        }
        self.retire(stream);
    }

    pub(super) fn check_open(&self) -> Result<(), SendError> {
        if self.closed { Err(SendError::ConnectionClosed) } else { Ok(()) }
    }

    fn check_role(&self, role: Role) -> Result<(), SendError> {
        self.check_open()?;
        if self.role == role { Ok(()) } else { Err(SendError::WrongRole) }
    }

    /// Checks that the field section in `busy.lines` is not larger than the peer accepts. Until the
    /// server's settings have arrived, its previous settings apply to early data (RFC 9114
    /// §7.2.4.2).
    fn check_size<T: Transport + ?Sized>(&self, transport: &T) -> Result<(), SendError> {
        let known = self.peer_settings.or_else(|| remembered(transport));
        let limit = known.and_then(|settings| settings.max_field_section_size);
        let size = self.busy.lines.size();
        match limit {
            Some(limit) if size > limit && self.peer_settings.is_some() => {
                Err(SendError::FieldSectionTooLarge { size, limit })
            }
            Some(limit) if size > limit => Err(SendError::SettingsUnknown),
            _ => Ok(()),
        }
    }

    /// Writes a frame of the local message to the transport, after pending data.
    fn put_frame<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, frame: Bytes) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        match entry.send.put(transport, stream, frame, None, false) {
            Ok(_) => self.retire(stream),
            Err(error) => {
                self.write_failed(transport, stream, error);
            }
        }
    }

    /// Writes the pending data of a request stream to the transport.
    pub(super) fn flush_request<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if entry.send.is_ended() {
            return;
        }
        match entry.send.flush(transport, stream) {
            Ok(_) => {
                if entry.send.take_unblocked() {
                    self.busy.events.push_back(Event::Writable { stream });
                }
                self.retire(stream);
            }
            Err(error) => {
                self.write_failed(transport, stream, error);
            }
        }
    }

    fn write_failed<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        error: WriteError,
    ) -> SendError {
        match error {
            WriteError::Stopped(code) => {
                let code = Code::new(code);
                self.request_stopped(transport, stream, code);
                SendError::Stopped(code)
            }
            WriteError::Closed => {
                if let Some(entry) = self.requests.get_mut(&stream) {
                    entry.send.end();
                }
                self.retire(stream);
                SendError::StreamClosed
            }
        }
    }

    /// Handles the peer's STOP_SENDING for the local message.
    pub(super) fn request_stopped<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        code: Code,
    ) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if entry.send.is_ended() {
            return;
        }
        // The stream is reset with the peer's error code (RFC 9000 §3.5).
        transport.reset(stream, code.get());
        entry.send.stop(code);
        if entry.shown {
            self.busy.events.push_back(Event::Stopped { stream, code });
        }
        self.count_wasted(transport, stream);
        self.retire(stream);
    }
}
