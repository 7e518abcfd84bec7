use bytes::Bytes;
use clearway_wire::{Reader, VarInt};

use super::Connection;
use crate::frame::{FrameHeader, FrameHeaderDecoder, FrameType, take};
use crate::settings::{MAX_PAYLOAD, Settings};
use crate::{Code, ConnectionError, Event, Priority, Role, StreamError, Transport};

/// A control stream frame that must be processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ControlFrame {
    Settings(Settings),
    GoAway(u64),
    MaxPushId(u64),
    CancelPush(u64),
    /// A priority update for a request; `None` if the priority cannot be parsed.
    PriorityUpdate(u64, Option<Priority>),
    PriorityUpdatePush,
}

/// Reads the peer's control stream (RFC 9114 §6.2.1) in chunks that may end anywhere.
#[derive(Debug, Default)]
pub(super) struct ControlReceive {
    header: FrameHeaderDecoder,
    frame: Frame,
    payload: Vec<u8>,
    settings_seen: bool,
}

/// Maximum accepted length of a PRIORITY_UPDATE, in bytes.
const MAX_PRIORITY_UPDATE: u64 = 1024;

/// The frame to which the next bytes belong.
#[derive(Debug, Default)]
enum Frame {
    #[default]
    Header,
    Payload {
        frame_type: FrameType,
        remaining: u64,
    },
    Skip {
        remaining: u64,
    },
}

impl ControlReceive {
    /// Removes and returns the next frame at the start of `input` that must be processed; `None`
    /// when `input` is exhausted.
    pub(super) fn next(
        &mut self,
        input: &mut Bytes,
    ) -> Result<Option<ControlFrame>, ConnectionError> {
        loop {
            match &mut self.frame {
                Frame::Header => match self.header.decode(input) {
                    Some(header) => self.begin(header)?,
                    None => return Ok(None),
                },
                Frame::Skip { remaining: 0 } => self.frame = Frame::Header,
                Frame::Skip { remaining } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let skipped = take(input, *remaining).len() as u64;
                    *remaining = remaining.saturating_sub(skipped);
                }
                Frame::Payload { frame_type, remaining: 0 } => {
                    let frame_type = *frame_type;
                    self.frame = Frame::Header;
                    return parse(frame_type, &core::mem::take(&mut self.payload)).map(Some);
                }
                Frame::Payload { remaining, .. } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let part = take(input, *remaining);
                    *remaining = remaining.saturating_sub(part.len() as u64);
                    self.payload.extend_from_slice(&part);
                }
            }
        }
    }

    fn begin(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        let FrameHeader { frame_type, length } = header;
        if !self.settings_seen && frame_type != FrameType::Settings {
            return Err(ConnectionError::new(
                Code::MISSING_SETTINGS,
                "the control stream does not begin with SETTINGS",
            ));
        }
        let limit = match frame_type {
            FrameType::Settings if self.settings_seen => {
                return Err(ConnectionError::new(
                    Code::FRAME_UNEXPECTED,
                    "SETTINGS was sent twice",
                ));
            }
            FrameType::Settings => MAX_PAYLOAD,
            FrameType::GoAway | FrameType::MaxPushId | FrameType::CancelPush => 8,
            FrameType::PriorityUpdate | FrameType::PriorityUpdatePush => MAX_PRIORITY_UPDATE,
            FrameType::Unknown => {
                self.frame = Frame::Skip { remaining: length };
                return Ok(());
            }
            FrameType::Data
            | FrameType::Headers
            | FrameType::PushPromise
            | FrameType::ReservedHttp2 => {
                return Err(ConnectionError::new(
                    Code::FRAME_UNEXPECTED,
                    "received a frame that is not allowed on the control stream",
                ));
            }
        };
        if length > limit {
            return Err(match frame_type {
                FrameType::Settings => {
                    ConnectionError::new(Code::EXCESSIVE_LOAD, "the SETTINGS frame is too long")
                }
                FrameType::PriorityUpdate | FrameType::PriorityUpdatePush => ConnectionError::new(
                    Code::EXCESSIVE_LOAD,
                    "the PRIORITY_UPDATE frame is too long",
                ),
                _ => ConnectionError::new(
                    Code::FRAME_ERROR,
                    "a frame has trailing bytes after its fields",
                ),
            });
        }
        self.settings_seen = true;
        self.frame = Frame::Payload { frame_type, remaining: length };
        Ok(())
    }
}

/// Parses the payload of a frame that `begin` accepted.
fn parse(frame_type: FrameType, payload: &[u8]) -> Result<ControlFrame, ConnectionError> {
    if frame_type == FrameType::Settings {
        return Settings::decode(payload).map(ControlFrame::Settings);
    }
    let mut reader = Reader::new(payload);
    let id = VarInt::decode(&mut reader, "identifier").map(VarInt::get).ok();
    let field = payload.get(payload.len().saturating_sub(reader.remaining())..);
    match (id, frame_type) {
        (Some(id), FrameType::PriorityUpdate) => {
            let priority = field.and_then(Priority::parse);
            return Ok(ControlFrame::PriorityUpdate(id, priority));
        }
        (Some(_), FrameType::PriorityUpdatePush) => return Ok(ControlFrame::PriorityUpdatePush),
        _ => {}
    }
    match (id, reader.is_empty()) {
        (Some(id), true) => Ok(match frame_type {
            FrameType::GoAway => ControlFrame::GoAway(id),
            FrameType::MaxPushId => ControlFrame::MaxPushId(id),
            _ => ControlFrame::CancelPush(id),
        }),
        _ => Err(ConnectionError::new(
            Code::FRAME_ERROR,
            "a frame's length does not match the length of its identifier",
        )),
    }
}

/// Returns the server's settings on the connection that a client resumes with early data. Settings
/// that cannot be decoded are ignored and impose no limits: the application's session store may
/// have damaged them.
pub(super) fn remembered<T: Transport + ?Sized>(transport: &T) -> Option<Settings> {
    Settings::decode(transport.remembered_settings()?).ok()
}

impl Connection {
    pub(super) fn control_frame<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        frame: ControlFrame,
    ) -> Result<(), ConnectionError> {
        match frame {
            ControlFrame::Settings(settings) => self.take_settings(transport, settings),
            ControlFrame::GoAway(id) => self.peer_goaway(transport, id),
            ControlFrame::MaxPushId(id) => self.max_push_id(id),
            // A server must not send this frame (RFC 9218 §7.2).
            ControlFrame::PriorityUpdate(..) | ControlFrame::PriorityUpdatePush
                if self.role == Role::Client =>
            {
                Err(ConnectionError::new(Code::FRAME_UNEXPECTED, "a server sent PRIORITY_UPDATE"))
            }
            ControlFrame::PriorityUpdate(stream, priority) => {
                self.priority_update(transport, stream, priority)
            }
            ControlFrame::PriorityUpdatePush => Err(ConnectionError::new(
                Code::ID_ERROR,
                "PRIORITY_UPDATE refers to a push that was not promised",
            )),
            // This endpoint neither promised nor allowed a push, so the push ID is invalid (RFC
            // 9114 §7.2.3).
            ControlFrame::CancelPush(_) => Err(ConnectionError::new(
                Code::ID_ERROR,
                "CANCEL_PUSH refers to a push that does not exist",
            )),
        }
    }

    /// Applies the peer's settings. A client keeps the settings for later connections, and checks
    /// that they allow the early data that it may have sent (RFC 9114 §7.2.4.2).
    fn take_settings<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        settings: Settings,
    ) -> Result<(), ConnectionError> {
        if self.role == Role::Client {
            if let Some(remembered) = remembered(transport) {
                settings.check_early_data(&remembered)?;
            }
            transport.keep_settings(&settings.encode());
        }
        self.allow_table(&settings);
        self.peer_settings = Some(settings);
        self.busy.events.push_back(Event::Settings(settings));
        Ok(())
    }

    /// Handles the peer's MAX_PUSH_ID frame (RFC 9114 §7.2.7).
    fn max_push_id(&mut self, id: u64) -> Result<(), ConnectionError> {
        if self.role == Role::Client {
            return Err(ConnectionError::new(Code::FRAME_UNEXPECTED, "a server sent MAX_PUSH_ID"));
        }
        if self.peer_max_push_id.is_some_and(|previous| id < previous) {
            return Err(ConnectionError::new(
                Code::ID_ERROR,
                "the push ID in MAX_PUSH_ID decreased",
            ));
        }
        self.peer_max_push_id = Some(id);
        Ok(())
    }

    /// Handles the peer's GOAWAY frame (RFC 9114 §5.2, §7.2.6).
    fn peer_goaway<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        id: u64,
    ) -> Result<(), ConnectionError> {
        // Client-initiated bidirectional stream IDs are multiples of four.
        if self.role == Role::Client && !id.is_multiple_of(4) {
            return Err(ConnectionError::new(
                Code::ID_ERROR,
                "the identifier in GOAWAY is not a request stream ID",
            ));
        }
        if self.peer_goaway.is_some_and(|previous| id > previous) {
            return Err(ConnectionError::new(Code::ID_ERROR, "the identifier in GOAWAY increased"));
        }
        self.peer_goaway = Some(id);
        // Only the lowest identifier matters, so at most one event is queued, and a peer cannot
        // fill the queue.
        let waiting = self.busy.events.iter_mut().find_map(|event| match event {
            Event::GoAway { id } => Some(id),
            _ => None,
        });
        match waiting {
            Some(waiting) => *waiting = id,
            None => self.busy.events.push_back(Event::GoAway { id }),
        }
        if self.role == Role::Client {
            let rejected: Vec<u64> =
                self.requests.streams().filter(|stream| *stream >= id).collect();
            for stream in rejected {
                self.abandon(
                    transport,
                    stream,
                    Code::REQUEST_CANCELLED,
                    StreamError::new(
                        Code::REQUEST_REJECTED,
                        "the server's GOAWAY excludes this request",
                    ),
                );
            }
        }
        Ok(())
    }
}
