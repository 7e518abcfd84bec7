//! Priorities (RFC 9218): what the client asks for, what the server makes of it, and what the transport is told.

use http::HeaderMap;

use super::Connection;
use crate::priority::Parameters;
use crate::{Code, ConnectionError, Event, Priority, Role, SendError, Transport};

/// The priority of one exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    /// The client's, if it has stated one.
    client: Option<Priority>,
    /// What the server has stated over it (§8).
    server: Parameters,
    /// It is a tunnel, which takes turns unless the client says otherwise (§11).
    is_tunnel: bool,
    /// `Event::Priority` waits to be taken.
    pub(super) is_told: bool,
}

impl Wish {
    /// That of a request with these fields.
    pub(super) fn new(client: Option<Priority>, is_tunnel: bool) -> Self {
        Self { client, is_tunnel, ..Self::default() }
    }

    fn priority(&self) -> Priority {
        let default = Priority { is_incremental: self.is_tunnel, ..Priority::default() };
        self.server.over(self.client.unwrap_or(default))
    }
}

impl Connection {
    /// The priority of the exchange on `stream`: what the client asked for in the request or later, changed by what the
    /// server stated; the default if neither said anything (RFC 9218 §4).
    pub fn priority(&self, stream: u64) -> Option<Priority> {
        self.requests.get(&stream).map(|entry| entry.wish.priority())
    }

    /// Changes the priority of the exchange on `stream`. A client asks its server for it (PRIORITY_UPDATE, RFC 9218 §7.2);
    /// a server decides, whatever the client has asked for or asks for later.
    ///
    /// Errors: [`SendError::StreamClosed`], [`SendError::ConnectionClosed`].
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
            Role::Server => entry.wish.server = Parameters::from(priority),
            Role::Client => {
                entry.wish.client = Some(priority);
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

    /// What the client has asked for in the frame that came before the request, otherwise in the request (RFC 9218 §7).
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

    /// The response states priority parameters, which lie over those of the client (RFC 9218 §8).
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
            entry.wish.server = parameters;
            self.apply_priority(transport, stream);
        }
    }

    /// Tells the transport when `stream` is to be sent.
    pub(super) fn apply_priority<T: Transport + ?Sized>(&self, transport: &mut T, stream: u64) {
        let Some(entry) = self.requests.get(&stream).filter(|_| self.config.prioritize) else {
            return;
        };
        // A client's uploads take turns unless it has said something.
        if self.role == Role::Server || entry.wish.client.is_some() {
            let priority = entry.wish.priority();
            transport.set_priority(stream, priority.level(), priority.is_incremental);
        }
    }

    /// PRIORITY_UPDATE (RFC 9218 §7.2). A field value that cannot be parsed is ignored.
    pub(super) fn priority_update<T: Transport + ?Sized>(
        &mut self,
        transport: &mut T,
        stream: u64,
        priority: Option<Priority>,
    ) -> Result<(), ConnectionError> {
        // Client-initiated bidirectional streams are the multiples of four.
        if !stream.is_multiple_of(4) {
            return Err(ConnectionError::new(
                Code::ID_ERROR,
                "PRIORITY_UPDATE does not name a request stream",
            ));
        }
        let Some(priority) = priority else { return Ok(()) };
        match self.requests.get_mut(&stream) {
            Some(entry) if entry.shown => {
                entry.wish.client = Some(priority);
                if !core::mem::replace(&mut entry.wish.is_told, true) {
                    self.busy.events.push_back(Event::Priority { stream });
                }
                self.apply_priority(transport, stream);
            }
            None if stream < self.next_request => {}
            _ => self.keep_early_priority(stream, priority),
        }
        Ok(())
    }

    /// Keeps a priority for a request that has not arrived. When there are too many, those of the highest streams are
    /// dropped, which arrive last.
    fn keep_early_priority(&mut self, stream: u64, priority: Priority) {
        self.busy.early_priorities.insert(stream, priority);
        if self.busy.early_priorities.len() > self.config.max_early_priorities {
            self.busy.early_priorities.pop_last();
        }
    }
}
