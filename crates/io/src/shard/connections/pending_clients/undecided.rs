//! Clients whose acceptor has postponed the decision.
//!
//! They stay among the waiting clients, so their datagrams are kept and they count toward the same
//! limits. Decisions are queued with the clients that arrive: however many decisions come at once,
//! a turn begins one handshake.

use std::collections::BTreeMap;

use clearway_units::Timestamp;

use super::super::Connections;
use super::{ClientKey, PendingClient, PendingClients};
use crate::acceptor::Decision;
use crate::guarded::guarded;
use crate::mailbox::{Answer, Undecided};

/// Maximum number of clients that a turn drops because nobody has decided on them.
const MAX_EXPIRED: usize = 64;

/// Log message for a panic of application code that is dropped with a client.
const DROPPED: &str = "application code panicked while a client was being dropped";

/// Progress of the decision on a waiting client.
pub(super) enum Stage {
    /// The acceptor has not been called yet.
    Queued,
    /// The acceptor has postponed the decision.
    Undecided,
    /// The postponed decision was made.
    Decided(Answer),
}

impl Stage {
    /// Drops the application of an accepted client whose connection does not begin.
    pub(super) fn discard(self) {
        let _ = guarded(DROPPED, || drop(self));
    }
}

/// Returns the acceptor's decision that has the same effect.
pub(super) fn decision(answer: Answer) -> Decision {
    match answer {
        Answer::Accept(accept) => Decision::Accept(*accept),
        Answer::Refuse => Decision::Refuse,
        Answer::Retry => Decision::Retry,
        Answer::Ignore => Decision::Ignore,
    }
}

/// The clients whose decision is postponed, by ticket.
#[derive(Default)]
pub(super) struct Tickets {
    open: BTreeMap<u64, Ticket>,
    /// The next ticket: tickets are never used again.
    next: u64,
}

struct Ticket {
    client: ClientKey,
    /// The time at which the client is dropped.
    expires: Timestamp,
}

impl Tickets {
    fn open(&mut self, client: ClientKey, expires: Timestamp) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.open.insert(ticket, Ticket { client, expires });
        ticket
    }

    /// Removes the oldest ticket if it has expired.
    fn take_expired(&mut self, now: Timestamp) -> Option<ClientKey> {
        let oldest = self.open.first_entry().filter(|entry| entry.get().expires <= now)?;
        Some(oldest.remove().client)
    }
}

impl PendingClients {
    /// Returns the time at which the next undecided client is dropped.
    pub(in super::super) fn next_expiry(&self) -> Option<Timestamp> {
        self.tickets.open.first_key_value().map(|(_, ticket)| ticket.expires)
    }

    /// Queues a client whose decision was made, or drops the decision if the client is gone.
    fn decided(&mut self, ticket: u64, answer: Answer) {
        let decided = Stage::Decided(answer);
        let key = self.tickets.open.remove(&ticket).map(|ticket| ticket.client);
        match key.and_then(|key| Some((key, self.waiting.get_mut(&key)?))) {
            Some((key, client)) => {
                client.stage = decided;
                self.order.push_back(key);
            }
            None => decided.discard(),
        }
    }
}

impl Connections {
    /// Lets a client wait for its decision, and passes it on.
    pub(super) fn postpone(
        &mut self,
        now: Timestamp,
        key: ClientKey,
        mut client: PendingClient,
        give: Box<dyn FnOnce(Undecided)>,
    ) {
        let timeout = self.endpoint.server().map(|server| server.transport.handshake_timeout());
        let expires = now + timeout.unwrap_or_default();
        let ticket = self.pending_clients.tickets.open(key, expires);
        client.stage = Stage::Undecided;
        self.pending_clients.insert(key, client);
        let undecided = Undecided::new(self.mailbox.clone(), ticket);
        let _ = guarded("acceptor panicked; the client is refused", || give(undecided));
    }

    /// Notes the decision on a client.
    pub(in crate::shard) fn decided(&mut self, ticket: u64, answer: Answer) {
        self.pending_clients.decided(ticket, answer);
    }

    /// Refuses all undecided clients: no later decision can accept them.
    pub(in super::super) fn refuse_undecided(&mut self) {
        while let Some((&ticket, _)) = self.pending_clients.tickets.open.first_key_value() {
            self.pending_clients.decided(ticket, Answer::Refuse);
        }
    }

    /// Drops undecided clients that have waited too long. They do not get a response: their own
    /// attempts have ended or will time out.
    pub(in super::super) fn expire_undecided(&mut self, now: Timestamp) {
        for _ in 0..MAX_EXPIRED {
            let Some(key) = self.pending_clients.tickets.take_expired(now) else { return };
            if self.pending_clients.remove(&key).is_some() {
                self.counts.half_open.end();
                self.counts.refused += 1;
            }
        }
    }
}
