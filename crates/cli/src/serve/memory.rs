//! The memory for response content: a total limit for all clients, and a share for each address
//! prefix.
//!
//! A response waits until there is memory for its next piece. When memory is low, the longest
//! blocked response of the host that uses the most memory is reset. Therefore, no new client is
//! rejected because other clients do not accept content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clearway_units::{AddressPrefix, FairShares, Shortage};
use tokio::sync::Notify;

/// Minimum time for which a client must have accepted no data of a response before the response can
/// be reset in favor of others.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of hosts, starting with the one that uses the most memory, to search for a response to
/// reset.
const HOSTS: usize = 16;

/// Memory is considered low for all clients while less than 1/`SHORT` of it is free. Otherwise, a
/// client whose own host or network has used up its share waits until a part of this share is
/// released.
const SHORT: u64 = 4;

/// The memory used for all clients.
pub(super) struct Memory {
    /// The clock, which starts at zero when this is created.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    state: Mutex<State>,
    released: Notify,
}

#[derive(Debug)]
struct State {
    shares: FairShares,
    responses: BTreeMap<u64, Response>,
    /// The responses of each host that use memory and can be reset, longest blocked first.
    blocked: BTreeSet<Entry>,
    /// The responses of each host that wait for memory, in order.
    waiting: BTreeMap<AddressPrefix, VecDeque<u64>>,
    next: u64,
    resets: u64,
}

/// Key of a response, ordered by its host and by the time at which the client last accepted data of
/// it.
type Entry = (AddressPrefix, Duration, u64);

/// A response that may use content memory.
struct Response {
    client: SocketAddr,
    held: u64,
    /// Time at which the response began to use memory, or its client last accepted data, on the
    /// memory's clock.
    since: Duration,
    /// Callback that resets the response; `None` if it cannot be reset, or was already.
    reset: Option<Reset>,
    /// Whether the response may still reserve memory.
    is_open: bool,
}

type Reset = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, held, since, .. } = self;
        f.debug_tuple("Response").field(client).field(held).field(since).finish()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.statistics()).finish()
    }
}

/// Counters of the content memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ContentStatistics {
    /// The limit, in bytes.
    pub(super) limit: u64,
    /// Memory in use, in bytes.
    pub(super) held: u64,
    /// Number of responses that were reset in favor of other responses.
    pub(super) resets: u64,
}

impl Memory {
    /// Creates a content memory with this limit, in bytes.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let begun = Instant::now();
        Self::with_clock(limit, move || begun.elapsed())
    }

    fn with_clock(limit: u64, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Arc<Self> {
        let state = Mutex::new(State {
            shares: FairShares::new(limit),
            responses: BTreeMap::new(),
            blocked: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next: 0,
            resets: 0,
        });
        Arc::new(Self { clock: Box::new(clock), state, released: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn statistics(&self) -> ContentStatistics {
        let State { shares, resets, .. } = &*self.lock();
        ContentStatistics { limit: shares.limit(), held: shares.held(), resets: *resets }
    }

    /// Returns the share of a response to the client at this address.
    pub(super) fn share(self: &Arc<Self>, client: SocketAddr) -> Share {
        let state = &mut *self.lock();
        let number = state.next;
        state.next += 1;
        let since = (self.clock)();
        let response = Response { client, held: 0, since, reset: None, is_open: true };
        state.responses.insert(number, response);
        Share { memory: self.clone(), number }
    }

    /// Resets a response to make room for another one. Returns the time to wait before the next
    /// reset.
    fn make_room(&self, number: u64, shortage: Shortage) -> Duration {
        let reset = {
            let state = &mut *self.lock();
            let now = (self.clock)();
            let Some(entry) = state.to_reset(number, shortage, now) else { return TIMEOUT };
            let blocked = now.saturating_sub(entry.1);
            if blocked < TIMEOUT {
                return TIMEOUT - blocked;
            }
            state.blocked.remove(&entry);
            state.resets += 1;
            state.responses.get_mut(&entry.2).and_then(|response| response.reset.take())
        };
        if let Some(reset) = reset {
            reset();
        }
        // The wait ends early when the memory is released.
        TIMEOUT
    }
}

impl State {
    /// Returns the longest blocked response of the host that must release memory for response
    /// `number`.
    fn to_reset(&self, number: u64, shortage: Shortage, now: Duration) -> Option<Entry> {
        let client = self.responses.get(&number)?.client;
        if shortage != Shortage::All && self.shares.free() >= self.shares.limit() / SHORT {
            let host = match shortage {
                Shortage::Network => self.shares.heaviest_of(AddressPrefix::network(client))?,
                _ => AddressPrefix::host(client),
            };
            return self.longest_blocked(host);
        }
        let hosts = self.shares.heaviest_first().take(HOSTS);
        let mut longest = hosts.filter_map(|(host, _)| self.longest_blocked(host)).peekable();
        let heaviest = longest.peek().copied();
        longest.find(|entry| entry.1 + TIMEOUT <= now).or(heaviest)
    }

    fn longest_blocked(&self, host: AddressPrefix) -> Option<Entry> {
        let first = self.blocked.range((host, Duration::ZERO, 0)..).next()?;
        (first.0 == host).then_some(*first)
    }

    fn try_hold(&mut self, number: u64, bytes: u64, now: Duration) -> Result<(), Shortage> {
        let Some(response) = self.responses.get_mut(&number) else { return Ok(()) };
        self.shares.check(response.client, bytes)?;
        self.shares.add(response.client, bytes);
        if response.held == 0 {
            response.since = now;
        }
        response.held += bytes;
        if response.reset.is_some() {
            self.blocked.insert(entry(number, response));
        }
        Ok(())
    }

    /// Releases `bytes` that the client has accepted, or that will not be sent. Returns the
    /// response if it has ended, so that the caller can drop it without the lock.
    fn release(&mut self, number: u64, bytes: u64, now: Duration) -> Option<Response> {
        let response = self.responses.get_mut(&number)?;
        self.shares.remove(response.client, bytes);
        self.blocked.remove(&entry(number, response));
        response.held -= bytes;
        response.since = now;
        if response.held > 0 && response.reset.is_some() {
            self.blocked.insert(entry(number, response));
        }
        self.take_over(number)
    }

    /// Removes a response that uses no memory and never will again.
    fn take_over(&mut self, number: u64) -> Option<Response> {
        let is_over = self.responses.get(&number).is_some_and(|it| it.held == 0 && !it.is_open);
        is_over.then(|| self.responses.remove(&number)).flatten()
    }
}

fn entry(number: u64, response: &Response) -> Entry {
    (AddressPrefix::host(response.client), response.since, number)
}

/// One response's share of the memory.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    number: u64,
}

impl Share {
    /// Sets the callback `reset` for resetting the response when memory is low and its client
    /// accepts no data.
    pub(super) fn on_shortage(&self, reset: impl FnOnce() + Send + 'static) {
        if let Some(response) = self.memory.lock().responses.get_mut(&self.number) {
            response.reset = Some(Box::new(reset));
        }
    }

    fn try_hold(&self, bytes: u64) -> Result<Held, Shortage> {
        self.memory.lock().try_hold(self.number, bytes, (self.memory.clock)())?;
        Ok(Held { memory: self.memory.clone(), number: self.number, bytes })
    }

    /// Waits until this response may use `bytes` more, and reserves them. Responses to one host get
    /// memory in the order in which they began to wait. If memory is low, other responses are reset
    /// in favor of the first one in the queue.
    pub(super) async fn hold(&self, bytes: u64) -> Held {
        let turn = self.queue();
        loop {
            let released = self.memory.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            let wait = match turn.has_come().then(|| self.try_hold(bytes)) {
                Some(Ok(held)) => return held,
                Some(Err(shortage)) => self.memory.make_room(self.number, shortage),
                None => TIMEOUT,
            };
            tokio::select! {
                () = released => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

impl Share {
    /// Joins the queue of responses that wait for memory.
    fn queue(&self) -> Turn<'_> {
        let state = &mut *self.memory.lock();
        let client = state.responses.get(&self.number).map(|response| response.client);
        let host = client.map(AddressPrefix::host);
        if let Some(host) = host {
            state.waiting.entry(host).or_default().push_back(self.number);
        }
        Turn { share: self, host }
    }
}

/// A position in a host's queue of responses that wait for memory. Dropping the position removes
/// the response from the queue.
struct Turn<'a> {
    share: &'a Share,
    host: Option<AddressPrefix>,
}

impl Turn<'_> {
    /// Returns whether this is the first response in its host's queue.
    fn has_come(&self) -> bool {
        let Some(host) = self.host else { return true };
        let state = self.share.memory.lock();
        state.waiting.get(&host).and_then(VecDeque::front) == Some(&self.share.number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(host) = self.host else { return };
        let memory = &self.share.memory;
        let others_wait = {
            let state = &mut *memory.lock();
            let Some(waiting) = state.waiting.get_mut(&host) else { return };
            if let Some(place) = waiting.iter().position(|number| *number == self.share.number) {
                waiting.remove(place);
            }
            let others_wait = !waiting.is_empty();
            if !others_wait {
                state.waiting.remove(&host);
            }
            others_wait
        };
        if others_wait {
            memory.released.notify_waiters();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.memory.lock();
        if let Some(response) = state.responses.get_mut(&self.number) {
            response.is_open = false;
        }
        let over = state.take_over(self.number);
        drop(state);
        drop(over);
    }
}

/// Reserved bytes of content memory, which are released on drop.
#[derive(Debug)]
pub(super) struct Held {
    memory: Arc<Memory>,
    number: u64,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = (self.memory.clock)();
        let over = self.memory.lock().release(self.number, self.bytes, now);
        drop(over);
        self.memory.released.notify_waiters();
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
