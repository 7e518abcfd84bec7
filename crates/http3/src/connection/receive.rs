//! The receiving part of a request stream: parses bytes into frames.

use bytes::Bytes;

use super::Fault;
use crate::frame::{FrameHeader, FrameHeaderDecoder, FrameType, take};
use crate::message::{Content, ContentRule};
use crate::qpack::MAX_PREFIX;
use crate::{Code, ConnectionError, ReadEnd, Role, StreamError, Transport};

/// Number of bytes per read while the type of the next frame is unknown.
const READ: usize = 16 * 1024;

/// The phase in which the peer's message is being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The header section of the request or the final response has not arrived.
    Leading,
    /// Content, trailers, or the end can follow.
    Content,
    /// Only the end can follow.
    Trailed,
    /// Reading has ended.
    Ended,
}

/// The frame to which the next bytes belong.
#[derive(Debug)]
enum Frame {
    Header,
    Section { remaining: u64 },
    Data { remaining: u64 },
    Skip { remaining: u64 },
}

/// The result of one read step.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing more can be read now.
    Blocked,
    /// Content comes next.
    Data,
    /// A complete encoded field section was read.
    Section(Bytes),
    /// The stream ended after a complete frame.
    Finished,
    /// The peer reset the stream.
    Reset(Code),
}

/// The result of reading content.
#[derive(Debug)]
pub(super) enum Body {
    Chunk(Bytes),
    Blocked,
    /// The next frame is not content; `step` reads it.
    Other,
}

/// The number of buffered bytes of incomplete field sections on the entire connection, and the
/// limits.
pub(super) struct Buffering<'a> {
    pub(super) buffered: &'a mut usize,
    pub(super) max_buffered: usize,
    pub(super) max_section: u64,
}

/// Reads frames from chunks that may end anywhere.
#[derive(Debug)]
pub(super) struct Receive {
    role: Role,
    pub(super) phase: Phase,
    pub(super) content: Content,
    /// The unread remainder of the transport's last chunk.
    input: Bytes,
    header: FrameHeaderDecoder,
    frame: Frame,
    section: Vec<u8>,
}

enum Filled {
    Input,
    Blocked,
    End(ReadEnd),
}

impl Receive {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            phase: Phase::Leading,
            content: Content::new(ContentRule::None),
            input: Bytes::new(),
            header: FrameHeaderDecoder::default(),
            frame: Frame::Header,
            section: Vec::new(),
        }
    }

    /// Stops reading and frees the buffers.
    pub(super) fn end(&mut self, buffered: &mut usize) {
        *buffered = buffered.saturating_sub(self.section.len());
        self.section = Vec::new();
        self.input = Bytes::new();
        self.phase = Phase::Ended;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns whether content comes next.
    pub(super) fn has_content(&self) -> bool {
        matches!(self.frame, Frame::Data { remaining } if remaining > 0)
    }

    /// Reads until there is a result that the caller has to handle.
    pub(super) fn step<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        buffering: &mut Buffering<'_>,
    ) -> Result<Step, Fault> {
        loop {
            match self.frame {
                Frame::Data { remaining: 0 } | Frame::Skip { remaining: 0 } => {
                    self.frame = Frame::Header;
                    continue;
                }
                Frame::Data { .. } => return Ok(Step::Data),
                Frame::Section { remaining } => {
                    if let Some(section) = self.section(remaining, buffering)? {
                        self.frame = Frame::Header;
                        return Ok(Step::Section(section));
                    }
                }
                Frame::Header | Frame::Skip { .. } => {}
            }
            match self.fill(transport, stream, READ) {
                Filled::Input => {}
                Filled::Blocked => return Ok(Step::Blocked),
                Filled::End(ReadEnd::Reset(code)) => return Ok(Step::Reset(Code::new(code))),
                Filled::End(ReadEnd::Finished) => return self.finished(),
            }
            match &mut self.frame {
                Frame::Header => {
                    if let Some(header) = self.header.decode(&mut self.input) {
                        self.begin(header, buffering.max_section)?;
                    }
                }
                Frame::Skip { remaining } => {
                    let skipped = take(&mut self.input, *remaining).len() as u64;
                    *remaining = remaining.saturating_sub(skipped);
                }
                Frame::Section { .. } | Frame::Data { .. } => {}
            }
        }
    }

    /// Returns the next content, at most `max` bytes.
    pub(super) fn body<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        max: usize,
    ) -> Result<Body, ReadEnd> {
        let Frame::Data { remaining } = &mut self.frame else { return Ok(Body::Other) };
        if *remaining == 0 {
            return Ok(Body::Other);
        }
        let limit = (*remaining).min(max.max(1) as u64);
        if self.input.is_empty() {
            match transport.read(stream, usize::try_from(limit).unwrap_or(usize::MAX))? {
                Some(chunk) => self.input = chunk,
                None => return Ok(Body::Blocked),
            }
        }
        let chunk = take(&mut self.input, limit);
        *remaining = remaining.saturating_sub(chunk.len() as u64);
        Ok(if chunk.is_empty() { Body::Blocked } else { Body::Chunk(chunk) })
    }

    fn fill<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        max: usize,
    ) -> Filled {
        if !self.input.is_empty() {
            return Filled::Input;
        }
        match transport.read(stream, max) {
            Ok(Some(chunk)) if !chunk.is_empty() => {
                self.input = chunk;
                Filled::Input
            }
            Ok(_) => Filled::Blocked,
            Err(end) => Filled::End(end),
        }
    }

    /// Handles the end of the stream, which must not be in the middle of a frame (RFC 9114 §7.1).
    pub(super) fn finished(&self) -> Result<Step, Fault> {
        if matches!(self.frame, Frame::Header) && !self.header.is_partial() {
            return Ok(Step::Finished);
        }
        Err(ConnectionError::new(Code::FRAME_ERROR, "a stream ended in the middle of a frame")
            .into())
    }

    /// Returns the encoded field section once it is complete. The result is a slice of the
    /// transport's chunk if that chunk contains the entire section; otherwise, the section is
    /// collected in a buffer.
    fn section(
        &mut self,
        remaining: u64,
        buffering: &mut Buffering<'_>,
    ) -> Result<Option<Bytes>, Fault> {
        let part = take(&mut self.input, remaining);
        let remaining = remaining.saturating_sub(part.len() as u64);
        if remaining == 0 && self.section.is_empty() {
            return Ok(Some(part));
        }
        let buffered = buffering.buffered.saturating_add(part.len());
        if buffered > buffering.max_buffered {
            return Err(ConnectionError::new(
                Code::EXCESSIVE_LOAD,
                "too many incomplete field sections",
            )
            .into());
        }
        *buffering.buffered = buffered;
        self.section.extend_from_slice(&part);
        self.frame = Frame::Section { remaining };
        if remaining > 0 {
            return Ok(None);
        }
        *buffering.buffered = buffered.saturating_sub(self.section.len());
        Ok(Some(core::mem::take(&mut self.section).into()))
    }

    /// Begins a frame, and checks that it is allowed at this point (RFC 9114 §4.1, §7.2).
    fn begin(&mut self, header: FrameHeader, max_section: u64) -> Result<(), Fault> {
        let FrameHeader { frame_type, length } = header;
        let unexpected = |reason| Err(ConnectionError::new(Code::FRAME_UNEXPECTED, reason).into());
        self.frame = match frame_type {
            FrameType::Data => match self.phase {
                Phase::Content => {
                    if !self.content.admits(length) {
                        return Err(
                            StreamError::malformed("the content is longer than allowed").into()
                        );
                    }
                    self.content.add(length);
                    Frame::Data { remaining: length }
                }
                Phase::Leading => return unexpected("DATA arrived before the message's HEADERS"),
                _ => return unexpected("DATA arrived after trailers"),
            },
            FrameType::Headers => match self.phase {
                Phase::Content if self.content.is_tunnel() => {
                    return unexpected("HEADERS arrived in a CONNECT tunnel");
                }
                Phase::Leading | Phase::Content => {
                    // The encoding is never longer than the size of the fields, which counts 32
                    // bytes for each, plus a prefix.
                    if length > max_section.saturating_add(MAX_PREFIX) {
                        return Err(Fault::TooLarge);
                    }
                    Frame::Section { remaining: length }
                }
                _ => return unexpected("HEADERS arrived after trailers"),
            },
            FrameType::PushPromise if self.role == Role::Client => {
                return Err(ConnectionError::new(
                    Code::ID_ERROR,
                    "the client did not allow server push",
                )
                .into());
            }
            FrameType::Unknown => Frame::Skip { remaining: length },
            _ => return unexpected("received a frame that is not allowed on a request stream"),
        };
        Ok(())
    }
}
