//! Sending requests and responses.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use super::send::SendPart;
use super::{Connection, RequestStream, Role};
use crate::frame::headers_frame;
use crate::message::{
    Content, Exchange, content_length, encode_request, encode_response, encode_trailers,
};
use crate::qpack::Encoder;
use crate::{Code, Event, SendError, Transport, WriteError};

/// Checks that a header section that ends the message does not announce content.
fn check_end(content: Content, end: bool) -> Result<(), SendError> {
    match content.announced() {
        Some(announced) if end && announced > 0 => {
            Err(SendError::ContentLength { announced, sent: 0 })
        }
        _ => Ok(()),
    }
}

impl Connection {
    /// Opens a stream, sends a request on it and returns the stream ID. Set `end` if the request has
    /// neither content nor trailers.
    ///
    /// Errors: [`SendError::StreamsBlocked`] (try again when the peer allows more streams),
    /// [`SendError::GoingAway`], [`SendError::Malformed`], [`SendError::FieldSectionTooLarge`],
    /// [`SendError::ContentLength`], [`SendError::WrongRole`], [`SendError::ConnectionClosed`].
    pub fn send_request<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        request: &Request<()>,
        end: bool,
    ) -> Result<u64, SendError> {
        self.check_role(Role::Client)?;
        // RFC 9114 §5.2.
        if self.peer_goaway.is_some() || self.control.goaway().is_some() {
            return Err(SendError::GoingAway);
        }
        let exchange = Exchange::new(request.method());
        let content = Content::new(exchange.request_rule(content_length(request.headers())?));
        check_end(content, end)?;
        let frame = self.frame(encode_request(request)?)?;
        let stream = transport.open_bidirectional().ok_or(SendError::StreamsBlocked)?;
        let send = SendPart::request(frame, content, end);
        self.requests.insert(stream, RequestStream::new(self.role, exchange, send));
        self.flush_request(transport, stream);
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
        let frame = self.frame(encode_response(response)?)?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_leading()?;
        entry.send.interim(frame);
        self.flush_request(transport, stream);
        Ok(())
    }

    /// Sends the final response's header section. Set `end` if neither content nor trailers follow.
    pub fn send_response<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        response: &Response<()>,
        end: bool,
    ) -> Result<(), SendError> {
        self.check_role(Role::Server)?;
        if response.status().is_informational() {
            return Err(SendError::Malformed {
                reason: "a final response must not have a 1xx status",
            });
        }
        let frame = self.frame(encode_response(response)?)?;
        let announced = content_length(response.headers())?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.check_leading()?;
        let content = Content::new(entry.exchange.response_rule(response.status(), announced));
        check_end(content, end)?;
        entry.send.headers(frame, content, end);
        self.flush_request(transport, stream);
        Ok(())
    }

    /// Sends content and returns how many bytes of `data` the transport took.
    ///
    /// The DATA frame has the length of the whole of `data`. If fewer bytes were taken, the rest must be
    /// sent before trailers or the end; [`Event::Writable`] reports when that is possible.
    ///
    /// Errors: [`SendError::ContentLength`] if it would be more than the content-length field says,
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
        match entry.send.body(transport, stream, data, &mut self.scratch) {
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
        let frame = self.frame(encode_trailers(trailers)?)?;
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        entry.send.trailers(frame)?;
        self.flush_request(transport, stream);
        Ok(())
    }

    /// Ends our message.
    ///
    /// Errors: [`SendError::FrameIncomplete`] and [`SendError::ContentLength`] if it would be
    /// malformed (send the rest, or call [`Connection::reset`]), [`SendError::OutOfOrder`],
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

    /// Abandons our message. A client cancels with [`Code::REQUEST_CANCELLED`]; a server may use
    /// [`Code::REQUEST_REJECTED`] only if it processed nothing (RFC 9114 §4.1.1).
    pub fn reset<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: Code) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if !entry.send.is_ended() {
            transport.reset(stream, code.get());
            entry.send.end();
        }
        self.retire(stream);
    }

    /// Asks the peer to stop sending the rest of its message. A server that has responded without needing
    /// it uses [`Code::NO_ERROR`] (RFC 9114 §4.1). No more events of that message follow.
    pub fn stop<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: Code) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if !entry.receive.is_ended() {
            transport.stop_sending(stream, code.get());
            entry.receive.end(&mut self.buffered);
        }
        self.retire(stream);
    }

    fn check_open(&self) -> Result<(), SendError> {
        if self.closed { Err(SendError::ConnectionClosed) } else { Ok(()) }
    }

    fn check_role(&self, role: Role) -> Result<(), SendError> {
        self.check_open()?;
        if self.role == role { Ok(()) } else { Err(SendError::WrongRole) }
    }

    /// The HEADERS frame for a field section, or an error if it is larger than the peer accepts.
    fn frame(&self, encoder: Encoder) -> Result<Bytes, SendError> {
        let limit = self.peer_settings.and_then(|settings| settings.max_field_section_size);
        match limit {
            Some(limit) if encoder.size() > limit => {
                Err(SendError::FieldSectionTooLarge { size: encoder.size(), limit })
            }
            _ => Ok(headers_frame(&encoder.finish())),
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
                    self.events.push_back(Event::Writable { stream });
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

    /// Handles the peer's request to stop sending our message.
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
        // RFC 9000 §3.5: with the peer's code.
        transport.reset(stream, code.get());
        entry.send.stop(code);
        if entry.shown {
            self.events.push_back(Event::Stopped { stream, code });
        }
        self.count_wasted(transport, stream);
        self.retire(stream);
    }
}
