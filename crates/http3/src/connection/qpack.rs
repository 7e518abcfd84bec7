//! Handling of QPACK's dynamic tables: field sections that wait for entries, and instructions for
//! the QPACK streams.

use bytes::Bytes;

use super::{Busy, Connection, Fault};
use crate::frame::headers_frame;
use crate::qpack::QpackError;
use crate::{Code, ConnectionError, SendError, Settings, Transport};

/// Maximum number of bytes of decoder instructions to queue for a peer that does not accept them.
const MAX_FEEDBACK: usize = 16 << 10;

/// A field section that references entries that have not arrived (RFC 9204 §2.2.1).
#[derive(Debug)]
pub(super) struct Blocked {
    /// The Required Insert Count of the field section.
    required: u64,
    section: Bytes,
}

impl Connection {
    /// Applies the limits on the dynamic table in the peer's SETTINGS.
    pub(super) fn allow_table(&mut self, settings: &Settings) {
        self.encoder.allow(
            settings.qpack_max_table_capacity,
            self.config.qpack_encoder_table_capacity,
            settings.qpack_blocked_streams.min(self.config.qpack_encoder_blocked_streams),
        );
    }

    /// Returns the HEADERS frame of the field section in `busy.lines` on `stream` and, if `content`
    /// follows, the header of a DATA frame with that many bytes. Encoder instructions that the
    /// section depends on are passed to the transport first.
    pub(super) fn section_frame<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        content: Option<u64>,
    ) -> Result<Bytes, SendError> {
        // An entry is inserted, and referenced, only if the transport is sure to accept the
        // instruction (RFC 9204 §2.1.3).
        let ready = |it: &super::LocalStream| it.is_open() && it.is_flushed();
        let may_insert = self.encoder_stream.as_ref().is_some_and(ready);
        let Busy { lines, section, .. } = &mut *self.busy;
        section.clear();
        self.encoder.encode(stream, lines, may_insert, section);
        let instructions = self.encoder.instructions();
        if let Some(local) = &mut self.encoder_stream
            && !instructions.is_empty()
        {
            self.busy.scratch.extend_from_slice(instructions);
            instructions.clear();
            local.push(self.busy.scratch.split().freeze());
            if let Err(error) = local.flush(transport) {
                self.fail(transport, error);
                return Err(SendError::ConnectionClosed);
            }
        }
        let Busy { section, scratch, .. } = &mut *self.busy;
        Ok(headers_frame(scratch, section, content))
    }

    /// Keeps a field section until its entries have arrived; its stream is not read until then.
    pub(super) fn block(
        &mut self,
        stream: u64,
        section: &[u8],
        required: u64,
    ) -> Result<(), Fault> {
        if self.busy.blocked.len() as u64 >= self.config.blocked_streams() {
            return Err(ConnectionError::from(QpackError::TooManyBlockedStreams).into());
        }
        let buffered = self.buffered.saturating_add(section.len());
        if buffered > self.config.max_buffered_field_sections {
            return Err(ConnectionError::new(
                Code::EXCESSIVE_LOAD,
                "too many field sections are waiting for dynamic table entries",
            )
            .into());
        }
        self.buffered = buffered;
        // The section is copied, so that a short section does not keep the entire received chunk
        // alive.
        let section = Bytes::copy_from_slice(section);
        self.busy.blocked.insert(stream, Blocked { required, section });
        Ok(())
    }

    /// Returns whether `stream` is waiting for dynamic table entries.
    pub(super) fn is_blocked(&self, stream: u64) -> bool {
        self.busy.blocked.contains_key(&stream)
    }

    fn take_blocked(&mut self, stream: u64) -> Option<Blocked> {
        let blocked = self.busy.blocked.remove(&stream)?;
        self.buffered = self.buffered.saturating_sub(blocked.section.len());
        Some(blocked)
    }

    /// Continues to read the streams whose dynamic table entries have arrived.
    pub(super) fn unblock<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        loop {
            let inserted = self.decoder.inserted();
            let mut blocked = self.busy.blocked.iter();
            let ready = blocked.find(|(_, blocked)| blocked.required <= inserted);
            let Some(stream) = ready.map(|(stream, _)| *stream) else { return };
            let Some(blocked) = self.take_blocked(stream) else { return };
            if let Err(fault) = self.section(transport, stream, &blocked.section) {
                self.fault(transport, stream, fault);
            }
            self.drive_request(transport, stream);
        }
    }

    /// Ends reading of `stream`. If it was not read to its end, sends a Stream Cancellation to the
    /// peer's encoder (RFC 9204 §2.2.2.2).
    pub(super) fn end_reading(&mut self, stream: u64, is_complete: bool) {
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if entry.receive.is_ended() {
            return;
        }
        entry.receive.end(&mut self.buffered);
        if self.is_blocked(stream) {
            self.take_blocked(stream);
        }
        if !is_complete {
            self.decoder.cancel(stream);
        }
    }

    /// Passes the decoder's instructions to the transport.
    pub(super) fn flush_feedback<T: Transport + ?Sized>(&mut self, transport: &mut T) {
        if self.closed {
            return;
        }
        let feedback = self.decoder.feedback();
        let Some(local) = &mut self.decoder_stream else { return };
        if feedback.is_empty() {
            return;
        }
        self.busy.scratch.extend_from_slice(feedback);
        feedback.clear();
        local.push(self.busy.scratch.split().freeze());
        let flushed = local.flush(transport).and_then(|()| match local.waiting() > MAX_FEEDBACK {
            true => Err(ConnectionError::new(
                Code::EXCESSIVE_LOAD,
                "the peer does not read this endpoint's QPACK decoder stream",
            )),
            false => Ok(()),
        });
        if let Err(error) = flushed {
            self.fail(transport, error);
        }
    }
}
