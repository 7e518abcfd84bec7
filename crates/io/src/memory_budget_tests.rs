use std::sync::Arc;

use super::*;
use crate::mailbox::{Mailbox, WakeTarget};

const MIB: u64 = 1 << 20;

/// Connections of a shard that never runs.
struct Shard {
    budget: MemoryBudget,
    mailbox: Arc<Mailbox>,
    all: Vec<(Account, ConnectionWaker)>,
}

fn holding(bytes: u64) -> Holding {
    Holding { bytes, is_handshaking: false, is_compacted: false }
}

fn address(network: u8, host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, network, host], 443))
}

impl Shard {
    fn new(limit: u64) -> Self {
        let mailbox = Arc::new(Mailbox::new());
        Self { budget: MemoryBudget::new(limit), mailbox, all: Vec::new() }
    }

    /// Begins a connection, and completes its handshake.
    fn connect(&mut self, peer: SocketAddr) -> usize {
        let target = WakeTarget::new(self.all.len(), 1);
        let waker = ConnectionWaker::new(self.mailbox.clone(), Arc::new(target));
        self.all.push((self.budget.open(peer), waker));
        self.hold(self.all.len() - 1, holding(0));
        self.all.len() - 1
    }

    fn hold(&mut self, connection: usize, holding: Holding) -> Option<bool> {
        let (account, waker) = &mut self.all[connection];
        match self.budget.is_due(account, holding) {
            true => self.budget.report(account, waker, holding),
            false => None,
        }
    }

    fn close(&mut self, connection: usize) {
        let (account, waker) = &mut self.all[connection];
        self.budget.close(account, waker);
    }

    fn condemned(&self) -> Vec<usize> {
        let is_condemned = |it: &usize| self.all[*it].1.is_condemned();
        (0..self.all.len()).filter(is_condemned).collect()
    }
}

#[test]
fn small_changes_are_not_reported() {
    let mut shard = Shard::new(64 * MIB);
    let account = shard.budget.open(address(1, 1));
    assert_eq!(shard.budget.held(), HANDSHAKE);
    let handshaking = Holding { is_handshaking: true, ..holding(1000) };
    assert!(!shard.budget.is_due(&account, handshaking));
    assert!(shard.budget.is_due(&account, holding(0)));
    let connection = shard.connect(address(1, 1));
    let is_due =
        |shard: &Shard, bytes| shard.budget.is_due(&shard.all[connection].0, holding(bytes));
    assert!(!is_due(&shard, INCLUDED));
    assert!(is_due(&shard, INCLUDED + 1));
    shard.hold(connection, holding(INCLUDED + STEP));
    assert_eq!(shard.budget.held(), HANDSHAKE + ACTIVE + STEP);
    assert!(!is_due(&shard, 0) && !is_due(&shard, INCLUDED + STEP));
    // When compacted, the connection is charged only the minimum.
    shard.hold(connection, Holding { is_compacted: true, ..holding(0) });
    assert_eq!(shard.budget.held(), HANDSHAKE + CONNECTION);
    shard.close(connection);
    shard.close(connection);
    assert_eq!(shard.budget.held(), HANDSHAKE);
}

#[test]
fn each_level_has_its_effect_on_those_who_hold_too_much() {
    let mut shard = Shard::new(64 * MIB);
    let greedy: Vec<_> = (0..16).map(|_| shard.connect(address(1, 1))).collect();
    let other = shard.connect(address(2, 1));
    let (mut limited, mut refused) = (None, None);
    for mebibytes in 1..64 {
        for connection in &greedy {
            let outcome = shard.hold(*connection, holding(mebibytes * MIB / 4));
            if outcome == Some(true) {
                limited.get_or_insert(shard.budget.held());
            }
        }
        if shard.budget.refuses(address(1, 1)) {
            refused.get_or_insert(shard.budget.held());
        }
        assert_eq!(shard.hold(other, holding(INCLUDED + STEP * (mebibytes % 2))), None);
        assert!(!shard.budget.refuses(address(2, 2)), "at {} MiB/4", mebibytes);
        // Connections that were selected to be closed are gone when the next turn ends.
        for connection in shard.condemned() {
            assert!(greedy.contains(&connection));
            shard.close(connection);
        }
        let MemoryStatistics { held, peak, limit, .. } = shard.budget.statistics();
        assert!(held <= limit / 8 * 7 && peak <= limit, "{held} {peak}");
    }
    let (limited, refused) = (limited.unwrap(), refused.unwrap());
    assert!((32 * MIB..40 * MIB).contains(&limited), "{limited}");
    assert!((48 * MIB..56 * MIB).contains(&refused), "{refused}");
    assert!(!shard.condemned().is_empty() && shard.condemned().len() < 16);
    for connection in 0..shard.all.len() {
        shard.close(connection);
    }
    let state = shard.budget.lock();
    assert_eq!((state.shares.held(), state.closing), (0, 0));
    assert!(state.members.is_empty());
}

#[test]
fn the_heaviest_connection_of_the_heaviest_prefix_is_closed() {
    let mut shard = Shard::new(64 * MIB);
    let alone = shard.connect(address(1, 1));
    let many: Vec<_> = (0..4).map(|host| shard.connect(address(2, host))).collect();
    assert_eq!(shard.hold(alone, holding(24 * MIB)), None);
    for (connection, mebibytes) in many.iter().zip([6, 7, 12, 6]) {
        shard.hold(*connection, holding(mebibytes * MIB));
    }
    // The largest single connection belongs to a prefix that uses less memory than another one.
    assert_eq!(shard.condemned(), []);
    shard.hold(many[0], holding(8 * MIB));
    assert_eq!(shard.condemned(), [many[2]]);
    // The connection counts until it is gone, but no other connection is closed in the meantime.
    let held = shard.budget.held();
    shard.hold(many[0], holding(8 * MIB + STEP));
    assert_eq!((shard.condemned(), shard.budget.held()), (vec![many[2]], held + STEP));
    shard.close(many[2]);
    assert!(shard.budget.held() < 56 * MIB);
}

#[test]
fn whoever_has_not_validated_his_address_counts_for_nobody() {
    let shard = Shard::new(MIB);
    let accounts: Vec<_> = (0..14).map(|_| shard.budget.open(address(1, 1))).collect();
    assert!(!shard.budget.lock().shares.exceeds(address(1, 1)));
    assert!(!shard.budget.refuses(address(1, 1)) && !shard.budget.refuses(address(2, 1)));
    // When the budget is exhausted, all clients are refused.
    let _more = [(); 2].map(|()| shard.budget.open(address(1, 1)));
    assert!(shard.budget.refuses(address(2, 1)));
    drop(accounts);
}

/// The limit on a receive window is lifted when enough memory is free again.
#[test]
fn limits_end_with_the_shortage() {
    let mut shard = Shard::new(64 * MIB);
    let (greedy, other) = (shard.connect(address(1, 1)), shard.connect(address(2, 1)));
    shard.hold(other, holding(20 * MIB));
    assert_eq!(shard.hold(greedy, holding(24 * MIB)), Some(true));
    assert_eq!(shard.hold(greedy, holding(24 * MIB)), None);
    shard.close(other);
    assert_eq!(shard.hold(greedy, holding(24 * MIB)), Some(false));
}
