//! A budget for the memory that peers make this process keep in connections.
//!
//! Every table that a peer can fill has a cap, but the caps of 100,000 connections together are more than any machine has. The
//! budget bounds the sum. Connections report what they hold when a turn of their shard has touched them, and only when that has
//! changed by much, so that most turns take no lock.

mod machine;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clearway_units::{AddressPrefix, FairShares};

use crate::mailbox::ConnectionWaker;

/// By default connections may use one part in this many of the memory of the process.
const PART: u64 = 2;

/// What a connection that rests counts in any case, in bytes: it takes about 7 KB.
const CONNECTION: u64 = 8 << 10;

/// What an established connection counts while it does not rest, in bytes: about 30 KB of keys, streams and packets in flight.
const ACTIVE: u64 = 32 << 10;

/// What is part of that: the states of a few streams, and small messages.
const INCLUDED: u64 = 4 << 10;

/// What a connection counts while its handshake is not complete, in bytes: keys, certificates, and what is to be sent of them.
const HANDSHAKE: u64 = 64 << 10;

/// What a connection holds is reported in steps of this many bytes, rounded up.
const STEP: u64 = 16 << 10;

/// Unless the connection rests, it reports less only when that is less by this many bytes.
const LESS: u64 = 64 << 10;

/// A budget for the memory that peers make this process keep in connections: data that was received and not read, data that was
/// sent and not acknowledged or for which the peer gives no credit, unreliable datagrams, and the connections themselves. Several
/// endpoints may share one; clones are the same budget.
///
/// A connection counts 64 KiB until its handshake is complete, 32 KiB from then on, and 8 KiB while it rests, with what it holds
/// beyond 4 KiB added in steps of 16 KiB; of HTTP/3, each request in progress counts 4 KiB beside its content. Once its handshake is
/// complete, a connection also counts for its peer's address prefix. The share of a prefix depends on what is free: see
/// [`FairShares`]. What happens depends on how much all connections hold together:
///
/// 1. From half of the budget on, receive windows of connections of prefixes that hold more than their share no longer grow, and
///    those that have grown shrink to the initial one as data is read.
/// 2. From three quarters on, new connections from such prefixes are refused with CONNECTION_REFUSED.
/// 3. From seven eighths on, the connection that holds the most, of the prefix that holds the most, is closed with INTERNAL_ERROR
///    and a reason phrase that says so; then the next one, until what remains is below that.
///
/// The last eighth is for what arrives until a connection is closed. If even that is used, all new connections are refused.
#[derive(Clone)]
pub struct MemoryBudget(Arc<SharedBudget>);

struct SharedBudget {
    limit: u64,
    /// What all connections hold. Written with the lock held.
    held: AtomicU64,
    /// The most that they have held.
    peak: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    limited: AtomicU64,
    state: Mutex<BudgetState>,
}

/// Established connections by what they count and their [place](ConnectionWaker::place), with the addresses of their peers.
type Members = BTreeMap<(u64, usize), (IpAddr, ConnectionWaker)>;

struct BudgetState {
    shares: FairShares,
    /// What the connections count that have to be closed and are not gone yet.
    closing: u64,
    /// The established connections of each host, by what they count, and their addresses.
    members: BTreeMap<AddressPrefix, Members>,
}

/// What a [`MemoryBudget`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// The budget, in bytes.
    pub limit: u64,
    /// What connections hold now, in bytes.
    pub held: u64,
    /// The most that they have held, in bytes.
    pub peak: u64,
    /// How many times a connection's receive window was limited.
    pub windows_limited: u64,
    /// Clients that were refused.
    pub clients_refused: u64,
    /// Connections that were closed.
    pub connections_closed: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(SharedBudget {
            limit,
            held: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            state: Mutex::new(BudgetState {
                shares: FairShares::new(limit),
                closing: 0,
                members: BTreeMap::new(),
            }),
        }))
    }

    /// The budget of the process: half of the memory that it may use, which is the smallest limit of its cgroup and those above
    /// (`memory.max`, or `memory.limit_in_bytes` of version 1), or else the memory of the machine. `None` if neither can be read.
    pub fn of_process() -> Option<Self> {
        static BUDGET: OnceLock<Option<MemoryBudget>> = OnceLock::new();
        BUDGET.get_or_init(|| machine::memory().map(|memory| Self::new(memory / PART))).clone()
    }

    /// The budget in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// How many connections fit into the budget if none of them holds anything.
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.0.limit / CONNECTION).unwrap_or(usize::MAX)
    }

    /// What the budget has counted.
    pub fn statistics(&self) -> MemoryStatistics {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        MemoryStatistics {
            limit: self.0.limit,
            held: self.held(),
            peak: read(&self.0.peak),
            windows_limited: read(&self.0.limited),
            clients_refused: read(&self.0.refused),
            connections_closed: read(&self.0.closed),
        }
    }

    fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        // Nothing that panics runs while the lock is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether receive windows are limited.
    fn is_scarce(&self) -> bool {
        self.held() >= self.0.limit / 2
    }

    /// Returns whether a new client from this address has to be refused, and counts it.
    pub(crate) fn refuses(&self, client: SocketAddr) -> bool {
        let held = self.held();
        if held < self.0.limit / 4 * 3 {
            return false;
        }
        let refuses =
            held.saturating_add(HANDSHAKE) > self.0.limit || self.lock().shares.exceeds(client);
        if refuses {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%client, held, "memory is short: a client is refused");
        }
        refuses
    }

    /// A connection begins.
    pub(crate) fn open(&self, peer: SocketAddr) -> Account {
        self.change(&mut self.lock(), |shares| shares.add_unattributed(HANDSHAKE));
        Account { peer: peer.ip(), counted: HANDSHAKE, is_attributed: false, is_limited: false }
    }

    /// Whether a connection that rests needs no report: it counts as little as it can.
    pub(crate) fn is_at_rest(&self, account: &Account) -> bool {
        account.is_attributed && account.counted == CONNECTION && !account.is_limited
    }

    /// Whether what a connection counts has changed by so much that it has to be [reported](Self::report).
    pub(crate) fn is_due(&self, account: &Account, holding: Holding) -> bool {
        let wanted = holding.counted();
        wanted > account.counted
            || account.is_attributed == holding.is_handshaking
            || wanted < account.counted
                && (holding.is_resting || account.counted.saturating_sub(wanted) >= LESS)
            || account.is_limited && !self.is_scarce()
    }

    /// Counts what the connection holds that `waker` reaches. Returns whether its receive window has to be limited from here on,
    /// or no longer; `None` if nothing changes. Wakes connections that have to be closed.
    pub(crate) fn report(
        &self,
        account: &mut Account,
        waker: &ConnectionWaker,
        holding: Holding,
    ) -> Option<bool> {
        let mut condemned = Vec::new();
        let was_limited = account.is_limited;
        {
            let state = &mut *self.lock();
            if waker.is_condemned() {
                return None;
            }
            self.take_out(state, account, waker);
            self.put_in(state, account, waker, holding);
            self.condemn(state, &mut condemned);
            account.is_limited =
                account.is_attributed && self.is_scarce() && state.shares.exceeds(account.peer);
        }
        for (waker, held) in condemned {
            tracing::warn!(
                ?waker,
                held,
                "memory is short: the connection that holds the most is closed"
            );
            waker.wake();
        }
        if account.is_limited == was_limited {
            return None;
        }
        self.0.limited.fetch_add(account.is_limited.into(), Ordering::Relaxed);
        Some(account.is_limited)
    }

    /// The connection that `waker` reaches has ended.
    pub(crate) fn close(&self, account: &mut Account, waker: &ConnectionWaker) {
        if account.counted > 0 {
            self.take_out(&mut self.lock(), account, waker);
            account.counted = 0;
            account.is_attributed = false;
        }
    }

    /// A connection was closed because of the budget.
    pub(crate) fn on_closed(&self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }

    fn take_out(&self, state: &mut BudgetState, account: &Account, waker: &ConnectionWaker) {
        let Account { peer, counted, is_attributed, .. } = *account;
        if waker.is_condemned() {
            state.closing = state.closing.saturating_sub(counted);
        }
        if !is_attributed || waker.is_condemned() {
            return self.change(state, |shares| shares.remove_unattributed(counted));
        }
        let host = AddressPrefix::host(peer);
        if let Some(members) = state.members.get_mut(&host) {
            members.remove(&(counted, waker.place()));
            if members.is_empty() {
                state.members.remove(&host);
            }
        }
        self.change(state, |shares| shares.remove(peer, counted));
    }

    fn put_in(
        &self,
        state: &mut BudgetState,
        account: &mut Account,
        waker: &ConnectionWaker,
        holding: Holding,
    ) {
        let (peer, counted) = (account.peer, holding.counted());
        account.counted = counted;
        account.is_attributed = !holding.is_handshaking;
        if !account.is_attributed {
            return self.change(state, |shares| shares.add_unattributed(counted));
        }
        let members = state.members.entry(AddressPrefix::host(peer)).or_default();
        members.insert((counted, waker.place()), (peer, waker.clone()));
        self.change(state, |shares| shares.add(peer, counted));
    }

    /// Changes what is held, and publishes the sum.
    fn change(&self, state: &mut BudgetState, change: impl FnOnce(&mut FairShares)) {
        change(&mut state.shares);
        let held = state.shares.held();
        self.0.held.store(held, Ordering::Relaxed);
        self.0.peak.fetch_max(held, Ordering::Relaxed);
    }

    /// Chooses connections to close until what remains is below the last level. What they hold counts until they are gone, but no
    /// longer for their prefix.
    fn condemn(&self, state: &mut BudgetState, condemned: &mut Vec<(ConnectionWaker, u64)>) {
        let level = self.0.limit / 8 * 7;
        while state.shares.held().saturating_sub(state.closing) > level {
            let Some(host) = state.shares.heaviest() else { return };
            let Some(members) = state.members.get_mut(&host) else { return };
            let Some(((counted, _), (peer, waker))) = members.pop_last() else { return };
            if members.is_empty() {
                state.members.remove(&host);
            }
            waker.condemn();
            state.shares.remove(peer, counted);
            state.shares.add_unattributed(counted);
            state.closing = state.closing.saturating_add(counted);
            condemned.push((waker, counted));
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryBudget").field(&self.statistics()).finish()
    }
}

/// What a connection counts in a [`MemoryBudget`].
#[derive(Debug)]
pub(crate) struct Account {
    /// The peer's address when the connection began: one that migrates cannot choose for whom it counts.
    peer: IpAddr,
    counted: u64,
    /// It counts for its peer's prefix. Until the handshake is complete, anyone could have it count for anybody.
    is_attributed: bool,
    /// Its receive window is limited.
    is_limited: bool,
}

/// What a connection holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) bytes: u64,
    pub(crate) is_handshaking: bool,
    pub(crate) is_resting: bool,
}

impl Holding {
    fn counted(self) -> u64 {
        let more = self.bytes.saturating_sub(INCLUDED).div_ceil(STEP).saturating_mul(STEP);
        let least = match self.is_handshaking {
            true => HANDSHAKE,
            false if self.is_resting => CONNECTION,
            false => ACTIVE,
        };
        least.saturating_add(more)
    }
}

#[cfg(test)]
#[path = "memory_budget_tests.rs"]
mod tests;
