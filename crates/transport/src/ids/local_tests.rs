use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_wire::Writer;
use proptest::prelude::*;

use super::*;
use crate::crypto::sealing::hmac;
use crate::ids::{RandomIds, ResetKeySource};

fn local_ids() -> (LocalIds, Random) {
    let mut random = Random::from_number(1);
    let ids = LocalIds::new(Arc::new(RandomIds), &ResetKey::new(&[9; 32]), &mut random);
    (ids, random)
}

/// Writes the pending frames into a packet of `room` bytes and returns its tokens.
fn write(ids: &mut LocalIds, room: usize) -> Vec<Token> {
    let mut buffer = vec![0; room];
    let mut tokens = Vec::new();
    ids.write_frames(&mut PacketContents::new(&mut Writer::new(&mut buffer), &mut tokens));
    tokens
}

fn retire(sequence: u64) -> frame::RetireConnectionId {
    frame::RetireConnectionId { sequence: VarInt::saturating(sequence) }
}

fn elsewhere() -> ConnectionId {
    ConnectionId::new(&[0xee; 8]).unwrap()
}

#[test]
fn as_many_are_issued_as_the_peer_keeps_and_no_more_than_eight() {
    for (limit, issued) in [(1, 0), (2, 1), (4, 3), (8, 7), (1 << 40, 7)] {
        let (mut ids, mut random) = local_ids();
        assert!(!ids.has_pending());
        ids.set_peer_limit(limit, &mut random);
        assert_eq!(write(&mut ids, 1000).len(), issued, "limit {limit}");
        assert!(!ids.has_pending());
        assert_eq!(ids.active().count(), issued + 1);
    }
}

#[test]
fn a_frame_that_does_not_fit_stays_pending_and_a_lost_one_is_sent_again() {
    let (mut ids, mut random) = local_ids();
    ids.set_peer_limit(4, &mut random);
    assert_eq!(write(&mut ids, 40), [Token::NewConnectionId { sequence: 1 }]);
    assert!(ids.has_pending());
    assert_eq!(write(&mut ids, 1000).len(), 2);
    ids.on_lost(2);
    assert_eq!(write(&mut ids, 1000), [Token::NewConnectionId { sequence: 2 }]);
    ids.on_acked(2);
    assert!(!ids.has_pending());
}

#[test]
fn what_is_retired_while_its_frame_is_lost_is_not_announced_again() {
    let (mut ids, mut random) = local_ids();
    ids.set_peer_limit(2, &mut random);
    write(&mut ids, 1000);
    ids.on_retire(&retire(1), elsewhere(), &mut random).unwrap();
    ids.on_lost(1);
    assert_eq!(write(&mut ids, 1000), [Token::NewConnectionId { sequence: 2 }]);
}

#[test]
fn retiring_what_was_not_sent_or_what_is_in_use_is_a_violation() {
    let (mut ids, mut random) = local_ids();
    let first = ids.active().next().unwrap();
    assert!(ids.on_retire(&retire(1), elsewhere(), &mut random).is_err(), "never issued");
    ids.set_peer_limit(3, &mut random);
    assert!(ids.on_retire(&retire(1), elsewhere(), &mut random).is_err(), "issued, not sent");
    write(&mut ids, 1000);
    let error = ids.on_retire(&retire(0), first, &mut random).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert!(ids.on_retire(&retire(1), first, &mut random).is_ok());
    assert!(ids.on_retire(&retire(1), first, &mut random).is_ok(), "a late copy");
}

#[test]
fn every_change_is_reported_to_the_endpoint() {
    let (mut ids, mut random) = local_ids();
    let first = ids.active().next().unwrap();
    ids.set_peer_limit(2, &mut random);
    let second = ids.active().nth(1).unwrap();
    assert_eq!(ids.next_routing_change(), Some(RoutingChange::Added(second)));
    write(&mut ids, 1000);
    ids.on_retire(&retire(0), second, &mut random).unwrap();
    assert_eq!(ids.next_routing_change(), Some(RoutingChange::Removed(first)));
    let third = ids.active().nth(1).unwrap();
    assert_eq!(ids.next_routing_change(), Some(RoutingChange::Added(third)));
    assert_eq!(ids.next_routing_change(), None);
}

#[path = "rotation_tests.rs"]
mod rotation;

proptest! {
    /// Regardless of what the peer retires and what is lost, the routes match the active IDs, and
    /// memory stays bounded.
    #[test]
    fn routes_and_memory_hold(
        limit in 2..12_u64,
        steps in proptest::collection::vec((0..4_u8, 0..40_u64), 0..120),
    ) {
        let (mut ids, mut random) = local_ids();
        let mut routes: BTreeSet<ConnectionId> = ids.active().collect();
        ids.set_peer_limit(limit, &mut random);
        for (kind, sequence) in steps {
            match kind {
                0 => drop(write(&mut ids, 200)),
                1 => ids.on_lost(sequence),
                2 => ids.on_acked(sequence),
                _ => drop(ids.on_retire(&retire(sequence), elsewhere(), &mut random)),
            }
            while let Some(change) = ids.next_routing_change() {
                match change {
                    RoutingChange::Added(id) => prop_assert!(routes.insert(id)),
                    RoutingChange::Removed(id) => prop_assert!(routes.remove(&id)),
                }
            }
            prop_assert_eq!(&routes, &ids.active().collect::<BTreeSet<_>>());
            prop_assert_eq!(routes.len() as u64, limit.min(MAX_ACTIVE));
        }
    }
}

/// A key that changes with every use.
#[derive(Default)]
struct Changing(AtomicU64);

impl ResetKeySource for Changing {
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>) {
        let bytes = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        (Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &bytes)), None)
    }
}

/// RFC 9000 §19.15: a frame that is retransmitted has the same token, even if the key has changed
/// since.
#[test]
fn a_connection_id_keeps_its_reset_token() {
    let key = ResetKey::following(Arc::new(Changing::default()));
    let id = elsewhere();
    assert_ne!(key.token(&id), key.token(&id));
    let mut random = Random::from_number(1);
    let mut ids = LocalIds::new(Arc::new(RandomIds), &key, &mut random);
    ids.set_peer_limit(2, &mut random);
    let mut written = || {
        ids.on_lost(1);
        let mut buffer = [0; 100];
        ids.write_frames(&mut PacketContents::new(&mut Writer::new(&mut buffer), &mut Vec::new()));
        buffer
    };
    assert_eq!(written(), written());
}
