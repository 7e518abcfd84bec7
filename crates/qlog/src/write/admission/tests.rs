use super::super::testing::at;
use super::*;

fn admitted(admission: &Admission, times: impl Iterator<Item = u64>) -> usize {
    times.filter(|milliseconds| admission.admits_failed(at(*milliseconds))).count()
}

#[test]
fn failed_handshakes_are_admitted_at_a_rate() {
    let admission = Admission::default();
    assert_eq!(admitted(&admission, (0..2000).map(|_| 5000)), 16);
    assert_eq!(admission.failed(), 1984);
    // One for each second since then, however many fail in it.
    assert_eq!(admitted(&admission, (0..1000).map(|number| 5000 + 10 * number)), 9);
    // After a quiet time the burst is there again.
    assert_eq!(admitted(&admission, (0..100).map(|_| 100_000)), 16);
}

#[test]
fn failed_handshakes_are_admitted_up_to_a_total() {
    let admission = Admission::default();
    assert_eq!(admitted(&admission, (0..5000).map(|second| second * 1000)), 1000);
    assert_eq!(admission.failed(), 4000);
    let none = Admission::without_failed_handshakes();
    assert_eq!(admitted(&none, (0..50).map(|second| second * 1000)), 0);
}

#[test]
fn what_one_connection_holds_is_bounded() {
    let mut room = Room::new(Arc::default());
    assert!(room.take(0, 100_000), "without the first record there is no log");
    let mut room = Room::new(Arc::default());
    let mut held = 0;
    while room.take(held, 1000) {
        held += 1000;
    }
    assert_eq!(held, 65_000);
}

#[test]
fn what_all_connections_hold_is_bounded_and_given_back() {
    let admission = Arc::new(Admission::default());
    let mut rooms = Vec::new();
    let fill = |rooms: &mut Vec<Room>| {
        let mut room = Room::new(Arc::clone(&admission));
        assert!(room.take(0, BEGINNING_BYTES), "its beginning is its own");
        let is_full = !room.take(BEGINNING_BYTES, CONNECTION_BYTES - BEGINNING_BYTES);
        rooms.push(room);
        is_full
    };
    while !fill(&mut rooms) {}
    assert_eq!(rooms.len(), SHARED_BYTES / (CONNECTION_BYTES - BEGINNING_BYTES) + 1);
    drop(rooms.remove(0));
    assert!(!fill(&mut rooms));
    drop(rooms);
    assert_eq!(admission.held.load(Ordering::Relaxed), 0);
}
