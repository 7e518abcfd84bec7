use bytes::{Buf, Bytes};
use clearway_wire::{Reader, VarInt};

use super::Connection;
use super::peer_control::ControlReceive;
use crate::{Code, ConnectionError, ReadEnd, Role, Transport};

/// Number of bytes per read from a control or QPACK stream.
const READ: usize = 4096;

/// One of the peer's unidirectional streams (RFC 9114 §6.2).
#[derive(Debug)]
pub(super) enum Unidirectional {
    /// The stream type has not arrived completely.
    Type {
        bytes: [u8; 8],
        filled: u8,
    },
    Control(Box<ControlReceive>),
    QpackEncoder,
    QpackDecoder,
}

impl Default for Unidirectional {
    fn default() -> Self {
        Self::Type { bytes: [0; 8], filled: 0 }
    }
}

/// The peer's unidirectional streams. There are only a few, most of which exist for the lifetime of
/// the connection.
#[derive(Debug, Default)]
pub(super) struct UnidirectionalStreams {
    /// The streams, sorted by stream ID.
    streams: Vec<(u64, Unidirectional)>,
}

impl UnidirectionalStreams {
    fn place(&self, stream: u64) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&stream, |(id, _)| *id)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn contains(&self, stream: u64) -> bool {
        self.place(stream).is_ok()
    }

    pub(super) fn insert(&mut self, stream: u64, kind: Unidirectional) {
        if let Err(place) = self.place(stream) {
            self.streams.insert(place, (stream, kind));
        }
    }

    fn get_mut(&mut self, stream: u64) -> Option<&mut Unidirectional> {
        let place = self.place(stream).ok()?;
        self.streams.get_mut(place).map(|(_, kind)| kind)
    }

    fn remove(&mut self, stream: u64) {
        if let Ok(place) = self.place(stream) {
            self.streams.remove(place);
        }
    }

    pub(super) fn clear(&mut self) {
        self.streams.clear();
    }

    /// Frees unused memory.
    pub(super) fn compact(&mut self) {
        self.streams.shrink_to_fit();
    }
}

/// Removes the rest of a stream type from the start of `input`, after the bytes that were collected
/// earlier. Returns the type once it is complete.
fn collect_type(bytes: &mut [u8; 8], filled: &mut u8, input: &mut Bytes) -> Option<u64> {
    while let Some(&byte) = input.first() {
        input.advance(1);
        if let Some(slot) = bytes.get_mut(usize::from(*filled)) {
            *slot = byte;
        }
        *filled = filled.saturating_add(1).min(bytes.len() as u8);
        let collected = bytes.get(..usize::from(*filled)).unwrap_or_default();
        if let Ok(stream_type) = VarInt::decode(&mut Reader::new(collected), "stream type") {
            return Some(stream_type.get());
        }
    }
    None
}

impl Connection {
    /// Reads all available data of one of the peer's unidirectional streams.
    pub(super) fn drive_unidirectional<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
    ) {
        // The stream's state is taken out, so that handling its data can change the connection.
        let Some(kind) = self.unidirectional.get_mut(stream) else { return };
        let mut kind = core::mem::take(kind);
        let outcome = loop {
            match transport.read(stream, READ) {
                Ok(Some(input)) if !input.is_empty() => {
                    match self.feed(transport, stream, &mut kind, input) {
                        Ok(true) => {}
                        other => break other,
                    }
                }
                Ok(_) => break Ok(true),
                // The stream ended with the connection, which is not an error by the peer.
                Err(_) if self.is_cut_off(transport, stream) => break Ok(false),
                Err(end) => break ended(&kind, end),
            }
        };
        match outcome {
            Ok(true) if !self.closed => {
                let is_encoder = matches!(kind, Unidirectional::QpackEncoder);
                if let Some(place) = self.unidirectional.get_mut(stream) {
                    *place = kind;
                }
                if is_encoder {
                    self.unblock(transport);
                    self.decoder.acknowledge_insertions();
                }
            }
            Ok(_) => self.unidirectional.remove(stream),
            Err(error) => {
                self.unidirectional.remove(stream);
                self.fail(transport, error);
            }
        }
    }

    /// Handles received bytes. Returns whether to continue reading the stream.
    fn feed<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        kind: &mut Unidirectional,
        mut input: Bytes,
    ) -> Result<bool, ConnectionError> {
        if let Unidirectional::Type { bytes, filled } = kind {
            let Some(stream_type) = collect_type(bytes, filled, &mut input) else {
                return Ok(true);
            };
            match self.kind(stream, stream_type)? {
                Some(known) => *kind = known,
                None => {
                    // Unknown stream types are not an error (§6.2).
                    transport.stop_sending(stream, Code::STREAM_CREATION_ERROR.get());
                    return Ok(false);
                }
            }
        }
        match kind {
            Unidirectional::Type { .. } => {}
            Unidirectional::Control(control) => {
                while let Some(frame) = control.next(&mut input)? {
                    self.control_frame(transport, frame)?;
                }
            }
            Unidirectional::QpackEncoder => self.decoder.receive(&input)?,
            Unidirectional::QpackDecoder => self.encoder.receive(&input)?,
        }
        Ok(!self.closed)
    }

    /// Returns the purpose of a stream of this type; `None` if the type is unknown.
    fn kind(
        &mut self,
        stream: u64,
        stream_type: u64,
    ) -> Result<Option<Unidirectional>, ConnectionError> {
        let (place, kind) = match stream_type {
            0x00 => (&mut self.critical.control, Unidirectional::Control(Default::default())),
            // Push streams are an error, for servers according to §6.2.2, and for clients that did
            // not allow pushes according to §4.6.
            0x01 if self.role == Role::Server => {
                return Err(ConnectionError::new(
                    Code::STREAM_CREATION_ERROR,
                    "a client opened a push stream",
                ));
            }
            0x01 => {
                return Err(ConnectionError::new(
                    Code::ID_ERROR,
                    "the client did not allow server push",
                ));
            }
            0x02 => (&mut self.critical.encoder, Unidirectional::QpackEncoder),
            0x03 => (&mut self.critical.decoder, Unidirectional::QpackDecoder),
            _ => return Ok(None),
        };
        if place.replace(stream).is_some() {
            return Err(ConnectionError::new(
                Code::STREAM_CREATION_ERROR,
                "the peer opened a second stream of a type that may exist only once",
            ));
        }
        Ok(Some(kind))
    }
}

/// Handles the end of a stream (RFC 9114 §6.2, §6.2.1, RFC 9204 §4.2).
fn ended(kind: &Unidirectional, end: ReadEnd) -> Result<bool, ConnectionError> {
    match (kind, end) {
        (Unidirectional::Type { .. }, _) => Ok(false),
        (_, ReadEnd::Finished | ReadEnd::Reset(_)) => Err(ConnectionError::new(
            Code::CLOSED_CRITICAL_STREAM,
            "the peer closed a control or QPACK stream",
        )),
    }
}
