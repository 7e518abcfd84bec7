//! Receiving requests and responses.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::uri::Authority;

use super::priorities::ExchangePriority;
use super::receive::{Body, Buffering, Phase, Receive, Step};
use super::send::SendPart;
use super::{Connection, Fault, RequestStream};
use crate::frame::headers_frame;
use crate::message::{Content, Exchange, FieldSection, SectionKind, encode_response};
use crate::qpack::{DecodeFailure, Decoded, FieldLines, encode_static};
use crate::{Code, ConnectionError, Event, Priority, ReadEnd, Role, StreamError, Transport};

/// Maximum length in bytes of an authority that is kept for later requests.
const LONGEST_KEPT_AUTHORITY: usize = 255;

/// Number of wasted requests that one completed request offsets.
const CREDIT: u32 = 4;

impl RequestStream {
    pub(super) fn new(role: Role, exchange: Exchange, send: SendPart) -> Self {
        Self {
            receive: Receive::new(role),
            send,
            exchange,
            shown: role == Role::Client,
            data_reported: false,
            informational_responses: 0,
            priority: ExchangePriority::default(),
            is_wasted: false,
        }
    }
}

impl Connection {
    pub(super) fn accept_request<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        if self.role == Role::Client {
            return self.fail(
                transport,
                ConnectionError::new(
                    Code::STREAM_CREATION_ERROR,
                    "a server opened a bidirectional stream",
                ),
            );
        }
        if self.control.goaway().is_some_and(|id| stream >= id) {
            transport.reset(stream, Code::REQUEST_REJECTED.get());
            transport.stop_sending(stream, Code::REQUEST_REJECTED.get());
            self.decoder.cancel(stream);
            return;
        }
        self.next_request = self.next_request.max(stream.saturating_add(4));
        let request = RequestStream::new(self.role, Exchange::Other, SendPart::response());
        self.requests.insert(stream, request);
        self.drive_request(transport, stream);
    }

    /// Reads a request stream until nothing more can be read, or until the application must first
    /// read content.
    pub(super) fn drive_request<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        while !self.is_blocked(stream)
            && let Some(request) = self.requests.get_mut(&stream)
        {
            if request.receive.is_ended() {
                return;
            }
            let mut buffering = Buffering {
                buffered: &mut self.buffered,
                max_buffered: self.config.max_buffered_field_sections,
                max_section: self.config.max_field_section_size,
            };
            match request.receive.step(transport, stream, &mut buffering) {
                Ok(Step::Blocked) => return,
                Ok(Step::Data) => {
                    if !request.data_reported {
                        request.data_reported = true;
                        self.busy.events.push_back(Event::Data { stream });
                    }
                    return;
                }
                Ok(Step::Section(section)) => {
                    if let Err(fault) = self.section(transport, stream, &section) {
                        self.fault(transport, stream, fault);
                    }
                }
                Ok(Step::Finished) => self.message_end(transport, stream),
                Ok(Step::Reset(code)) => self.peer_reset(transport, stream, code),
                Err(fault) => self.fault(transport, stream, fault),
            }
        }
    }

    /// Handles a reset, even if earlier content has not been read.
    pub(super) fn notice_reset<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        let awaits_reader =
            |request: &RequestStream| !request.receive.is_ended() && request.receive.has_content();
        let is_waiting = self.requests.get(&stream).is_some_and(awaits_reader);
        if (is_waiting || self.is_blocked(stream))
            && let Err(ReadEnd::Reset(code)) = transport.read(stream, 0)
        {
            self.peer_reset(transport, stream, Code::new(code));
        }
    }

    /// Returns the next content of the peer's message on `stream`, at most `max` bytes, without
    /// copying.
    ///
    /// `None` means that nothing can be read now, or that the content has ended: [`Event::Data`] or
    /// [`Event::Finished`] follows. An application slows its peer down by not calling this. Once it
    /// has begun to read, it must continue until it gets `None`, since only then are the frames
    /// after the content read.
    pub fn read_body<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        max: usize,
    ) -> Option<Bytes> {
        let chunk = self.next_content(transport, stream, max);
        if chunk.is_none() {
            self.flush_feedback(transport);
        }
        chunk
    }

    fn next_content<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        max: usize,
    ) -> Option<Bytes> {
        loop {
            let request = self.requests.get_mut(&stream)?;
            if request.receive.is_ended() {
                return None;
            }
            match request.receive.body(transport, stream, max) {
                Ok(Body::Chunk(chunk)) => return Some(chunk),
                Ok(Body::Blocked) => {
                    request.data_reported = false;
                    return None;
                }
                Ok(Body::Other) => {
                    // While the application is reading, additional content needs no event.
                    request.data_reported = true;
                    self.drive_request(transport, stream);
                    let request = self.requests.get_mut(&stream)?;
                    if !request.receive.has_content() {
                        request.data_reported = false;
                        return None;
                    }
                }
                Err(ReadEnd::Reset(code)) => {
                    self.peer_reset(transport, stream, Code::new(code));
                    return None;
                }
                Err(ReadEnd::Finished) => {
                    if let Err(fault) = request.receive.finished() {
                        self.fault(transport, stream, fault);
                    }
                    return None;
                }
            }
        }
    }

    /// Decodes and checks a field section, and queues its event for the application. If the section
    /// has to wait for dynamic table entries, it is kept instead.
    pub(super) fn section<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        section: &[u8],
    ) -> Result<(), Fault> {
        let Some(request) = self.requests.get_mut(&stream) else { return Ok(()) };
        let kind = match (request.receive.phase, self.role) {
            (Phase::Leading, Role::Server) => SectionKind::Request,
            (Phase::Leading, Role::Client) => SectionKind::Response,
            _ => SectionKind::Trailers,
        };
        let mut fields = FieldSection::new(kind);
        fields.expect_authority(self.busy.authority.as_ref());
        let limit = self.config.max_field_section_size;
        let decoded = self.decoder.decode(stream, section, limit, |field| fields.field(field));
        match decoded {
            Ok(Decoded::Whole) => {}
            Ok(Decoded::Blocked { required }) => return self.block(stream, section, required),
            Err(DecodeFailure::Invalid(error)) => return Err(ConnectionError::from(error).into()),
            Err(DecodeFailure::TooLarge) => return Err(Fault::TooLarge),
            Err(DecodeFailure::Refused(error)) => return Err(error.into()),
        }
        match kind {
            SectionKind::Request => self.request(transport, stream, fields)?,
            SectionKind::Response => self.response(stream, fields)?,
            SectionKind::Trailers => self.trailers(stream, fields)?,
        }
        Ok(())
    }

    fn request<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        fields: FieldSection,
    ) -> Result<(), StreamError> {
        // Extended CONNECT is allowed only if this endpoint has advertised it (RFC 9220 §3, RFC
        // 8441 §3).
        if fields.has_protocol() && !self.config.extended_connect {
            return Err(StreamError::malformed("extended CONNECT is not enabled"));
        }
        let announced = fields.content_length();
        let mut request = fields.into_request()?;
        let kept = self.busy.authority.as_ref().map(Authority::as_str);
        if let Some(authority) = request.uri().authority()
            && Some(authority.as_str()) != kept
            && authority.as_str().len() <= LONGEST_KEPT_AUTHORITY
        {
            self.busy.authority = Some(authority.clone());
        }
        let stated = request.extensions().get::<Priority>().copied();
        let client = self.early_priority(stream, stated);
        if let Some(priority) = client.filter(|client| Some(*client) != stated) {
            request.extensions_mut().insert(priority);
        }
        let Some(entry) = self.requests.get_mut(&stream) else { return Ok(()) };
        entry.exchange = Exchange::new(&request);
        entry.priority = ExchangePriority::new(client, entry.exchange.is_tunnel());
        entry.receive.content = Content::new(entry.exchange.request_rule(announced));
        entry.receive.phase = Phase::Content;
        entry.shown = true;
        self.busy.events.push_back(Event::Request { stream, request });
        self.apply_priority(transport, stream);
        Ok(())
    }

    fn response(&mut self, stream: u64, fields: FieldSection) -> Result<(), StreamError> {
        let Some(entry) = self.requests.get_mut(&stream) else { return Ok(()) };
        let announced = fields.content_length();
        let response = fields.into_response(entry.exchange)?;
        if response.status().is_informational() {
            entry.informational_responses = entry.informational_responses.saturating_add(1);
            if entry.informational_responses > self.config.max_informational_responses {
                let reason = "too many interim responses";
                return Err(StreamError::new(Code::EXCESSIVE_LOAD, reason));
            }
            self.busy.events.push_back(Event::Informational { stream, response });
            return Ok(());
        }
        let rule = entry.exchange.response_rule(response.status(), announced);
        entry.receive.content = Content::new(rule);
        entry.receive.phase = Phase::Content;
        self.busy.events.push_back(Event::Response { stream, response });
        Ok(())
    }

    fn trailers(&mut self, stream: u64, fields: FieldSection) -> Result<(), StreamError> {
        let Some(entry) = self.requests.get_mut(&stream) else { return Ok(()) };
        if !entry.receive.content.is_complete() {
            return Err(SHORT);
        }
        entry.receive.phase = Phase::Trailed;
        let fields = fields.into_trailers();
        self.busy.events.push_back(Event::Trailers { stream, fields });
        Ok(())
    }

    /// Handles the end of the peer's message: checks that it is complete (RFC 9114 §4.1, §4.1.2).
    fn message_end<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if entry.receive.phase == Phase::Leading {
            let error = match self.role {
                Role::Server => StreamError::new(
                    Code::REQUEST_INCOMPLETE,
                    "the request stream ended before the headers",
                ),
                Role::Client => StreamError::malformed("the stream ended without a final response"),
            };
            return self.fault(transport, stream, error.into());
        }
        if !entry.receive.content.is_complete() {
            return self.fault(transport, stream, SHORT.into());
        }
        self.end_reading(stream, true);
        self.busy.events.push_back(Event::Finished { stream });
        self.retire(stream);
    }

    fn peer_reset<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64, code: Code) {
        let is_cut_off = self.is_cut_off(transport, stream);
        self.end_reading(stream, false);
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if is_cut_off {
            return;
        }
        let is_answered = entry.send.is_ended();
        if entry.shown {
            self.busy.events.push_back(Event::Reset { stream, code });
        } else {
            // The request was not processed, so it is rejected (RFC 9114 §4.1.1).
            transport.reset(stream, Code::REQUEST_REJECTED.get());
            entry.send.end();
        }
        if !is_answered {
            self.count_wasted(transport, stream);
        }
        self.retire(stream);
    }

    /// Handles an error on `stream` as the RFC requires.
    pub(super) fn fault<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        fault: Fault,
    ) {
        match fault {
            Fault::Connection(error) => self.fail(transport, error),
            Fault::Stream(error) => self.abandon(transport, stream, error.code, error),
            Fault::TooLarge => {
                let is_unseen = self.requests.get(&stream).is_some_and(|request| !request.shown);
                if is_unseen {
                    self.refuse_large_request(transport, stream);
                } else {
                    let reason = "a field section is larger than this endpoint accepts";
                    let error = StreamError::new(Code::EXCESSIVE_LOAD, reason);
                    self.abandon(transport, stream, error.code, error);
                }
            }
        }
    }

    /// Responds with 431 (RFC 9114 §4.2.2) on behalf of the application, which is not notified of
    /// the request.
    fn refuse_large_request<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        self.end_reading(stream, false);
        let mut lines = FieldLines::default();
        if let (Some(entry), Ok(())) = (
            self.requests.get_mut(&stream),
            encode_response(&mut lines, Exchange::Other, &response),
        ) {
            transport.stop_sending(stream, Code::EXCESSIVE_LOAD.get());
            entry.send.refuse(headers_frame(&mut BytesMut::new(), &encode_static(&lines), None));
        }
        self.count_wasted(transport, stream);
        self.flush_request(transport, stream);
    }

    /// Abandons both directions of `stream` with `code` because of `error`.
    pub(super) fn abandon<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        code: Code,
        error: StreamError,
    ) {
        self.count_wasted(transport, stream);
        self.end_reading(stream, false);
        let Some(shown) = self.requests.get(&stream).map(|entry| entry.shown) else { return };
        self.requests.remove(stream);
        transport.reset(stream, code.get());
        transport.stop_sending(stream, code.get());
        if shown {
            self.busy.events.push_back(Event::Failed { stream, error });
        }
    }

    /// Counts a request that the peer wasted.
    pub(super) fn count_wasted<T: Transport + ?Sized>(&mut self, transport: &mut T, stream: u64) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if self.role == Role::Client || entry.is_wasted {
            return;
        }
        entry.is_wasted = true;
        match self.waste_left.checked_sub(1) {
            Some(left) => self.waste_left = left,
            None => self.fail(
                transport,
                ConnectionError::new(Code::EXCESSIVE_LOAD, "too many canceled requests"),
            ),
        }
    }

    /// Removes a request stream once both of its directions have ended.
    pub(super) fn retire(&mut self, stream: u64) {
        let Some(entry) = self.requests.get(&stream) else { return };
        if !entry.receive.is_ended() || !entry.send.is_ended() {
            return;
        }
        let is_wasted = entry.is_wasted;
        self.requests.remove(stream);
        if !is_wasted {
            let waste_left = self.waste_left.saturating_add(CREDIT);
            self.waste_left = waste_left.min(self.config.max_cancelled_requests);
        }
    }
}

const SHORT: StreamError = StreamError::malformed("the content is shorter than content-length");
