use proptest::prelude::*;

use super::*;

#[test]
fn a_refused_stream_is_reported_once_for_each_limit() {
    let mut local = LocalStreams::default();
    assert!(!local.raise(1), "nobody waits");
    assert_eq!(local.open(), Some(0));
    assert_eq!(local.pending_blocked(), None);
    assert_eq!(local.open(), None);
    assert_eq!(local.pending_blocked(), Some(VarInt::from_u32(1)));
    local.on_blocked_sent();
    assert_eq!(local.open(), None);
    assert_eq!(local.pending_blocked(), None);
    local.on_blocked_lost();
    assert_eq!(local.pending_blocked(), Some(VarInt::from_u32(1)));
    assert!(!local.raise(1), "no higher");
    assert!(local.raise(2));
    assert_eq!(local.pending_blocked(), None);
    assert_eq!(local.open(), Some(1));
}

#[test]
fn the_peer_opens_streams_in_order_up_to_the_limit() {
    let mut remote = RemoteStreams::new(4);
    assert_eq!(remote.on_used(2), Ok(0..3));
    assert_eq!(remote.on_used(1), Ok(3..3));
    assert_eq!(remote.on_used(4), Err(TooManyStreams));
    assert_eq!(remote.on_used(3), Ok(3..4));
    let accepted: Vec<u64> = core::iter::from_fn(|| remote.accept()).collect();
    assert_eq!(accepted, [0, 1, 2, 3]);
}

#[test]
fn the_limit_rises_as_streams_end_but_not_for_each() {
    let mut remote = RemoteStreams::new(32);
    remote.on_used(7).unwrap();
    for _ in 0..4 {
        remote.on_retired();
        assert_eq!(remote.pending_maximum(), None, "24 are left, and 4 more would be little");
    }
    remote.on_retired();
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(37));
    remote.on_maximum_sent();
    assert_eq!(remote.pending_maximum(), None);
    remote.on_retired();
    assert_eq!(remote.pending_maximum(), None);
    remote.on_maximum_lost();
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(37));
    remote.on_maximum_sent();
    remote.on_used(20).unwrap();
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(38), "16 are left");
}

#[test]
fn a_peer_that_is_blocked_learns_of_every_stream_it_may_open() {
    let mut remote = RemoteStreams::new(1);
    remote.on_used(0).unwrap();
    remote.on_peer_blocked(1);
    assert_eq!(remote.pending_maximum(), None, "its one stream is open");
    remote.on_retired();
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(2));
}

#[test]
fn the_limit_never_exceeds_what_a_stream_id_can_say() {
    let mut remote = RemoteStreams::new(u64::MAX);
    assert!(remote.on_used(MAX_STREAMS).is_err());
    remote.on_retired();
    remote.on_peer_blocked(MAX_STREAMS);
    assert_eq!(remote.pending_maximum(), None);
    let mut local = LocalStreams::default();
    local.raise(u64::MAX);
    assert_eq!(local.maximum, MAX_STREAMS);
}

#[test]
fn a_lower_number_of_streams_takes_effect_as_streams_end() {
    let mut remote = RemoteStreams::new(4);
    remote.on_used(3).unwrap();
    remote.set_concurrent(2);
    for _ in 0..2 {
        assert_eq!((remote.pending_maximum(), remote.available()), (None, 0));
        remote.on_retired();
    }
    remote.on_retired();
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(5));
    remote.on_maximum_sent();
    remote.set_concurrent(3);
    assert_eq!(remote.pending_maximum().map(VarInt::get), Some(6), "at once");
    assert_eq!((remote.opened(), remote.available()), (4, 2));
}

proptest! {
    /// Whatever happens, the limit never falls (RFC 9000 §4.6), and unless the application has
    /// lowered it, never permits more streams at the same time than the application has.
    #[test]
    fn the_limit_never_falls(steps in prop::collection::vec((0..3_u8, 0..20_u64), 1..60)) {
        let mut remote = RemoteStreams::new(4);
        let (mut highest, mut most) = (remote.maximum, 4);
        for (kind, number) in steps {
            match kind {
                0 => {
                    remote.set_concurrent(number);
                    most = most.max(number);
                }
                1 => {
                    let permitted = remote.opened + number < remote.maximum;
                    prop_assert_eq!(remote.on_used(remote.opened + number).is_ok(), permitted);
                }
                _ if remote.open() > 0 => remote.on_retired(),
                _ => remote.on_peer_blocked(remote.maximum),
            }
            prop_assert!(remote.maximum >= highest, "{remote:?}");
            prop_assert!(remote.open() + remote.available() <= most, "{remote:?}");
            highest = remote.maximum;
        }
    }
}
