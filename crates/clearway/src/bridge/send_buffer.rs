//! The buffer for data to send, from a task to the transport.

use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use clearway_transport::SendCredits;
use clearway_wire::VarInt;

use super::held::{Held, PIECE_OVERHEAD, STREAM_BUFFER, Total};
use super::watchers::Watchers;
use super::{AppState, Effects, WakerSlot};

/// The sending state of a stream or message. `E` is the error that sending failed with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SendState<E> {
    /// The task can write.
    Open,
    /// The task has finished; the transport has not accepted all data yet.
    Finishing,
    /// The transport has accepted all data, including the end.
    Finished,
    /// The peer has acknowledged all data.
    Delivered,
    /// The task has reset the stream; the reset has yet to be passed to the transport.
    Resetting(VarInt),
    /// The task has reset the stream except for its first bytes, and the transport has not accepted
    /// all of those bytes yet.
    ResettingAt {
        /// The error code.
        error_code: VarInt,
        /// Number of bytes at the start of the stream that must still be delivered.
        reliable_size: u64,
    },
    /// The transport has reset the stream.
    Reset,
    /// Sending failed: nothing more can be sent.
    Failed(E),
}

/// The condition that a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    Room,
    /// Flow control credit from the peer.
    Credit,
    #[cfg(feature = "http3")]
    End,
}

/// Data that a task has written but the transport has not accepted yet.
pub(crate) struct SendBuffer<E> {
    pieces: VecDeque<Bytes>,
    held: Held,
    state: SendState<E>,
    /// Number of bytes that the transport has accepted.
    taken: u64,
    /// Set if the transport accepted less than it was offered; an event will report when it accepts
    /// more.
    is_blocked: bool,
    /// Number of additional bytes that the task may be granted under the peer's stream-level flow
    /// control limit.
    credit: usize,
    /// Number of bytes that were granted to the task and that it has not written yet.
    unused: usize,
    wait: Wait,
    task: WakerSlot,
    /// Tasks that wait until sending has ended, in addition to `task`.
    watchers: Option<Box<Watchers>>,
}

impl<E> SendBuffer<E> {
    /// Creates a buffer whose bytes count toward `total`; without a total, only its own limit
    /// applies.
    pub(crate) fn new(total: Option<&Total>) -> Self {
        Self {
            pieces: VecDeque::new(),
            held: Held::new(total),
            state: SendState::Open,
            taken: 0,
            is_blocked: false,
            credit: 0,
            unused: 0,
            wait: Wait::Room,
            task: WakerSlot::default(),
            watchers: None,
        }
    }

    /// Creates a buffer whose bytes count toward `total`, but are limited only by its own limit.
    pub(crate) fn counted(total: &Total) -> Self {
        let mut buffer = Self::new(None);
        buffer.held = Held::counted(total);
        buffer
    }

    pub(crate) fn state(&self) -> &SendState<E> {
        &self.state
    }

    /// Returns whether nothing is left to hand over to the transport, not even a reset.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(
            self.state,
            SendState::Open
                | SendState::Finishing
                | SendState::Resetting(_)
                | SendState::ResettingAt { .. }
        )
    }

    /// Returns whether nothing is buffered.
    #[cfg(feature = "http3")]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns whether the buffer has room.
    pub(crate) fn has_room(&self) -> bool {
        self.held.room() > 0
    }

    /// Waits until the buffer has room, and returns the number of bytes that fit.
    pub(crate) fn poll_room<F: AppState>(
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

    /// Waits until there is room and the peer's flow control allows more data. Returns the number
    /// of bytes that the task may write, at most `max`. While the task waits, the shard must report
    /// the credit with [`set_credit`](Self::set_credit).
    pub(crate) fn poll_credit<F: AppState>(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects<F>,
        max: usize,
    ) -> Poll<usize> {
        let room = self.held.room();
        if room == 0 {
            self.watch(Wait::Room, context, effects);
            return Poll::Pending;
        }
        if self.unused == 0 {
            self.unused = self.held.grant(max.min(self.credit));
            self.credit -= self.unused;
        }
        if self.unused == 0 {
            self.watch(Wait::Credit, context, effects);
            return Poll::Pending;
        }
        Poll::Ready(self.unused.min(max))
    }

    /// Returns whether the task is waiting for flow control credit.
    pub(crate) fn awaits_credit(&self) -> bool {
        self.wait == Wait::Credit && self.task.is_waited_on()
    }

    /// Sets the peer's flow control credit, in bytes beyond the data that the transport has
    /// accepted. Returns whether this wakes the task.
    pub(crate) fn set_credit<F: AppState>(
        &mut self,
        credits: SendCredits,
        effects: &mut Effects<F>,
    ) -> bool {
        let bytes = |credit| usize::try_from(credit).unwrap_or(usize::MAX);
        self.credit = bytes(credits.stream).saturating_sub(self.held.granted());
        let of_connection = self.held.set_connection_credit(bytes(credits.connection));
        let is_enough = self.credit > 0 && of_connection > 0;
        if is_enough {
            self.task.wake(effects);
        }
        is_enough
    }

    /// Returns the tasks that wait until sending has ended, without the one that writes.
    pub(crate) fn watchers(&mut self) -> &mut Watchers {
        self.watchers.get_or_insert_default()
    }

    /// Returns whether there are [watchers](Self::watchers) that have not noticed the end yet.
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.as_ref().is_some_and(|watchers| !watchers.is_empty())
    }

    /// Removes a watcher.
    pub(crate) fn unwatch<F: AppState>(&mut self, number: u64, effects: &mut Effects<F>) {
        if let Some(watchers) = &mut self.watchers {
            watchers.remove(number, effects);
            if watchers.is_empty() {
                self.watchers = None;
            }
        }
    }

    /// Registers the task to be woken when sending has ended.
    #[cfg(feature = "http3")]
    pub(crate) fn watch_end<F: AppState>(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects<F>,
    ) {
        self.watch(Wait::End, context, effects);
    }

    fn watch<F: AppState>(&mut self, wait: Wait, context: &Context<'_>, effects: &mut Effects<F>) {
        self.wait = wait;
        self.task.register(context, effects);
    }

    /// Buffers data that a task writes. The task must have checked that there is room.
    pub(crate) fn push(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.held.add(data.len() + PIECE_OVERHEAD);
            self.unused = self.unused.saturating_sub(data.len());
            self.pieces.push_back(data);
        }
    }

    /// Ends the stream after the data written so far.
    pub(crate) fn finish(&mut self) {
        if matches!(self.state, SendState::Open) {
            self.state = SendState::Finishing;
        }
    }

    /// Records that the transport has accepted all data, including the end.
    pub(crate) fn set_finished(&mut self) {
        self.state = SendState::Finished;
    }

    /// Discards data that the transport has not accepted yet; the transport has to reset the
    /// stream.
    pub(crate) fn reset(&mut self, error_code: VarInt) {
        self.clear();
        self.state = SendState::Resetting(error_code);
    }

    /// Discards the bytes after the first `reliable_size` bytes of the stream, unless the transport
    /// has already accepted them. The transport must accept the remaining bytes and then reset the
    /// stream.
    pub(crate) fn reset_at(&mut self, error_code: VarInt, reliable_size: u64) {
        let mut room =
            usize::try_from(reliable_size.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        let mut kept = 0;
        for piece in &mut self.pieces {
            if room == 0 {
                break;
            }
            let length = piece.len().min(room);
            self.held.remove(piece.len() - length);
            piece.truncate(length);
            room -= length;
            kept += 1;
        }
        for piece in self.pieces.drain(kept..) {
            self.held.remove(piece.len() + PIECE_OVERHEAD);
        }
        self.state = SendState::ResettingAt { error_code, reliable_size };
    }

    fn clear(&mut self) {
        if self.pieces.capacity() > 0 {
            self.pieces = VecDeque::new();
        }
        self.held.clear();
        self.unused = 0;
    }

    /// Records that the transport accepts data again.
    pub(crate) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Returns whether the transport accepts data and sending has not ended.
    pub(crate) fn is_sendable(&self) -> bool {
        !self.is_blocked
            && matches!(
                self.state,
                SendState::Open | SendState::Finishing | SendState::ResettingAt { .. }
            )
    }

    /// Offers the buffered data to the transport with `write`, which gets a piece and whether the
    /// stream ends after it, and returns the number of bytes taken. Returns whether all data was
    /// taken.
    pub(crate) fn hand_over<X>(
        &mut self,
        mut write: impl FnMut(Bytes, bool) -> Result<usize, X>,
    ) -> Result<bool, X> {
        let is_finishing = matches!(self.state, SendState::Finishing);
        let mut following = self.pieces.len();
        while let Some(piece) = self.pieces.front_mut() {
            following = following.saturating_sub(1);
            let taken = write(piece.clone(), is_finishing && following == 0)?.min(piece.len());
            self.taken += taken as u64;
            self.held.use_grant(taken);
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

    /// Wakes the task if it waits for room and at least half of the buffer is free.
    pub(crate) fn wake_for_room<F: AppState>(&mut self, effects: &mut Effects<F>) {
        if self.wait == Wait::Room && self.held.bytes() <= STREAM_BUFFER / 2 {
            self.task.wake(effects);
        }
    }

    /// Wakes the task, whether it is waiting for room or for the end.
    #[cfg(feature = "http3")]
    pub(crate) fn wake<F: AppState>(&mut self, effects: &mut Effects<F>) {
        self.task.wake(effects);
    }

    /// Ends sending with `state`: the transport has accepted all data, or never will.
    pub(crate) fn end<F: AppState>(&mut self, state: SendState<E>, effects: &mut Effects<F>) {
        self.state = state;
        self.abandon(effects);
    }

    /// Discards the buffered data, since the connection has ended.
    pub(crate) fn abandon<F: AppState>(&mut self, effects: &mut Effects<F>) {
        self.clear();
        self.task.wake(effects);
        if let Some(watchers) = &mut self.watchers {
            watchers.wake(effects);
        }
    }

    /// Discards the task's waker, since the task has dropped its handle.
    pub(crate) fn release<F: AppState>(&mut self, effects: &mut Effects<F>) {
        self.task.clear(effects);
    }
}

#[cfg(test)]
#[path = "send_buffer_tests.rs"]
mod tests;
