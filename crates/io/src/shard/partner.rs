//! The same shard of the other process, while one process replaces another.

use std::sync::Arc;

use crate::system::restart::{Conversation, Pipe, Piped};

/// The same shard of the process before or after.
pub(super) struct Partner {
    pipe: Arc<Pipe>,
    may_have_more: bool,
    /// Until this shard ends, the process after knows that this one is there; `None` if the partner is the process before.
    lasting: Option<Arc<Conversation>>,
}

impl Partner {
    /// The process before, which gives back what begins a connection.
    pub(super) fn predecessor(pipe: Arc<Pipe>) -> Self {
        Self { pipe, may_have_more: true, lasting: None }
    }

    /// The process after, which forwards what is for this one's connections.
    pub(super) fn successor(pipe: Arc<Pipe>, lasting: Arc<Conversation>) -> Self {
        Self { pipe, may_have_more: true, lasting: Some(lasting) }
    }

    pub(super) fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    /// The next datagram, in `buffer`.
    pub(super) fn receive<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Piped<'a>> {
        let received = self.pipe.receive(buffer);
        self.may_have_more = received.is_some();
        received
    }

    /// Whether [`receive`](Self::receive) may find something.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// There is something to receive, or the other process has ended.
    pub(super) fn note_readiness(&mut self) {
        self.may_have_more = true;
    }

    /// Whether this is the process after.
    pub(super) fn is_successor(&self) -> bool {
        self.lasting.is_some()
    }
}
