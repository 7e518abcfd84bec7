use bytes::Bytes;
use clearway_units::Random;

use super::Connection;
use super::local_stream::LocalStream;
use crate::frame::{PRIORITY_UPDATE, put_frame, put_varint};
use crate::settings::put_settings;
use crate::{Config, ConnectionError, Priority, Role, Transport};

/// The GOAWAY identifier with which a server announces a shutdown but still accepts all requests in
/// transit (RFC 9114 §5.2).
const EVERY_REQUEST: u64 = (1 << 62) - 4;

/// The local control stream (RFC 9114 §6.2.1), and the stream of a reserved type (§6.2.3).
#[derive(Debug)]
pub(super) struct LocalControl {
    pub(super) stream: LocalStream,
    /// The bytes to send on the reserved stream (§6.2.3), until it is opened.
    reserved_stream: Option<Box<Bytes>>,
    /// The identifier of the last GOAWAY.
    goaway: Option<u64>,
}

/// Returns a reserved identifier of the form 0x1f * N + 0x21.
fn reserved(random: &mut Random) -> u64 {
    random.below(1 << 32).saturating_mul(0x1f).saturating_add(0x21)
}

impl LocalControl {
    pub(super) fn new(role: Role, config: &Config, random: &mut Random) -> Self {
        let mut opening = vec![0x00];
        let setting = config.grease.then(|| (reserved(random), random.below(1 << 30)));
        put_settings(&mut opening, role, config, setting);
        let mut reserved_stream = None;
        if config.grease {
            let payload = random.array::<8>();
            let length = random.below(8) as usize;
            put_frame(&mut opening, reserved(random), payload.get(..length).unwrap_or_default());
            let mut stream = Vec::new();
            put_varint(&mut stream, reserved(random));
            reserved_stream = Some(Box::new(stream.into()));
        }
        Self { stream: LocalStream::new(opening), reserved_stream, goaway: None }
    }

    /// Opens the reserved stream, unless it is already open.
    pub(super) fn open_reserved<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if self.reserved_stream.is_some()
            && let Some(stream) = transport.open_unidirectional()
        {
            // The stream's data need not arrive.
            let header = *self.reserved_stream.take().unwrap_or_default();
            let _ = transport.write(stream, header);
            let _ = transport.finish(stream);
        }
    }

    /// Returns the identifier of the last GOAWAY sent.
    pub(super) fn goaway(&self) -> Option<u64> {
        self.goaway
    }

    /// Queues a GOAWAY. Does nothing unless its identifier is lower than the previous one.
    fn queue_goaway(&mut self, id: u64) {
        if self.goaway.is_some_and(|previous| previous <= id) {
            return;
        }
        self.goaway = Some(id);
        let mut payload = Vec::new();
        put_varint(&mut payload, id);
        let mut frame = Vec::new();
        put_frame(&mut frame, 0x07, &payload);
        self.stream.push(frame.into());
    }

    /// Queues a PRIORITY_UPDATE for a request (RFC 9218 §7.2).
    pub(super) fn queue_priority(&mut self, stream: u64, priority: Priority) {
        let mut payload = Vec::new();
        put_varint(&mut payload, stream);
        payload.extend_from_slice(priority.to_string().as_bytes());
        let mut frame = Vec::new();
        put_frame(&mut frame, PRIORITY_UPDATE, &payload);
        self.stream.push(frame.into());
    }
}

impl Connection {
    /// Opens the local streams that are not open yet: the control stream first, then the QPACK
    /// streams, for which the peer must allow enough streams (RFC 9114 §6.2), then the reserved
    /// one.
    pub(super) fn open_streams<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Result<(), ConnectionError> {
        let prioritize = self.config.prioritize;
        self.control.stream.open(transport, prioritize)?;
        let mut is_complete = self.control.stream.is_open();
        for stream in [&mut self.encoder_stream, &mut self.decoder_stream].into_iter().flatten() {
            if is_complete {
                stream.open(transport, prioritize)?;
                is_complete = stream.is_open();
            }
        }
        if is_complete {
            self.control.open_reserved(transport);
        }
        Ok(())
    }

    /// Returns the local control or QPACK stream with this ID.
    pub(super) fn local_stream(&mut self, stream: u64) -> Option<&mut LocalStream> {
        let qpack = [&mut self.encoder_stream, &mut self.decoder_stream].into_iter().flatten();
        core::iter::once(&mut self.control.stream).chain(qpack).find(|local| local.owns(stream))
    }

    /// Asks the peer to send no more requests, but still accepts those in transit (RFC 9114 §5.2).
    ///
    /// This sends a GOAWAY with the largest identifier. [`Connection::continue_shutdown`] sends the
    /// second GOAWAY once the peer has acknowledged this one. From a client, GOAWAY means that no
    /// pushes will be accepted.
    pub fn shutdown<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        let id = if self.role == Role::Server { EVERY_REQUEST } else { 0 };
        self.send_goaway(transport, id);
    }

    /// Continues a shutdown begun by [`Connection::shutdown`]. Call this whenever something has
    /// been received. Returns whether the final GOAWAY has been sent.
    ///
    /// Once the peer has acknowledged the first GOAWAY, every request that it sent before has had a
    /// round trip to arrive, and [`Connection::goaway`] is called.
    ///
    /// If a transport cannot report [acknowledgments](Transport::unacknowledged), the owner of the
    /// connection must call [`Connection::goaway`] after a round trip.
    pub fn continue_shutdown<T: Transport + ?Sized>(&mut self, transport: &mut T) -> bool {
        if self.control.goaway() == Some(EVERY_REQUEST)
            && self.control.stream.is_acknowledged(transport)
        {
            self.goaway(transport);
        }
        self.control.goaway().is_some_and(|id| id != EVERY_REQUEST)
    }

    /// Announces that no requests beyond those accepted so far will be processed (RFC 9114 §5.2).
    /// Requests that arrive later are rejected. Once [`Connection::is_idle`] returns true, the
    /// connection can be closed.
    pub fn goaway<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        let id = if self.role == Role::Server { self.next_request } else { 0 };
        self.send_goaway(transport, id);
    }

    fn send_goaway<T: Transport + ?Sized>(&mut self, transport: &mut T, id: u64) {
        if self.closed {
            return;
        }
        self.control.queue_goaway(id);
        if let Err(error) = self.control.stream.flush(transport) {
            self.fail(transport, error);
        }
    }
}
