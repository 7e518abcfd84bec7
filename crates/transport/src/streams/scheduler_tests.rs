use clearway_wire::VarInt;

use super::*;

fn stream(key: usize, priority: i32, is_incremental: bool) -> WaitingStream {
    let id = StreamId::from_varint(VarInt::from_u32(key as u32 * 4));
    WaitingStream { key, id, priority, is_incremental }
}

/// Returns the streams that are chosen next, in order, if each stream always has 1200-byte packets
/// to send.
fn turns(scheduler: &mut Scheduler, count: usize) -> Vec<usize> {
    let mut turns = Vec::new();
    while turns.len() < count {
        let key = scheduler.front().unwrap();
        for _ in 0..QUANTUM / 1200 {
            assert_eq!(scheduler.front(), Some(key), "a turn lasts a quantum");
            scheduler.charge(1200);
        }
        turns.push(key);
    }
    turns
}

#[test]
fn equals_take_turns() {
    let mut scheduler = Scheduler::default();
    for key in 0..3 {
        scheduler.insert(stream(key, 0, true));
    }
    assert_eq!(turns(&mut scheduler, 7), [0, 1, 2, 0, 1, 2, 0]);
    scheduler.remove(stream(1, 0, true));
    assert_eq!(turns(&mut scheduler, 3), [2, 0, 2]);
}

#[test]
fn higher_priorities_go_first() {
    let mut scheduler = Scheduler::default();
    for (key, priority) in [(0, 0), (1, -5), (2, 9)] {
        scheduler.insert(stream(key, priority, true));
    }
    assert_eq!(turns(&mut scheduler, 2), [2, 2]);
    scheduler.remove(stream(2, 9, true));
    assert_eq!(turns(&mut scheduler, 2), [0, 0]);
    scheduler.remove(stream(0, 0, true));
    assert_eq!(scheduler.front(), Some(1));
    scheduler.remove(stream(1, -5, true));
    assert!(scheduler.is_empty());
}

#[test]
fn streams_that_are_not_incremental_go_one_after_another_in_one_turn() {
    let mut scheduler = Scheduler::default();
    for key in [5, 3, 4] {
        scheduler.insert(stream(key, 0, false));
    }
    scheduler.insert(stream(9, 0, true));
    assert_eq!(turns(&mut scheduler, 4), [3, 9, 3, 9]);
    scheduler.remove(stream(3, 0, false));
    assert_eq!(turns(&mut scheduler, 2), [4, 9]);
    scheduler.remove(stream(4, 0, false));
    scheduler.remove(stream(5, 0, false));
    assert_eq!(turns(&mut scheduler, 2), [9, 9]);
}

#[test]
fn a_stream_that_leaves_gives_the_next_a_whole_turn() {
    let mut scheduler = Scheduler::default();
    scheduler.insert(stream(0, 0, true));
    scheduler.insert(stream(1, 0, true));
    scheduler.charge(QUANTUM - 1);
    scheduler.remove(stream(0, 0, true));
    scheduler.insert(stream(0, 0, true));
    assert_eq!(turns(&mut scheduler, 2), [1, 0]);
}

#[test]
fn levels_do_not_pile_up() {
    let mut scheduler = Scheduler::default();
    for priority in 0..1000 {
        scheduler.insert(stream(0, priority, true));
        scheduler.remove(stream(0, priority, true));
    }
    assert!(scheduler.levels.len() <= SPARE_LEVELS);
}
