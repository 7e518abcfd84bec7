//! The future that waits for the end of sending on a stream.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use clearway_transport::ConnectionError;
use clearway_wire::{StreamId, VarInt};

use crate::bridge::SendState;
use crate::connection_ref::ConnectionRef;
use crate::streams::State;

/// How sending on a stream has ended; see [`SendStream::stopped`](crate::SendStream::stopped).
type Outcome = Result<Option<VarInt>, ConnectionError>;

/// A future that waits until the peer stops a stream or has acknowledged everything: see
/// [`SendStream::stopped`](crate::SendStream::stopped).
#[must_use = "a future does nothing unless it is polled"]
pub struct Stopped(Progress);

enum Progress {
    Waiting(Watcher),
    Over(Outcome),
}

impl Stopped {
    pub(crate) fn new(connection: &ConnectionRef, id: StreamId) -> Self {
        let progress = connection.act(|state, _| {
            if let Some(outcome) = outcome(state, id) {
                return Progress::Over(outcome);
            }
            let Some(send) = state.send_half(id) else { return Progress::Over(Ok(None)) };
            // The outcome is kept from now on, also if the handle is dropped before the future is
            // polled.
            let number = send.buffer.watchers().add();
            Progress::Waiting(Watcher { connection: connection.clone(), id, number })
        });
        Self(progress)
    }
}

/// Returns how sending on a stream has ended, if it has.
pub(crate) fn outcome(state: &mut State, id: StreamId) -> Option<Outcome> {
    let lost = state.lost();
    let Some(send) = state.send_half(id) else { return Some(Ok(None)) };
    match send.buffer.state() {
        SendState::Failed(code) => Some(Ok(Some(*code))),
        SendState::Delivered
        | SendState::Resetting(_)
        | SendState::ResettingAt { .. }
        | SendState::Reset => Some(Ok(None)),
        SendState::Open | SendState::Finishing | SendState::Finished => lost.map(Err),
    }
}

/// The registration of a future that waits for the end of a stream. Dropping it removes it.
struct Watcher {
    connection: ConnectionRef,
    id: StreamId,
    number: u64,
}

impl Watcher {
    fn poll(&self, context: &Context<'_>) -> Poll<Outcome> {
        self.connection.act(|state, effects| {
            if let Some(outcome) = outcome(state, self.id) {
                return Poll::Ready(outcome);
            }
            if let Some(send) = state.send_half(self.id) {
                send.buffer.watchers().register(self.number, context, effects);
            }
            Poll::Pending
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.connection.act(|state, effects| {
            if let Some(send) = state.send_half(self.id) {
                send.buffer.unwatch(self.number, effects);
                state.app.retire(self.id);
            }
        });
    }
}

impl Future for Stopped {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = match &self.0 {
            Progress::Over(outcome) => return Poll::Ready(outcome.clone()),
            Progress::Waiting(watcher) => core::task::ready!(watcher.poll(context)),
        };
        self.0 = Progress::Over(outcome.clone());
        Poll::Ready(outcome)
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopped").finish_non_exhaustive()
    }
}
