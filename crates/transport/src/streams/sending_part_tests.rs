use proptest::prelude::*;

use super::*;

fn part(written: u64, limit: u64) -> SendingPart {
    let mut part = SendingPart::new(limit);
    part.write(Bytes::from((0..written).map(|offset| offset as u8).collect::<Vec<_>>()));
    part
}

fn send(part: &mut SendingPart, max: u64) -> Chunk {
    let chunk = part.next_fresh(max).unwrap();
    part.on_sent(&chunk);
    chunk
}

#[test]
fn fresh_data_keeps_to_both_limits() {
    let mut part = part(100, 60);
    assert_eq!(send(&mut part, 50).range, 0..50);
    assert_eq!(send(&mut part, 50).range, 50..60);
    assert_eq!(part.next_fresh(50), None);
    assert!(part.is_blocked() && part.is_blocked_report_pending());
    part.credit_mut().raise(200);
    part.finish();
    assert_eq!(send(&mut part, 50), Chunk { range: 60..100, fin: true });
    assert_eq!(part.state(), SendState::DataSent(StreamEnd::Fin, Delivery::InFlight));
    assert!(!part.is_blocked());
}

#[test]
fn a_bare_end_needs_no_credit() {
    let mut part = part(10, 10);
    send(&mut part, 10);
    part.finish();
    let end = part.next_creditless().unwrap();
    assert_eq!(end, Chunk { range: 10..10, fin: true });
    part.on_sent(&end);
    assert_eq!(part.next_creditless(), None);
    part.on_lost(10..10, true);
    assert_eq!(part.next_creditless(), Some(end));
}

#[test]
fn a_loss_is_sent_again_only_where_nothing_was_acknowledged() {
    let mut part = part(100, 100);
    send(&mut part, 100);
    assert_eq!(part.on_acknowledged(20..30, false), 0);
    assert_eq!(part.on_acknowledged(0..10, false), 10);
    part.on_lost(5..40, false);
    let first = part.next_creditless().unwrap();
    assert_eq!(first.range, 10..20);
    part.on_sent(&first);
    assert_eq!(part.next_creditless().unwrap().range, 30..40);
    assert_eq!(part.on_acknowledged(5..40, false), 30, "the late acknowledgement takes it back");
    assert_eq!(part.next_creditless(), None);
    assert_eq!(part.buffered(), 60);
}

#[test]
fn a_lost_end_that_is_acknowledged_late_is_not_sent_again() {
    let mut part = part(10, 10);
    part.finish();
    send(&mut part, 10);
    part.on_lost(0..10, true);
    assert_eq!(part.next_creditless(), Some(Chunk { range: 0..10, fin: true }));
    part.on_acknowledged(0..10, true);
    assert_eq!(part.next_creditless(), None);
    assert_eq!(part.state(), SendState::DataReceived(StreamEnd::Fin));
}

#[test]
fn a_reset_drops_everything_and_keeps_the_final_size() {
    let mut part = part(100, 100);
    send(&mut part, 40);
    part.on_lost(0..40, false);
    assert!(part.reset(VarInt::from_u32(7)));
    assert!(!part.reset(VarInt::from_u32(8)), "the first counts");
    assert_eq!(part.pending_reset(), Some((VarInt::from_u32(7), 40)));
    assert_eq!((part.buffered(), part.next_creditless(), part.fresh_allowed()), (0, None, 0));
    assert_eq!(part.check_writable(), Err(WriteError::Closed));
    part.on_reset_sent();
    part.on_reset_lost();
    assert!(part.pending_reset().is_some());
    assert!(part.on_reset_acknowledged());
    assert!(!part.on_reset_acknowledged());
    part.on_reset_lost();
    assert_eq!(part.pending_reset(), None);
    assert_eq!(part.on_acknowledged(0..40, false), 0, "counted with the reset");
}

#[test]
fn a_stop_resets_with_its_code_once_and_not_after_everything_arrived() {
    let mut stopped = part(10, 10);
    assert!(stopped.on_stop_sending(VarInt::from_u32(3)));
    assert!(!stopped.on_stop_sending(VarInt::from_u32(4)));
    assert_eq!(stopped.check_writable(), Err(WriteError::Stopped(VarInt::from_u32(3))));
    let mut done = part(10, 10);
    done.finish();
    send(&mut done, 10);
    done.on_acknowledged(0..10, true);
    assert!(!done.on_stop_sending(VarInt::from_u32(3)));
    assert_eq!(done.state(), SendState::DataReceived(StreamEnd::Fin));
}

proptest! {
    /// Regardless of which packets are lost, acknowledged or both, each byte is buffered until it
    /// is acknowledged, and every byte is acknowledged, lost or in flight.
    #[test]
    fn every_byte_is_accounted_for(
        writes in prop::collection::vec(1usize..300, 1..20),
        steps in prop::collection::vec((0u8..4, 1u64..200, any::<prop::sample::Index>()), 0..200),
    ) {
        let mut part = SendingPart::new(u64::MAX);
        let mut content = Vec::new();
        for length in writes {
            let data: Vec<u8> = (0..length).map(|index| (content.len() + index) as u8).collect();
            content.extend_from_slice(&data);
            part.write(Bytes::from(data));
        }
        part.finish();
        let mut under_way: Vec<Chunk> = Vec::new();
        let mut lost: Vec<Chunk> = Vec::new();
        let mut acknowledged = vec![false; content.len()];
        let send = |part: &mut SendingPart, under_way: &mut Vec<Chunk>, max: u64| {
            let mut chunk = match part.next_creditless().or_else(|| part.next_fresh(max)) {
                Some(chunk) => chunk,
                None => return false,
            };
            let cut = chunk.range.start + max;
            if chunk.range.end > cut {
                chunk = Chunk { range: chunk.range.start..cut, fin: false };
            }
            let mut space = vec![0; (chunk.range.end - chunk.range.start) as usize];
            part.copy_to(chunk.range.start, &mut space);
            let range = chunk.range.start as usize..chunk.range.end as usize;
            assert_eq!(&space, &content[range]);
            part.on_sent(&chunk);
            under_way.push(chunk);
            true
        };
        for (step, max, index) in steps {
            match step {
                0 | 1 => {
                    send(&mut part, &mut under_way, max);
                }
                2 if !under_way.is_empty() => {
                    let chunk = under_way.swap_remove(index.index(under_way.len()));
                    part.on_lost(chunk.range.clone(), chunk.fin);
                    lost.push(chunk);
                }
                3 => {
                    let from = if max % 3 == 0 { &mut lost } else { &mut under_way };
                    if from.is_empty() {
                        continue;
                    }
                    let chunk = from.swap_remove(index.index(from.len()));
                    part.on_acknowledged(chunk.range.clone(), chunk.fin);
                    acknowledged[chunk.range.start as usize..chunk.range.end as usize].fill(true);
                }
                _ => {}
            }
            let base = acknowledged.iter().position(|done| !done).unwrap_or(acknowledged.len());
            prop_assert_eq!(part.buffered(), (acknowledged.len() - base) as u64);
        }
        let mut rounds = 0;
        while part.state() != SendState::DataReceived(StreamEnd::Fin) {
            rounds += 1;
            prop_assert!(rounds < 2000, "everything comes to its end");
            if !send(&mut part, &mut under_way, 100) {
                prop_assert!(!under_way.is_empty(), "what is not acknowledged is under way");
            }
            for chunk in under_way.drain(..) {
                part.on_acknowledged(chunk.range, chunk.fin);
            }
        }
        prop_assert_eq!((part.buffered(), part.data.segments.len()), (0, 0));
    }
}
