//! From the transport to a task.

use core::task::Context;
use std::collections::VecDeque;

use bytes::Bytes;
use clearway_wire::VarInt;

use super::held::{Held, PIECE_OVERHEAD, Total};
use super::{Effects, Face, WakerSlot};

/// So many received pieces of a stream wait for its task however small they are.
const MAX_PIECES: usize = 16;
/// One piece more waits for each this many bytes. The rest stays in the transport, which joins pieces
/// as they come: many small ones cost no more than a small multiple of their bytes.
const BYTES_PER_PIECE: usize = 512;

/// What came and no task has taken. `E` says why nothing more comes, if that is not the end.
pub(crate) struct ReceiveBuffer<E> {
    pieces: VecDeque<Bytes>,
    held: Held,
    end: Option<Result<(), E>>,
    /// The transport may have more.
    pub(crate) has_more: bool,
    /// The transport is to be told that no more is wanted.
    stop: Option<VarInt>,
    /// No more is wanted.
    is_stopped: bool,
    reader: WakerSlot,
}

impl<E> ReceiveBuffer<E> {
    /// A buffer of a connection whose streams together hold `total`.
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

    /// Whether what waits is in so many pieces that no more are taken. For a buffer whose bytes flow
    /// control bounds.
    pub(crate) fn is_fragmented(&self) -> bool {
        let pieces = self.pieces.len();
        let bytes = self.held.bytes().saturating_sub(pieces * PIECE_OVERHEAD);
        pieces >= MAX_PIECES + bytes / BYTES_PER_PIECE
    }

    /// Whether there is room for another piece. For a buffer whose bytes flow control does not bound.
    pub(crate) fn has_room(&self) -> bool {
        self.held.room() > 0
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds what came.
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

    /// Takes everything for the task, into the empty `pieces`.
    pub(crate) fn take_all(&mut self, pieces: &mut VecDeque<Bytes>) {
        core::mem::swap(&mut self.pieces, pieces);
        self.held.clear();
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.held.clear();
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<&Result<(), E>> {
        self.end.as_ref()
    }

    /// Nothing more comes. What came before can still be read.
    pub(crate) fn finish<F: Face>(&mut self, end: Result<(), E>, effects: &mut Effects<F>) {
        if self.end.is_none() {
            self.end = Some(end);
            self.has_more = false;
            self.stop = None;
            self.reader.wake(effects);
        }
    }

    /// No more is wanted, and the transport is to be told.
    pub(crate) fn stop(&mut self, error_code: VarInt) {
        self.is_stopped = true;
        self.stop = Some(error_code);
    }

    /// Whether no more is wanted.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether the transport is still to be told that.
    pub(crate) const fn owes_stop(&self) -> bool {
        self.stop.is_some()
    }

    /// The code with which the transport is to be told that no more is wanted, once.
    pub(crate) fn take_stop(&mut self) -> Option<VarInt> {
        self.stop.take()
    }

    /// Has the task woken when more has come, or the end.
    pub(crate) fn watch<F: Face>(&mut self, context: &Context<'_>, effects: &mut Effects<F>) {
        self.reader.register(context, effects);
    }

    /// Whether a task waits for more.
    pub(crate) fn is_awaited(&self) -> bool {
        self.reader.is_waited_on() && self.pieces.is_empty() && self.end.is_none()
    }

    /// Wakes the task that waits.
    pub(crate) fn wake<F: Face>(&mut self, effects: &mut Effects<F>) {
        self.reader.wake(effects);
    }

    /// No task will ask again.
    pub(crate) fn release<F: Face>(&mut self, effects: &mut Effects<F>) {
        self.reader.clear(effects);
    }
}

#[cfg(test)]
#[path = "receive_buffer_tests.rs"]
mod tests;
