use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use clearway_units::Random;

use super::{Connection, Role};
use crate::frame::{put_frame, put_varint};
use crate::settings::put_settings;
use crate::{Code, Config, ConnectionError, Transport, WriteError};

/// The GOAWAY identifier of a server that announces a shutdown but still accepts all requests in transit
/// (RFC 9114 §5.2).
const EVERY_REQUEST: u64 = (1 << 62) - 4;

/// Our control stream (RFC 9114 §6.2.1), and the stream of a reserved type (§6.2.3).
#[derive(Debug)]
pub(super) struct LocalControl {
    stream: Option<u64>,
    pending: VecDeque<Bytes>,
    /// The content of the reserved stream (§6.2.3) until it is opened.
    reserved_stream: Option<Bytes>,
    /// The identifier of the last GOAWAY.
    goaway: Option<u64>,
}

/// An identifier of the form 0x1f * N + 0x21.
fn reserved(random: &mut Random) -> u64 {
    random.below(1 << 32).saturating_mul(0x1f).saturating_add(0x21)
}

impl LocalControl {
    pub(super) fn new(config: &Config, random: &mut Random) -> Self {
        let mut opening = vec![0x00];
        let setting = config.grease.then(|| (reserved(random), random.below(1 << 30)));
        put_settings(&mut opening, config.max_field_section_size, setting);
        let mut reserved_stream = None;
        if config.grease {
            let payload = random.array::<8>();
            let length = random.below(8) as usize;
            put_frame(&mut opening, reserved(random), payload.get(..length).unwrap_or_default());
            let mut stream = Vec::new();
            put_varint(&mut stream, reserved(random));
            reserved_stream = Some(stream.into());
        }
        let pending = VecDeque::from([opening.into()]);
        Self { stream: None, pending, reserved_stream, goaway: None }
    }

    pub(super) fn owns(&self, stream: u64) -> bool {
        self.stream == Some(stream)
    }

    /// Opens the streams that are not open yet, the control stream first.
    pub(super) fn start<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Result<(), ConnectionError> {
        if self.stream.is_none() {
            self.stream = transport.open_unidirectional();
        }
        self.flush(transport)?;
        if self.stream.is_some()
            && self.reserved_stream.is_some()
            && let Some(stream) = transport.open_unidirectional()
        {
            // Whether it arrives does not matter.
            let header = self.reserved_stream.take().unwrap_or_default();
            let _ = transport.write(stream, header);
            let _ = transport.finish(stream);
        }
        Ok(())
    }

    /// Writes as much of the pending data as the transport takes.
    pub(super) fn flush<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.stream else { return Ok(()) };
        while let Some(bytes) = self.pending.front_mut() {
            match transport.write(stream, bytes.clone()) {
                Ok(taken) => bytes.advance(taken.min(bytes.len())),
                Err(WriteError::Stopped(_) | WriteError::Closed) => {
                    return Err(ConnectionError::new(
                        Code::CLOSED_CRITICAL_STREAM,
                        "our control stream was closed",
                    ));
                }
            }
            if !bytes.is_empty() {
                break;
            }
            self.pending.pop_front();
        }
        Ok(())
    }

    /// The identifier of the last GOAWAY sent.
    pub(super) fn goaway(&self) -> Option<u64> {
        self.goaway
    }

    /// Queues a GOAWAY. Its identifier must not be greater than the one before.
    fn queue_goaway(&mut self, id: u64) {
        if self.goaway.is_some_and(|previous| previous <= id) {
            return;
        }
        self.goaway = Some(id);
        let mut payload = Vec::new();
        put_varint(&mut payload, id);
        let mut frame = Vec::new();
        put_frame(&mut frame, 0x07, &payload);
        self.pending.push_back(frame.into());
    }
}

impl Connection {
    /// Asks the peer to send no more requests, but still accepts those in transit (RFC 9114 §5.2). Call
    /// [`Connection::goaway`] a round trip later. From a client, it means that no push will be accepted.
    pub fn shutdown<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        let id = if self.role == Role::Server { EVERY_REQUEST } else { 0 };
        self.send_goaway(transport, id);
    }

    /// Announces that no requests beyond those accepted so far will be processed (RFC 9114 §5.2).
    /// Requests that arrive later are rejected. Once [`Connection::is_idle`] returns true, the connection
    /// can be closed.
    pub fn goaway<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        let id = if self.role == Role::Server { self.next_request } else { 0 };
        self.send_goaway(transport, id);
    }

    fn send_goaway<T: Transport + ?Sized>(&mut self, transport: &mut T, id: u64) {
        if self.closed {
            return;
        }
        self.control.queue_goaway(id);
        if let Err(error) = self.control.flush(transport) {
            self.fail(transport, error);
        }
    }
}
