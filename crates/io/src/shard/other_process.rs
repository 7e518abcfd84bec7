//! The connection to the same shard of the other process during a hot restart.

use std::sync::Arc;

use crate::system::restart::{Conversation, Pipe, Piped};

/// Handle to the same shard in the previous or next process.
pub(super) struct OtherProcess {
    pipe: Arc<Pipe>,
    may_have_more: bool,
    /// Kept until this shard ends, so that the next process detects that this one still exists;
    /// `None` if the other process is the previous one.
    lasting: Option<Arc<Conversation>>,
}

impl OtherProcess {
    /// Creates the handle to the previous process, which returns datagrams that begin a connection.
    pub(super) fn predecessor(pipe: Arc<Pipe>) -> Self {
        Self { pipe, may_have_more: true, lasting: None }
    }

    /// Creates the handle to the next process, which forwards datagrams for this one's
    /// connections.
    pub(super) fn successor(pipe: Arc<Pipe>, lasting: Arc<Conversation>) -> Self {
        Self { pipe, may_have_more: true, lasting: Some(lasting) }
    }

    pub(super) fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    /// Receives the next datagram into `buffer`.
    pub(super) fn receive<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Piped<'a>> {
        let received = self.pipe.receive(buffer);
        self.may_have_more = received.is_some();
        received
    }

    /// Returns whether [`receive`](Self::receive) may return a datagram.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Records that there is something to receive, or that the other process has ended.
    pub(super) fn note_readiness(&mut self) {
        self.may_have_more = true;
    }

    /// Returns whether the other process is the next one.
    pub(super) fn is_successor(&self) -> bool {
        self.lasting.is_some()
    }
}
