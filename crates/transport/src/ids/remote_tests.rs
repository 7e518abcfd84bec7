use std::collections::BTreeSet;

use clearway_wire::Writer;
use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 4;

fn id(number: u64) -> ConnectionId {
    ConnectionId::new(&number.to_be_bytes()).unwrap()
}

fn token(number: u64) -> ResetToken {
    ResetToken::new([number as u8; 16])
}

fn new_id(sequence: u64, retire_prior_to: u64) -> frame::NewConnectionId {
    frame::NewConnectionId {
        sequence: VarInt::saturating(sequence),
        retire_prior_to: VarInt::saturating(retire_prior_to),
        id: id(sequence),
        reset_token: token(sequence),
    }
}

fn remote_ids() -> RemoteIds {
    let mut ids = RemoteIds::new(id(77), LIMIT);
    ids.set_from_handshake(id(0));
    ids.set_reset_token(token(0));
    ids
}

/// Returns the sequence numbers of the RETIRE_CONNECTION_ID frames that are sent.
fn retired(ids: &mut RemoteIds) -> Vec<u64> {
    let mut buffer = [0; 1000];
    let mut tokens = Vec::new();
    ids.write_frames(&mut PacketContents::new(&mut Writer::new(&mut buffer), &mut tokens));
    let sequence = |token: &Token| match token {
        Token::RetireConnectionId { sequence } => *sequence,
        other => panic!("{other:?}"),
    };
    tokens.iter().map(sequence).collect()
}

fn at(number: u16) -> PathAddress {
    core::net::SocketAddr::from(([10, 0, 0, 1], number)).into()
}

/// The peer intentionally migrates, and its new address is validated.
fn migrate(ids: &mut RemoteIds) -> bool {
    let followed = ids.follow(at(1), at(2), false);
    ids.release(|_| true);
    followed
}

fn code(result: Result<(), TransportError>) -> Option<TransportErrorCode> {
    result.err().map(|error| error.code)
}

#[test]
fn the_handshake_s_id_replaces_the_made_up_one() {
    let ids = remote_ids();
    assert_eq!((ids.current(), ids.handshake_id()), (id(0), id(0)));
}

#[test]
fn active_ids_keep_to_the_limit() {
    let mut ids = remote_ids();
    for sequence in 1..LIMIT {
        ids.on_new_connection_id(&new_id(sequence, 0)).unwrap();
    }
    let error = code(ids.on_new_connection_id(&new_id(LIMIT, 0)));
    assert_eq!(error, Some(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR));
}

/// RFC 9000 §5.1.1: the IDs that a frame retires make room for the one that it issues.
#[test]
fn retire_prior_to_makes_room_first() {
    let mut ids = remote_ids();
    for sequence in 1..LIMIT {
        ids.on_new_connection_id(&new_id(sequence, 0)).unwrap();
    }
    ids.on_new_connection_id(&new_id(LIMIT, 1)).unwrap();
    assert_eq!(ids.current(), id(1));
    assert_eq!(retired(&mut ids), [0]);
}

#[test]
fn a_copy_is_ignored_and_a_contradiction_is_not() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    let other_token = frame::NewConnectionId { reset_token: token(9), ..new_id(1, 0) };
    let other_id = frame::NewConnectionId { id: id(9), ..new_id(1, 0) };
    let other_number = frame::NewConnectionId { id: id(1), ..new_id(2, 0) };
    for contradiction in [other_token, other_id, other_number] {
        let error = code(ids.on_new_connection_id(&contradiction));
        assert_eq!(error, Some(TransportErrorCode::PROTOCOL_VIOLATION));
    }
}

/// RFC 9000 §19.15: a frame that arrives after its ID was retired is answered with RETIRE_CONNECTION_ID.
#[test]
fn a_late_frame_does_not_bring_back_what_was_retired() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(3, 3)).unwrap();
    assert_eq!(retired(&mut ids), [0]);
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    assert_eq!(retired(&mut ids), [1]);
    assert_eq!(ids.current(), id(3));
}

#[test]
fn a_late_copy_does_not_bring_back_what_was_used_up() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    ids.on_new_connection_id(&new_id(2, 0)).unwrap();
    assert!(migrate(&mut ids) && migrate(&mut ids));
    assert_eq!(retired(&mut ids), [0, 1]);
    ids.on_acked(0);
    ids.on_acked(1);
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    assert!(!migrate(&mut ids), "there is no spare one");
    assert!(!ids.has_pending());
}

#[test]
fn a_lost_retirement_is_sent_again_until_it_is_acknowledged() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 1)).unwrap();
    assert_eq!(retired(&mut ids), [0]);
    assert!(!ids.has_pending());
    ids.on_lost(0);
    assert_eq!(retired(&mut ids), [0]);
    ids.on_acked(0);
    ids.on_lost(0);
    assert!(!ids.has_pending());
}

/// RFC 9000 §10.3.1: the stateless reset tokens of unused or retired connection IDs have no effect.
#[test]
fn only_the_token_of_the_id_in_use_counts() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    assert!(ids.is_reset_token(&token(0)) && !ids.is_reset_token(&token(1)));
    assert!(migrate(&mut ids));
    assert!(ids.is_reset_token(&token(1)) && !ids.is_reset_token(&token(0)));
    assert_eq!(ids.reset_token(), Some(token(1)));
}

#[test]
fn a_peer_without_connection_ids_must_not_give_any() {
    let mut ids = RemoteIds::new(ConnectionId::default(), LIMIT);
    let error = code(ids.on_new_connection_id(&new_id(1, 0)));
    assert_eq!(error, Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// RFC 9000 §9.5: if the peer keeps using its current ID, this endpoint also keeps its ID. The
/// PATH_CHALLENGE to the old address uses another ID, which is retired when the new address is
/// validated.
#[test]
fn a_peer_that_kept_its_id_gets_the_same_one() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    assert!(ids.follow(at(1), at(2), true));
    assert_eq!(ids.current(), id(0));
    assert_eq!(ids.id_elsewhere(at(1)), Some(id(1)));
    assert_eq!(ids.id_elsewhere(at(1)), Some(id(1)), "as before");
    assert!(!ids.has_pending(), "nothing is given back before the address is validated");
    ids.release(|_| true);
    assert_eq!(retired(&mut ids), [1]);
}

/// RFC 9000 §9.5: an ID is used with one address only.
#[test]
fn a_peer_that_moved_on_purpose_gets_an_id_for_each_address() {
    let mut ids = remote_ids();
    assert!(!ids.follow(at(1), at(2), false), "there is no spare one");
    assert_eq!((ids.current(), ids.id_elsewhere(at(2))), (id(0), None));
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    ids.on_new_connection_id(&new_id(2, 0)).unwrap();
    // The peer probed from that address before it migrated.
    assert_eq!(ids.id_elsewhere(at(2)), Some(id(1)));
    assert!(ids.follow(at(1), at(2), false));
    assert_eq!((ids.current(), ids.id_elsewhere(at(1))), (id(1), Some(id(0))));
    // The peer returns.
    assert!(ids.follow(at(2), at(1), false));
    assert_eq!((ids.current(), ids.id_elsewhere(at(2))), (id(0), Some(id(1))));
    assert!(!ids.has_pending());
    ids.release(|address| address == at(2));
    assert_eq!(retired(&mut ids), [1]);
}

/// RFC 9000 §5.1.2: the ID that replaces a retired one is not used on another path.
#[test]
fn what_the_peer_retires_is_replaced_by_a_spare_one() {
    let mut ids = remote_ids();
    ids.on_new_connection_id(&new_id(1, 0)).unwrap();
    assert_eq!(ids.id_elsewhere(at(2)), Some(id(1)));
    ids.on_new_connection_id(&new_id(2, 1)).unwrap();
    assert_eq!((ids.current(), ids.id_elsewhere(at(2))), (id(2), Some(id(1))));
}

/// RFC 9000 §5.1.1, §5.1.2: the ID of the preferred address has sequence number 1, may be used, and is retired when the
/// server requests it.
#[test]
fn the_preferred_address_s_id_is_retired_like_any_other() {
    let preferred = PreferredAddress {
        ipv4: None,
        ipv6: None,
        connection_id: id(1),
        stateless_reset_token: token(1),
    };
    let mut ids = remote_ids();
    ids.on_preferred_address(&preferred);
    ids.on_new_connection_id(&new_id(2, 2)).unwrap();
    assert_eq!(ids.current(), id(2));
    assert_eq!(retired(&mut ids), [0, 1]);
    let mut ids = remote_ids();
    ids.on_preferred_address(&preferred);
    assert_eq!(ids.id_elsewhere(at(2)), Some(id(1)));
}

#[test]
fn a_peer_may_move_for_ever() {
    let mut ids = remote_ids();
    for sequence in 1..2000 {
        ids.on_new_connection_id(&new_id(sequence, 0)).unwrap();
        assert!(migrate(&mut ids), "{sequence}");
        assert_eq!(retired(&mut ids), [sequence - 1]);
        ids.on_acked(sequence - 1);
    }
    assert_eq!(ids.retired.ranges.len(), 1);
}

proptest! {
    /// Any sequence of frames, with address changes, losses and acknowledgments between them, until
    /// the connection would end: the number of active IDs is never zero and never above the limit,
    /// memory stays bounded, and a retired ID is not used again.
    #[test]
    fn any_sequence_of_frames_keeps_the_limits(
        steps in proptest::collection::vec((0..10_u8, 0..30_u64, 0..30_u64), 0..200)
    ) {
        let mut ids = remote_ids();
        let mut gone = BTreeSet::new();
        for (kind, sequence, retire_prior_to) in steps {
            match kind {
                0 => {
                    let old = ids.current();
                    if migrate(&mut ids) {
                        gone.insert(old);
                    }
                }
                4 => drop(ids.id_elsewhere(at(sequence as u16))),
                5 => {
                    ids.follow(at(1), at(sequence as u16), true);
                }
                1 => ids.on_lost(sequence),
                2 => ids.on_acked(sequence),
                3 => drop(retired(&mut ids)),
                _ => {
                    let frame = new_id(sequence, retire_prior_to.min(sequence));
                    if ids.on_new_connection_id(&frame).is_err() {
                        break;
                    }
                }
            }
            prop_assert!(!gone.contains(&ids.current()));
            prop_assert!((1..=LIMIT as usize).contains(&ids.active.len()));
            // IDs that this endpoint retires on its own initiative add to those that a frame may
            // retire.
            prop_assert!(ids.retired.retiring.len() as u64 <= LIMIT * MAX_RETIRING_FACTOR + LIMIT);
            prop_assert!(ids.retired.ranges.len() <= MAX_RETIRED_RANGES);
        }
    }
}
