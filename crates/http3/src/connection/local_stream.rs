use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use clearway_units::memory::{OnDemand, Unused};

use crate::{Code, ConnectionError, Transport, WriteError};

/// Transport priority of control and QPACK streams: they are sent before all messages, which depend
/// on them.
const LEVEL: i32 = 8;

/// A local unidirectional stream that exists for the lifetime of the connection: control or QPACK.
#[derive(Debug, Default)]
pub(super) struct LocalStream {
    stream: Option<u64>,
    pending: OnDemand<Pending>,
}

/// Data that the transport has not accepted.
#[derive(Debug, Default)]
struct Pending(VecDeque<Bytes>);

impl Unused for Pending {
    fn unused() -> &'static Self {
        static UNUSED: Pending = Pending(VecDeque::new());
        &UNUSED
    }
}

impl LocalStream {
    /// Creates a stream that begins with these bytes, which include its type.
    pub(super) fn new(opening: Vec<u8>) -> Self {
        Self { stream: None, pending: OnDemand::new(Pending(VecDeque::from([opening.into()]))) }
    }

    /// Frees memory if nothing is pending.
    pub(super) fn compact(&mut self) {
        if self.is_flushed() {
            self.pending.release();
        }
    }

    pub(super) fn owns(&self, stream: u64) -> bool {
        self.stream == Some(stream)
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns whether the transport has accepted all data.
    pub(super) fn is_flushed(&self) -> bool {
        self.pending.0.is_empty()
    }

    /// Returns whether the peer has acknowledged all data; false if the transport cannot tell.
    pub(super) fn is_acknowledged<T: Transport + ?Sized>(&self, transport: &mut T) -> bool {
        let unacknowledged = self.stream.and_then(|stream| transport.unacknowledged(stream));
        self.is_flushed() && unacknowledged == Some(0)
    }

    /// Returns the number of bytes that the transport has not accepted.
    pub(super) fn waiting(&self) -> usize {
        self.pending.0.iter().fold(0, |sum, bytes| sum.saturating_add(bytes.len()))
    }

    /// Opens the stream if it is not open and the peer allows it, and writes pending data.
    pub(super) fn open<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        prioritize: bool,
    ) -> Result<(), ConnectionError> {
        if self.stream.is_none() {
            self.stream = transport.open_unidirectional();
            if let Some(stream) = self.stream.filter(|_| prioritize) {
                transport.set_priority(stream, LEVEL, true);
            }
        }
        self.flush(transport)
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        self.pending.0.push_back(bytes);
    }

    /// Writes as much of the pending data as the transport accepts.
    pub(super) fn flush<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.stream else { return Ok(()) };
        let Some(Pending(pending)) = self.pending.used() else { return Ok(()) };
        while let Some(bytes) = pending.front_mut() {
            match transport.write(stream, bytes.clone()) {
                Ok(taken) => bytes.advance(taken.min(bytes.len())),
                Err(WriteError::Stopped(_)) => {
                    return Err(ConnectionError::new(
                        Code::CLOSED_CRITICAL_STREAM,
                        "the peer sent STOP_SENDING for a control or QPACK stream",
                    ));
                }
                // These streams close only with the connection.
                Err(WriteError::Closed) => return Ok(()),
            }
            if !bytes.is_empty() {
                break;
            }
            pending.pop_front();
        }
        Ok(())
    }
}
