//! The sending part of a request stream: the state of the local message, and data that the
//! transport has not accepted yet.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use crate::frame::data_header;
use crate::message::{Content, ContentRule};
use crate::{Code, SendError, Transport, WriteError};

/// The part of the local message that has been queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The headers of the request or final response come next.
    Leading,
    /// Content, trailers or the end can follow.
    Content,
    /// Only the end can follow.
    Trailed,
    /// The entire message was queued; the transport may not have accepted all of it yet.
    Finishing,
    /// The transport has accepted everything, or the rest was abandoned.
    Ended,
}

/// The local message on one stream.
#[derive(Debug)]
pub(super) struct SendPart {
    phase: Phase,
    content: Content,
    /// Frames and frame headers that the transport has not accepted. The application's content is
    /// never stored here.
    pending: VecDeque<Bytes>,
    /// Number of bytes of content that are missing from the current DATA frame.
    frame_remaining: u64,
    /// Whether the application is waiting to send more.
    blocked: bool,
    stopped: Option<Code>,
}

impl SendPart {
    /// Creates a response that has not been started.
    pub(super) fn response() -> Self {
        Self {
            phase: Phase::Leading,
            content: Content::new(ContentRule::None),
            pending: VecDeque::new(),
            frame_remaining: 0,
            blocked: false,
            stopped: None,
        }
    }

    /// Creates a request whose header section is sent next.
    pub(super) fn request(content: Content, end: bool) -> Self {
        let mut send = Self::response();
        send.begin(content, end);
        send
    }

    /// Checks that the header section has not been sent and still can be.
    pub(super) fn check_leading(&self) -> Result<(), SendError> {
        match self.phase {
            Phase::Leading => Ok(()),
            _ => Err(self.refusal("the message was already started")),
        }
    }

    /// Checks that content and trailers can be sent.
    fn check_content(&self) -> Result<(), SendError> {
        match self.phase {
            Phase::Content => Ok(()),
            Phase::Leading => Err(self.refusal("the header section must be sent first")),
            _ => Err(self.refusal("the message has already ended")),
        }
    }

    fn refusal(&self, reason: &'static str) -> SendError {
        match (self.stopped, self.phase) {
            (Some(code), _) => SendError::Stopped(code),
            (None, Phase::Ended) => SendError::StreamClosed,
            (None, _) => SendError::OutOfOrder { reason },
        }
    }

    /// Checks that the message is complete: DATA frames are filled, and the content has the
    /// declared length.
    fn check_complete(&self) -> Result<(), SendError> {
        if self.frame_remaining > 0 {
            return Err(SendError::FrameIncomplete { missing: self.frame_remaining });
        }
        match self.content.announced() {
            Some(announced) if announced != self.content.length() => {
                Err(SendError::ContentLength { announced, sent: self.content.length() })
            }
            _ => Ok(()),
        }
    }

    /// Begins the message with the header section of the request or final response, which is sent
    /// next.
    pub(super) fn begin(&mut self, content: Content, end: bool) {
        self.content = content;
        self.phase = if end { Phase::Finishing } else { Phase::Content };
    }

    /// Queues an entire response, regardless of what was sent before.
    pub(super) fn refuse(&mut self, frame: Bytes) {
        self.pending.push_back(frame);
        self.phase = Phase::Finishing;
    }

    /// Checks that the trailer section can be sent.
    pub(super) fn check_trailers(&self) -> Result<(), SendError> {
        self.check_content()?;
        if self.content.is_tunnel() {
            return Err(SendError::OutOfOrder { reason: "a CONNECT tunnel cannot have trailers" });
        }
        self.check_complete()
    }

    /// Records that the trailer section is sent next.
    pub(super) fn trailers(&mut self) {
        self.phase = Phase::Trailed;
    }

    /// Ends the message.
    pub(super) fn finish(&mut self) -> Result<(), SendError> {
        if self.phase != Phase::Trailed {
            self.check_content()?;
            self.check_complete()?;
        }
        self.phase = Phase::Finishing;
        Ok(())
    }

    /// Drops pending data, since the sending part has ended.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Ended;
        self.pending = VecDeque::new();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Handles the peer's STOP_SENDING.
    pub(super) fn stop(&mut self, code: Code) {
        self.stopped = Some(code);
        self.end();
    }

    /// Returns whether the application was waiting and can now continue; returns `true` only once.
    pub(super) fn take_unblocked(&mut self) -> bool {
        let is_open = self.phase == Phase::Content && self.pending.is_empty();
        is_open && core::mem::take(&mut self.blocked)
    }

    /// Writes `frame` after pending data, and the end if it is due. If `content` is given, the
    /// frame ends with the header of a DATA frame for it; the message ends after it if `end` is
    /// set. Returns the number of bytes of content that the transport accepted. The rest of the
    /// frame is kept, but not the rest of the content.
    pub(super) fn put<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        mut frame: Bytes,
        content: Option<Bytes>,
        end: bool,
    ) -> Result<usize, WriteError> {
        if let Some(content) = &content {
            self.frame_remaining = content.len() as u64;
        }
        if !self.pending.is_empty() {
            self.pending.push_back(frame);
            self.blocked |= content.is_some();
            self.flush(transport, stream)?;
            return Ok(0);
        }
        let end = end || self.phase == Phase::Finishing;
        let content = content.unwrap_or_default();
        let wanted = content.len();
        let taken = transport.write_parts(stream, [frame.clone(), content], end)?;
        let Some(taken) = taken.checked_sub(frame.len()) else {
            frame.advance(taken);
            self.pending.push_back(frame);
            self.blocked |= wanted > 0;
            return Ok(0);
        };
        let taken = taken.min(wanted);
        self.content.add(taken as u64);
        self.frame_remaining = self.frame_remaining.saturating_sub(taken as u64);
        self.blocked = taken < wanted;
        if end && taken == wanted {
            self.phase = Phase::Ended;
        }
        Ok(taken)
    }

    /// Writes the pending data and the end to the transport. Returns whether nothing is pending
    /// anymore.
    pub(super) fn flush<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
    ) -> Result<bool, WriteError> {
        while let Some(bytes) = self.pending.front_mut() {
            let taken = transport.write(stream, bytes.clone())?;
            bytes.advance(taken.min(bytes.len()));
            if !bytes.is_empty() {
                return Ok(false);
            }
            self.pending.pop_front();
        }
        if self.phase == Phase::Finishing {
            transport.finish(stream)?;
            self.phase = Phase::Ended;
        }
        Ok(true)
    }

    /// Checks that `more` bytes of content may be sent.
    pub(super) fn check_body(&self, more: u64) -> Result<(), SendError> {
        self.check_content()?;
        if self.content.admits(more) {
            return Ok(());
        }
        let announced = self.content.announced().unwrap_or(0);
        let sent = self.content.length().saturating_add(more);
        Err(SendError::ContentLength { announced, sent })
    }

    /// Writes content in DATA frames and returns the number of bytes that the transport accepted.
    pub(super) fn body<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        mut data: Bytes,
        scratch: &mut BytesMut,
    ) -> Result<usize, WriteError> {
        let mut total = 0usize;
        while !data.is_empty() && self.flush(transport, stream)? {
            if self.frame_remaining == 0 {
                let header = data_header(scratch, data.len() as u64);
                let taken = self.put(transport, stream, header, Some(data), false)?;
                return Ok(total.saturating_add(taken));
            }
            let limit = usize::try_from(self.frame_remaining).unwrap_or(usize::MAX);
            let limit = limit.min(data.len());
            let taken = transport.write(stream, data.slice(..limit))?.min(limit);
            data.advance(taken);
            total = total.saturating_add(taken);
            self.content.add(taken as u64);
            self.frame_remaining = self.frame_remaining.saturating_sub(taken as u64);
            if taken < limit {
                break;
            }
        }
        self.blocked = !data.is_empty();
        Ok(total)
    }
}
