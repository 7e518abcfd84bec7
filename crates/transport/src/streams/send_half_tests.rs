use proptest::prelude::*;

use super::*;

fn half(written: u64, limit: u64) -> SendHalf {
    let mut half = SendHalf::new(limit);
    half.write(Bytes::from((0..written).map(|offset| offset as u8).collect::<Vec<_>>()));
    half
}

fn send(half: &mut SendHalf, max: u64) -> Chunk {
    let chunk = half.next_fresh(max).unwrap();
    half.on_sent(&chunk);
    chunk
}

#[test]
fn fresh_data_keeps_to_both_limits() {
    let mut half = half(100, 60);
    assert_eq!(send(&mut half, 50).range, 0..50);
    assert_eq!(send(&mut half, 50).range, 50..60);
    assert_eq!(half.next_fresh(50), None);
    assert!(half.is_blocked() && half.is_blocked_report_pending());
    half.credit_mut().raise(200);
    half.finish();
    assert_eq!(send(&mut half, 50), Chunk { range: 60..100, fin: true });
    assert_eq!(half.state(), SendState::DataSent(StreamEnd::Fin, Delivery::InFlight));
    assert!(!half.is_blocked());
}

#[test]
fn a_bare_end_needs_no_credit() {
    let mut half = half(10, 10);
    send(&mut half, 10);
    half.finish();
    let end = half.next_creditless().unwrap();
    assert_eq!(end, Chunk { range: 10..10, fin: true });
    half.on_sent(&end);
    assert_eq!(half.next_creditless(), None);
    half.on_lost(10..10, true);
    assert_eq!(half.next_creditless(), Some(end));
}

#[test]
fn a_loss_is_sent_again_only_where_nothing_was_acknowledged() {
    let mut half = half(100, 100);
    send(&mut half, 100);
    assert_eq!(half.on_acknowledged(20..30, false), 0);
    assert_eq!(half.on_acknowledged(0..10, false), 10);
    half.on_lost(5..40, false);
    let first = half.next_creditless().unwrap();
    assert_eq!(first.range, 10..20);
    half.on_sent(&first);
    assert_eq!(half.next_creditless().unwrap().range, 30..40);
    assert_eq!(half.on_acknowledged(5..40, false), 30, "the late acknowledgement takes it back");
    assert_eq!(half.next_creditless(), None);
    assert_eq!(half.buffered(), 60);
}

#[test]
fn a_lost_end_that_is_acknowledged_late_is_not_sent_again() {
    let mut half = half(10, 10);
    half.finish();
    send(&mut half, 10);
    half.on_lost(0..10, true);
    assert_eq!(half.next_creditless(), Some(Chunk { range: 0..10, fin: true }));
    half.on_acknowledged(0..10, true);
    assert_eq!(half.next_creditless(), None);
    assert_eq!(half.state(), SendState::DataReceived(StreamEnd::Fin));
}

#[test]
fn a_reset_drops_everything_and_keeps_the_final_size() {
    let mut half = half(100, 100);
    send(&mut half, 40);
    half.on_lost(0..40, false);
    assert!(half.reset(VarInt::from_u32(7)));
    assert!(!half.reset(VarInt::from_u32(8)), "the first counts");
    assert_eq!(half.pending_reset(), Some((VarInt::from_u32(7), 40)));
    assert_eq!((half.buffered(), half.next_creditless(), half.fresh_allowed()), (0, None, 0));
    assert_eq!(half.check_writable(), Err(WriteError::Closed));
    half.on_reset_sent();
    half.on_reset_lost();
    assert!(half.pending_reset().is_some());
    assert!(half.on_reset_acknowledged());
    assert!(!half.on_reset_acknowledged());
    half.on_reset_lost();
    assert_eq!(half.pending_reset(), None);
    assert_eq!(half.on_acknowledged(0..40, false), 0, "counted with the reset");
}

#[test]
fn a_stop_resets_with_its_code_once_and_not_after_everything_arrived() {
    let mut stopped = half(10, 10);
    assert!(stopped.on_stop_sending(VarInt::from_u32(3)));
    assert!(!stopped.on_stop_sending(VarInt::from_u32(4)));
    assert_eq!(stopped.check_writable(), Err(WriteError::Stopped(VarInt::from_u32(3))));
    let mut done = half(10, 10);
    done.finish();
    send(&mut done, 10);
    done.on_acknowledged(0..10, true);
    assert!(!done.on_stop_sending(VarInt::from_u32(3)));
    assert_eq!(done.state(), SendState::DataReceived(StreamEnd::Fin));
}

proptest! {
    /// Whichever packets are lost, acknowledged or both, each byte is buffered until it is acknowledged, and every byte is
    /// acknowledged, lost or in flight.
    #[test]
    fn every_byte_is_accounted_for(
        writes in prop::collection::vec(1usize..300, 1..20),
        steps in prop::collection::vec((0u8..4, 1u64..200, any::<prop::sample::Index>()), 0..200),
    ) {
        let mut half = SendHalf::new(u64::MAX);
        let mut content = Vec::new();
        for length in writes {
            let data: Vec<u8> = (0..length).map(|index| (content.len() + index) as u8).collect();
            content.extend_from_slice(&data);
            half.write(Bytes::from(data));
        }
        half.finish();
        let mut under_way: Vec<Chunk> = Vec::new();
        let mut lost: Vec<Chunk> = Vec::new();
        let mut acknowledged = vec![false; content.len()];
        let send = |half: &mut SendHalf, under_way: &mut Vec<Chunk>, max: u64| {
            let mut chunk = match half.next_creditless().or_else(|| half.next_fresh(max)) {
                Some(chunk) => chunk,
                None => return false,
            };
            let cut = chunk.range.start + max;
            if chunk.range.end > cut {
                chunk = Chunk { range: chunk.range.start..cut, fin: false };
            }
            let mut space = vec![0; (chunk.range.end - chunk.range.start) as usize];
            half.copy_to(chunk.range.start, &mut space);
            let range = chunk.range.start as usize..chunk.range.end as usize;
            assert_eq!(&space, &content[range]);
            half.on_sent(&chunk);
            under_way.push(chunk);
            true
        };
        for (step, max, index) in steps {
            match step {
                0 | 1 => {
                    send(&mut half, &mut under_way, max);
                }
                2 if !under_way.is_empty() => {
                    let chunk = under_way.swap_remove(index.index(under_way.len()));
                    half.on_lost(chunk.range.clone(), chunk.fin);
                    lost.push(chunk);
                }
                3 => {
                    let from = if max % 3 == 0 { &mut lost } else { &mut under_way };
                    if from.is_empty() {
                        continue;
                    }
                    let chunk = from.swap_remove(index.index(from.len()));
                    half.on_acknowledged(chunk.range.clone(), chunk.fin);
                    acknowledged[chunk.range.start as usize..chunk.range.end as usize].fill(true);
                }
                _ => {}
            }
            let base = acknowledged.iter().position(|done| !done).unwrap_or(acknowledged.len());
            prop_assert_eq!(half.buffered(), (acknowledged.len() - base) as u64);
        }
        let mut rounds = 0;
        while half.state() != SendState::DataReceived(StreamEnd::Fin) {
            rounds += 1;
            prop_assert!(rounds < 2000, "everything comes to its end");
            if !send(&mut half, &mut under_way, 100) {
                prop_assert!(!under_way.is_empty(), "what is not acknowledged is under way");
            }
            for chunk in under_way.drain(..) {
                half.on_acknowledged(chunk.range, chunk.fin);
            }
        }
        prop_assert_eq!((half.buffered(), half.data.segments.len()), (0, 0));
    }
}
