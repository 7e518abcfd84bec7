//! A budget for the memory that peers make this process use for connections.
//!
//! Every table that a peer can fill has a cap, but the caps of 100,000 connections together exceed
//! the memory of any machine. The budget bounds the sum. Connections report their memory use after
//! a turn of their shard has changed it, and only if it has changed substantially, so most turns
//! take no lock.

mod machine;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clearway_units::{AddressPrefix, FairShares};

use crate::mailbox::ConnectionWaker;

/// Divisor for the default budget: connections may use 1/`PART` of the memory of the process.
const PART: u64 = 2;

/// Minimum number of bytes charged for an idle, compacted connection, which uses about 7 KB.
const CONNECTION: u64 = 8 << 10;

/// Number of bytes charged for an established connection unless it is compacted: about 30 KB of
/// keys, streams and packets in flight.
const ACTIVE: u64 = 32 << 10;

/// Number of bytes of `ACTIVE` that cover the state of a few streams and small messages.
const INCLUDED: u64 = 4 << 10;

/// Number of bytes charged for a connection until its handshake is complete: keys, certificates,
/// and handshake data to send.
const HANDSHAKE: u64 = 64 << 10;

/// Granularity of reports in bytes; memory use is rounded up.
const STEP: u64 = 16 << 10;

/// Minimum decrease in bytes that a connection reports, unless it is compacted.
const LESS: u64 = 64 << 10;

/// A budget for the memory that peers make this process use for connections: received data that has
/// not been read, sent data that has not been acknowledged, data for which the peer grants no flow
/// control credit, unreliable datagrams, and the connections themselves. Several endpoints may
/// share a budget; clones refer to the same one.
///
/// A connection is charged 64 KiB until its handshake is complete, then 32 KiB, and 8 KiB while it
/// is compacted. Memory that it uses beyond 4 KiB is added in steps of 16 KiB. In HTTP/3, each
/// request in progress is charged 4 KiB in addition to its content. Once its handshake is complete,
/// a connection also counts toward its peer's address prefix. The share of a prefix depends on the
/// free part of the budget: see [`FairShares`]. The total of all connections determines what the
/// server does:
///
/// 1. From half of the budget on, connections of prefixes that exceed their share have limited
///    receive windows: windows no longer grow, and windows that have grown shrink to their initial
///    size as data is read.
/// 2. From three quarters on, new connections from such prefixes are refused with
///    CONNECTION_REFUSED.
/// 3. From seven eighths on, the largest connection of the largest prefix is closed with
///    INTERNAL_ERROR and a reason phrase that states this; then the next one, until the remaining
///    connections are below that level.
///
/// The last eighth is for data that arrives before a connection is closed. If even that is used up,
/// all new connections are refused.
#[derive(Clone)]
pub struct MemoryBudget(Arc<SharedBudget>);

struct SharedBudget {
    limit: u64,
    /// Total number of bytes charged to all connections. Written while the lock is held.
    held: AtomicU64,
    /// The maximum of the total so far.
    peak: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    limited: AtomicU64,
    state: Mutex<BudgetState>,
}

/// Established connections, keyed by the number of bytes charged to them and their
/// [place](ConnectionWaker::place), with their peers' addresses.
type Members = BTreeMap<(u64, usize), (IpAddr, ConnectionWaker)>;

struct BudgetState {
    shares: FairShares,
    /// Number of bytes still charged to connections that are being closed.
    closing: u64,
    /// The established connections of each address prefix.
    members: BTreeMap<AddressPrefix, Members>,
}

/// Counters of a [`MemoryBudget`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// The budget, in bytes.
    pub limit: u64,
    /// Number of bytes currently charged to connections.
    pub held: u64,
    /// Maximum number of bytes charged to connections so far.
    pub peak: u64,
    /// Number of times that a connection's receive window was limited.
    pub windows_limited: u64,
    /// Number of clients that were refused.
    pub clients_refused: u64,
    /// Number of connections that were closed.
    pub connections_closed: u64,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
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

    /// Returns the default budget of the process: half of the memory that the process may use. This
    /// is the smallest limit of its cgroup and the parent cgroups (`memory.max`, or
    /// `memory.limit_in_bytes` in version 1), or else the memory of the machine. `None` if neither
    /// can be read.
    pub fn of_process() -> Option<Self> {
        static BUDGET: OnceLock<Option<MemoryBudget>> = OnceLock::new();
        BUDGET.get_or_init(|| machine::memory().map(|memory| Self::new(memory / PART))).clone()
    }

    /// Returns the budget in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Returns how many idle connections fit into the budget.
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.0.limit / CONNECTION).unwrap_or(usize::MAX)
    }

    /// Returns the budget's counters.
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
        // No code that panics runs while the lock is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether receive windows are limited.
    fn is_scarce(&self) -> bool {
        self.held() >= self.0.limit / 2
    }

    /// Returns whether a new client from this address must be refused; counts the refusal.
    pub(crate) fn refuses(&self, client: SocketAddr) -> bool {
        let held = self.held();
        if held < self.0.limit / 4 * 3 {
            return false;
        }
        let refuses =
            held.saturating_add(HANDSHAKE) > self.0.limit || self.lock().shares.exceeds(client);
        if refuses {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%client, held, "client refused: memory is low");
        }
        refuses
    }

    /// Opens an account for a new connection.
    pub(crate) fn open(&self, peer: SocketAddr) -> Account {
        self.change(&mut self.lock(), |shares| shares.add_unattributed(HANDSHAKE));
        Account { peer: peer.ip(), counted: HANDSHAKE, is_attributed: false, is_limited: false }
    }

    /// Returns whether a compacted connection needs no report, because it is already charged the
    /// minimum.
    pub(crate) fn is_minimal(&self, account: &Account) -> bool {
        account.is_attributed && account.counted == CONNECTION && !account.is_limited
    }

    /// Returns whether a connection's memory use has changed enough to be [reported](Self::report).
    pub(crate) fn is_due(&self, account: &Account, holding: Holding) -> bool {
        let wanted = holding.counted();
        wanted > account.counted
            || account.is_attributed == holding.is_handshaking
            || wanted < account.counted
                && (holding.is_compacted || account.counted.saturating_sub(wanted) >= LESS)
            || account.is_limited && !self.is_scarce()
    }

    /// Records the memory use of the connection that `waker` refers to. Returns whether its receive
    /// window must be limited from now on (or no longer), or `None` if nothing changes. Wakes
    /// connections that must be closed.
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
                "memory is low: closing the connection that uses the most"
            );
            waker.wake();
        }
        if account.is_limited == was_limited {
            return None;
        }
        self.0.limited.fetch_add(account.is_limited.into(), Ordering::Relaxed);
        Some(account.is_limited)
    }

    /// Closes the account of a connection that has ended.
    pub(crate) fn close(&self, account: &mut Account, waker: &ConnectionWaker) {
        if account.counted > 0 {
            self.take_out(&mut self.lock(), account, waker);
            account.counted = 0;
            account.is_attributed = false;
        }
    }

    /// Counts a connection that was closed because of the budget.
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

    /// Applies `change` to the accounts, and publishes the new total.
    fn change(&self, state: &mut BudgetState, change: impl FnOnce(&mut FairShares)) {
        change(&mut state.shares);
        let held = state.shares.held();
        self.0.held.store(held, Ordering::Relaxed);
        self.0.peak.fetch_max(held, Ordering::Relaxed);
    }

    /// Selects connections to close until the remaining ones are below the last level. Their memory
    /// counts toward the total until they are gone, but no longer toward their prefix.
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

/// A connection's account in a [`MemoryBudget`].
#[derive(Debug)]
pub(crate) struct Account {
    /// The peer's address when the connection began, so that migration cannot change which prefix
    /// it counts toward.
    peer: IpAddr,
    counted: u64,
    /// Whether the connection counts toward its peer's prefix. Before the handshake is complete, an
    /// attacker could charge any prefix with spoofed addresses.
    is_attributed: bool,
    /// Whether the connection's receive window is limited.
    is_limited: bool,
}

/// The memory use of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) bytes: u64,
    pub(crate) is_handshaking: bool,
    pub(crate) is_compacted: bool,
}

impl Holding {
    fn counted(self) -> u64 {
        let more = self.bytes.saturating_sub(INCLUDED).div_ceil(STEP).saturating_mul(STEP);
        let least = match self.is_handshaking {
            true => HANDSHAKE,
            false if self.is_compacted => CONNECTION,
            false => ACTIVE,
        };
        least.saturating_add(more)
    }
}

#[cfg(test)]
#[path = "memory_budget_tests.rs"]
mod tests;
