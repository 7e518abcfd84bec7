//! From a task to the transport.

use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use clearway_wire::VarInt;

use super::held::{Held, PIECE_OVERHEAD, STREAM_BUFFER, Total};
use super::{Effects, Face, WakerSlot};

/// How far the sending of a stream or a message has come. `E` says why it failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SendState<E> {
    /// It takes data.
    Open,
    /// The end comes after what waits.
    Finishing,
    /// The transport has everything, and the end.
    Finished,
    /// The peer has everything.
    Delivered,
    /// The transport is to be told of the reset.
    Resetting(VarInt),
    /// The transport knows of the reset.
    Reset,
    /// Nothing more can be sent.
    Failed(E),
}

/// What a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    Room,
    End,
}

/// What a task has written and the transport has not taken.
pub(crate) struct SendBuffer<E> {
    pieces: VecDeque<Bytes>,
    held: Held,
    state: SendState<E>,
    /// The transport took less than it was offered, and will tell when it takes more.
    is_blocked: bool,
    wait: Wait,
    task: WakerSlot,
}

impl<E> SendBuffer<E> {
    /// A buffer of a connection whose streams together hold `total`; without one, it is limited for itself.
    pub(crate) fn new(total: Option<&Total>) -> Self {
        Self {
            pieces: VecDeque::new(),
            held: Held::new(total),
            state: SendState::Open,
            is_blocked: false,
            wait: Wait::Room,
            task: WakerSlot::default(),
        }
    }

    pub(crate) fn state(&self) -> &SendState<E> {
        &self.state
    }

    /// Whether the transport needs nothing more of it.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.state, SendState::Open | SendState::Finishing | SendState::Resetting(_))
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether there is room.
    pub(crate) fn has_room(&self) -> bool {
        self.held.room() > 0
    }

    /// Waits for room: how many bytes there are room for.
    pub(crate) fn poll_room<F: Face>(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects<F>,
    ) -> Poll<usize> {
        let room = self.held.room();
        if room == 0 {
            self.watch(Wait::Room, context, effects);
            return Poll::Pending;
        }
        Poll::Ready(room)
    }

    /// Has the task woken when sending has come to its end.
    pub(crate) fn watch_end<F: Face>(&mut self, context: &Context<'_>, effects: &mut Effects<F>) {
        self.watch(Wait::End, context, effects);
    }

    fn watch<F: Face>(&mut self, wait: Wait, context: &Context<'_>, effects: &mut Effects<F>) {
        self.wait = wait;
        self.task.register(context, effects);
    }

    /// Takes what a task wrote. The task makes sure of room before.
    pub(crate) fn push(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.held.add(data.len() + PIECE_OVERHEAD);
            self.pieces.push_back(data);
        }
    }

    /// The end comes after what was written.
    pub(crate) fn finish(&mut self) {
        if matches!(self.state, SendState::Open) {
            self.state = SendState::Finishing;
        }
    }

    /// The transport has everything, and the end.
    pub(crate) fn set_finished(&mut self) {
        self.state = SendState::Finished;
    }

    /// Gives up what the transport has not taken; it is to be told of the reset.
    pub(crate) fn reset(&mut self, error_code: VarInt) {
        self.clear();
        self.state = SendState::Resetting(error_code);
    }

    fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.held.clear();
    }

    /// The transport takes data again.
    pub(crate) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Whether there is anything that the transport would take now.
    pub(crate) fn is_sendable(&self) -> bool {
        !self.is_blocked && matches!(self.state, SendState::Open | SendState::Finishing)
    }

    /// Offers what waits to the transport by `write`, which says how many bytes were taken. Whether that
    /// was all.
    pub(crate) fn hand_over<X>(
        &mut self,
        mut write: impl FnMut(Bytes) -> Result<usize, X>,
    ) -> Result<bool, X> {
        while let Some(piece) = self.pieces.front_mut() {
            let taken = write(piece.clone())?.min(piece.len());
            if taken < piece.len() {
                piece.advance(taken);
                self.held.remove(taken);
                self.is_blocked = true;
                return Ok(false);
            }
            self.pieces.pop_front();
            self.held.remove(taken + PIECE_OVERHEAD);
        }
        Ok(true)
    }

    /// Wakes the task if it waits for room and there is enough to be worth its while.
    pub(crate) fn wake_for_room<F: Face>(&mut self, effects: &mut Effects<F>) {
        if self.wait == Wait::Room && self.held.bytes() <= STREAM_BUFFER / 2 {
            self.task.wake(effects);
        }
    }

    /// Wakes the task that waits, whatever for.
    pub(crate) fn wake<F: Face>(&mut self, effects: &mut Effects<F>) {
        self.task.wake(effects);
    }

    /// The transport has everything, or will never have it.
    pub(crate) fn end<F: Face>(&mut self, state: SendState<E>, effects: &mut Effects<F>) {
        self.clear();
        self.state = state;
        self.task.wake(effects);
    }

    /// What waits is of no use any more, since the connection is over.
    pub(crate) fn abandon<F: Face>(&mut self, effects: &mut Effects<F>) {
        self.clear();
        self.task.wake(effects);
    }

    /// No task will ask again.
    pub(crate) fn release<F: Face>(&mut self, effects: &mut Effects<F>) {
        self.task.clear(effects);
    }
}

#[cfg(test)]
#[path = "send_buffer_tests.rs"]
mod tests;
