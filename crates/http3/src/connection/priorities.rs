//! Priorities (RFC 9218): the client's request, the server's override, and the result for the
//! transport.

use http::HeaderMap;

use super::Connection;
use crate::priority::Parameters;
use crate::{Code, ConnectionError, Event, Priority, Role, SendError, Transport};

/// The priority of one exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExchangePriority {
    /// The client's priority, if it has sent one.
    client: Option<Priority>,
    /// The parameters that the server has set, which override the client's (§8).
    server: Parameters,
    /// Whether the exchange is a tunnel, which is incremental unless the client requests otherwise
    /// (§11).
    is_tunnel: bool,
    /// Whether an `Event::Priority` is still queued.
    pub(super) is_reported: bool,
}

impl ExchangePriority {
    /// Creates the priority state of a request.
    pub(super) fn new(client: Option<Priority>, is_tunnel: bool) -> Self {
        Self { client, is_tunnel, ..Self::default() }
    }

    fn effective(&self) -> Priority {
        let default = Priority { is_incremental: self.is_tunnel, ..Priority::default() };
        self.server.over(self.client.unwrap_or(default))
    }
}

impl Connection {
    /// Returns the priority of the exchange on `stream`: the priority that the client requested,
    /// initially or in an update, as overridden by the server, or the default if neither has set
    /// one (RFC 9218 §4).
    pub fn priority(&self, stream: u64) -> Option<Priority> {
        self.requests.get(&stream).map(|entry| entry.priority.effective())
    }

    /// Changes the priority of the exchange on `stream`. A client requests the change from its
    /// server (PRIORITY_UPDATE, RFC 9218 §7.2). A server applies it, overriding earlier and later
    /// requests by the client.
    ///
    /// # Errors
    /// Returns [`SendError::StreamClosed`] or [`SendError::ConnectionClosed`].
    pub fn set_priority<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        priority: Priority,
    ) -> Result<(), SendError> {
        self.check_open()?;
        let priority = Priority::new(priority.urgency, priority.is_incremental);
        let entry = self.requests.get_mut(&stream).ok_or(SendError::StreamClosed)?;
        match self.role {
            Role::Server => entry.priority.server = Parameters::from(priority),
            Role::Client => {
                entry.priority.client = Some(priority);
                self.control.queue_priority(stream, priority);
                if let Err(error) = self.control.stream.flush(transport) {
                    self.fail(transport, error);
                    return Err(SendError::ConnectionClosed);
                }
            }
        }
        self.apply_priority(transport, stream);
        Ok(())
    }

    /// Returns the client's priority: the one in a PRIORITY_UPDATE that arrived before the request,
    /// or else the one in the request (RFC 9218 §7).
    pub(super) fn early_priority(
        &mut self,
        stream: u64,
        stated: Option<Priority>,
    ) -> Option<Priority> {
        if self.busy.early_priorities.is_empty() {
            return stated;
        }
        self.busy.early_priorities.remove(&stream).or(stated)
    }

    /// Applies the priority parameters of a response, which override the client's parameters (RFC
    /// 9218 §8).
    pub(super) fn respond_with_priority<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        stated: Option<Priority>,
        headers: &HeaderMap,
    ) {
        let parameters = stated.map(Parameters::from).or_else(|| Parameters::of(headers));
        let Some(entry) = self.requests.get_mut(&stream) else { return };
        if let Some(parameters) = parameters {
            entry.priority.server = parameters;
            self.apply_priority(transport, stream);
        }
    }

    /// Passes the priority of `stream` to the transport.
    pub(super) fn apply_priority<T: Transport + ?Sized>(&self, transport: &mut T, stream: u64) {
        let Some(entry) = self.requests.get(&stream).filter(|_| self.config.prioritize) else {
            return;
        };
        // A client's uploads are incremental unless it has set a priority.
        if self.role == Role::Server || entry.priority.client.is_some() {
            let priority = entry.priority.effective();
            transport.set_priority(stream, priority.level(), priority.is_incremental);
        }
    }

    /// Handles PRIORITY_UPDATE (RFC 9218 §7.2). A field value that cannot be parsed is ignored.
    pub(super) fn priority_update<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        priority: Option<Priority>,
    ) -> Result<(), ConnectionError> {
        // Client-initiated bidirectional stream IDs are multiples of four.
        if !stream.is_multiple_of(4) {
            return Err(ConnectionError::new(
                Code::ID_ERROR,
                "the identifier in PRIORITY_UPDATE is not a request stream ID",
            ));
        }
        let Some(priority) = priority else { return Ok(()) };
        match self.requests.get_mut(&stream) {
            Some(entry) if entry.shown => {
                entry.priority.client = Some(priority);
                if !core::mem::replace(&mut entry.priority.is_reported, true) {
                    self.busy.events.push_back(Event::Priority { stream });
                }
                self.apply_priority(transport, stream);
            }
            None if stream < self.next_request => {}
            _ => self.keep_early_priority(stream, priority),
        }
        Ok(())
    }

    /// Keeps a priority for a request that has not arrived. When there are too many, the priorities
    /// of the highest stream IDs are dropped, since these requests arrive last.
    fn keep_early_priority(&mut self, stream: u64, priority: Priority) {
        self.busy.early_priorities.insert(stream, priority);
        if self.busy.early_priorities.len() > self.config.max_early_priorities {
            self.busy.early_priorities.pop_last();
        }
    }
}
