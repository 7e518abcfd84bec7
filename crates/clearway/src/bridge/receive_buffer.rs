//! The buffer for received data, from the transport to a task.

use core::task::Context;
use std::collections::VecDeque;

use bytes::Bytes;
use clearway_wire::VarInt;

use super::held::{Held, PIECE_OVERHEAD, Total};
use super::{AppState, Effects, WakerSlot};

/// Number of received pieces of a stream that may always wait for its task, regardless of their
/// size.
const MAX_PIECES: usize = 16;
/// Number of waiting bytes per additional piece that may wait. Pieces beyond this limit stay in the
/// transport, which merges pieces as they arrive, so that many small pieces cost only a small
/// multiple of their bytes.
const BYTES_PER_PIECE: usize = 512;

/// Received data that no task has read. `E` is the error type for streams that failed before their
/// end.
pub(crate) struct ReceiveBuffer<E> {
    pieces: VecDeque<Bytes>,
    held: Held,
    end: Option<Result<(), E>>,
    /// Set if the transport may have more data.
    pub(crate) has_more: bool,
    /// The error code of a STOP_SENDING frame that the transport has yet to send.
    stop: Option<VarInt>,
    /// Set if the task has stopped reading.
    is_stopped: bool,
    reader: WakerSlot,
}

impl<E> ReceiveBuffer<E> {
    /// Creates a buffer whose bytes count toward `total`, if there is one.
    pub(crate) fn new(total: Option<&Total>) -> Self {
        Self {
            pieces: VecDeque::new(),
            held: Held::new(total),
            end: None,
            has_more: false,
            stop: None,
            is_stopped: false,
            reader: WakerSlot::default(),
        }
    }

    /// Returns whether the buffered data consists of so many pieces that no more should be read
    /// from the transport. Used for buffers whose size is bounded by flow control.
    pub(crate) fn is_fragmented(&self) -> bool {
        let pieces = self.pieces.len();
        let bytes = self.held.bytes().saturating_sub(pieces * PIECE_OVERHEAD);
        pieces >= MAX_PIECES + bytes / BYTES_PER_PIECE
    }

    /// Returns whether there is room for another piece. Used for buffers whose size is not bounded
    /// by flow control. `windows` are the maximum receive windows of a stream and of the
    /// connection: this buffer may not hold more than the transport's.
    #[cfg(feature = "http3")]
    pub(crate) fn has_room(&self, windows: [u64; 2]) -> bool {
        let [own, all] = windows.map(|window| usize::try_from(window).unwrap_or(usize::MAX));
        self.held.room_of(own, all) > 0
    }

    /// Returns whether nothing is buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds received data.
    pub(crate) fn push(&mut self, data: Bytes) {
        self.held.add(data.len() + PIECE_OVERHEAD);
        self.pieces.push_back(data);
    }

    /// Takes at most `max` bytes for the task.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let front = self.pieces.front_mut()?;
        if front.len() > max {
            self.held.remove(max);
            return Some(front.split_to(max));
        }
        let piece = self.pieces.pop_front()?;
        self.held.remove(piece.len() + PIECE_OVERHEAD);
        Some(piece)
    }

    /// Takes all data for the task, into the empty `pieces`.
    #[cfg(feature = "http3")]
    pub(crate) fn take_all(&mut self, pieces: &mut VecDeque<Bytes>) {
        core::mem::swap(&mut self.pieces, pieces);
        self.held.clear();
    }

    /// Discards the buffered data.
    pub(crate) fn clear(&mut self) {
        if self.pieces.capacity() > 0 {
            self.pieces = VecDeque::new();
        }
        self.held.clear();
    }

    /// Returns how receiving ended; `None` if it continues.
    pub(crate) fn end(&self) -> Option<&Result<(), E>> {
        self.end.as_ref()
    }

    /// Sets the result with which receiving ends. Data received earlier can still be read.
    pub(crate) fn finish<F: AppState>(&mut self, end: Result<(), E>, effects: &mut Effects<F>) {
        if self.end.is_none() {
            self.end = Some(end);
            self.has_more = false;
            self.stop = None;
            self.reader.wake(effects);
        }
    }

    /// Stops reading on behalf of the task; the transport has to send STOP_SENDING with this code.
    pub(crate) fn stop(&mut self, error_code: VarInt) {
        self.is_stopped = true;
        self.stop = Some(error_code);
    }

    /// Returns whether the task has stopped reading.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns whether a STOP_SENDING request has yet to be passed to the transport.
    pub(crate) const fn has_pending_stop(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns the error code of the STOP_SENDING frame that the transport has to send; returned
    /// only once.
    pub(crate) fn take_stop(&mut self) -> Option<VarInt> {
        self.stop.take()
    }

    /// Registers the task to be woken when more data or the end has arrived.
    pub(crate) fn watch<F: AppState>(&mut self, context: &Context<'_>, effects: &mut Effects<F>) {
        self.reader.register(context, effects);
    }

    /// Returns whether a task is waiting for more data.
    #[cfg(feature = "http3")]
    pub(crate) fn is_awaited(&self) -> bool {
        self.reader.is_waited_on() && self.pieces.is_empty() && self.end.is_none()
    }

    /// Wakes the waiting task.
    pub(crate) fn wake<F: AppState>(&mut self, effects: &mut Effects<F>) {
        self.reader.wake(effects);
    }

    /// Discards the task's waker, since the task has dropped its handle.
    pub(crate) fn release<F: AppState>(&mut self, effects: &mut Effects<F>) {
        self.reader.clear(effects);
    }
}

#[cfg(test)]
#[path = "receive_buffer_tests.rs"]
mod tests;
