//! Decisions on clients that are made after the acceptor was called, by any thread.

use core::fmt;
use std::sync::Arc;

use clearway_transport::{AcceptOptions, Observer};

use super::{ApplicationFactory, Command, Mailbox};

/// The application, observer and options of an accepted connection.
#[non_exhaustive]
pub struct Accept {
    /// Creates the connection's application.
    pub application: ApplicationFactory,
    /// Observer of the connection.
    pub observer: Option<Box<dyn Observer>>,
    /// The connection's own configuration, and whether its early data may be accepted.
    pub options: AcceptOptions,
}

impl Accept {
    /// Accepts with the shard's configuration and without an observer.
    pub fn new(application: ApplicationFactory) -> Self {
        Self { application, observer: None, options: AcceptOptions::default() }
    }
}

/// A decision that is final.
pub(crate) enum Answer {
    Accept(Box<Accept>),
    Refuse,
    Retry,
    Ignore,
}

/// A client whose acceptor has [postponed](crate::Decision::Postpone) the decision. Nothing has
/// been sent to the client, and the shard keeps its datagrams.
///
/// The decision can be made on any thread. It has no effect if the client has waited longer than
/// [`handshake_timeout`](clearway_transport::TransportConfig::handshake_timeout), the shard no
/// longer accepts clients or has ended, or another process has taken over. An accepted client's
/// application is then dropped without being created. If the client has given up in the meantime,
/// its connection begins and ends at once or after a timeout.
///
/// Dropping this refuses the client.
#[must_use = "dropping this refuses the client"]
pub struct Undecided {
    mailbox: Arc<Mailbox>,
    ticket: u64,
    is_decided: bool,
}

impl Undecided {
    pub(crate) fn new(mailbox: Arc<Mailbox>, ticket: u64) -> Self {
        Self { mailbox, ticket, is_decided: false }
    }

    /// Accepts the connection.
    pub fn accept(self, accept: Accept) {
        self.decide(Answer::Accept(Box::new(accept)));
    }

    /// Closes the connection with CONNECTION_REFUSED.
    pub fn refuse(self) {
        self.decide(Answer::Refuse);
    }

    /// Sends a Retry packet: the client must validate its address first (RFC 9000 §8.1.2). The
    /// acceptor is called again when the client has responded.
    pub fn retry(self) {
        self.decide(Answer::Retry);
    }

    /// Sends no response.
    pub fn ignore(self) {
        self.decide(Answer::Ignore);
    }

    fn decide(mut self, answer: Answer) {
        self.is_decided = true;
        self.send(answer);
    }

    fn send(&self, answer: Answer) {
        // A shard that has ended has no clients.
        let _ = self.mailbox.send(Command::Decide { ticket: self.ticket, answer });
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        if !self.is_decided {
            self.send(Answer::Refuse);
        }
    }
}

impl fmt::Debug for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecided").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
