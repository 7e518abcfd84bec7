use super::*;

const NOW: Duration = Duration::from_secs(1_000_000);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns the origin of a ticket that was issued by another process or before this process
/// started.
fn of_another(issued: Duration) -> Origin {
    Origin { issued, issuer: [9; NONCE_LEN] }
}

/// Returns a record under which a ticket was issued, and the origin of its tickets.
fn record() -> (UsedTickets, Origin) {
    let mut used = UsedTickets::default();
    let issuer = used.issue(NOW, [3; NONCE_LEN]);
    (used, Origin { issued: NOW, issuer })
}

#[test]
fn a_ticket_is_opened_with_its_key_and_the_next_until_it_expires() {
    let keys = TicketKeys::new(&[1; 32]);
    let ticket = keys.seal(NOW, b"session", [3; 12]).unwrap();
    assert_eq!(
        keys.open(NOW + LIFETIME, &ticket),
        Some((Origin { issued: NOW, issuer: [3; 12] }, b"session".to_vec()))
    );
    assert_eq!(keys.open(NOW + LIFETIME + seconds(1), &ticket), None, "expired");
    keys.rotate(&[2; 32]);
    assert!(keys.open(NOW, &ticket).is_some());
    keys.rotate(&[2; 32]);
    assert!(keys.open(NOW, &ticket).is_some(), "the same key again is not a rotation");
    keys.rotate(&[3; 32]);
    assert_eq!(keys.open(NOW, &ticket), None);
    keys.accept_previous(&[1; 32]);
    assert!(keys.open(NOW, &ticket).is_some());
    let other = TicketKeys::new(&[1; 32]);
    assert!(other.open(NOW, &ticket).is_some(), "another process with the same key");
}

#[test]
fn a_changed_ticket_is_not_opened() {
    let keys = TicketKeys::new(&[1; 32]);
    let ticket = keys.seal(NOW, b"session", [3; 12]).unwrap();
    for place in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[place] ^= 1;
        assert_eq!(keys.open(NOW, &changed), None, "byte {place}");
        assert_eq!(keys.open(NOW, &ticket[..place]), None, "cut at {place}");
    }
}

#[test]
fn a_ticket_is_used_once_in_the_window() {
    let (mut used, own) = record();
    assert!(used.insert(NOW, own, [1; 16]));
    for later in [0, 1, 119, 120, 121, 200, 239] {
        assert!(!used.insert(NOW + seconds(later), own, [1; 16]), "{later} s later");
    }
    // After the two-minute window, TLS detects a replayed ClientHello by its stale ticket age.
    assert!(used.insert(NOW + seconds(600), own, [1; 16]));
}

#[test]
fn a_ticket_from_before_the_record_began_waits_for_a_window() {
    let (mut used, own) = record();
    let earlier = of_another(NOW - seconds(5));
    assert!(!used.insert(NOW, earlier, [1; 16]), "it may have been used already");
    // The ticket is from a process that was replaced within a second.
    assert!(!used.insert(NOW, of_another(NOW), [3; 16]), "so may one from the same second");
    assert!(used.insert(NOW, own, [4; 16]), "but not the record's own");
    assert!(used.insert(NOW + seconds(1), of_another(NOW + seconds(1)), [2; 16]));
    assert!(used.insert(NOW + WINDOW, earlier, [1; 16]));
}

/// A server that has issued a ticket can tell whether it was used, however long the client waits.
#[test]
fn the_record_begins_with_the_first_ticket() {
    let keys = TicketKeys::new(&[1; 32]);
    let ticket = keys.seal(NOW, b"session", [3; 12]).unwrap();
    let origin = |ticket: &[u8]| keys.open(NOW + seconds(5), ticket).unwrap().0;
    assert!(keys.use_once(NOW + seconds(5), origin(&ticket), &ticket));
    assert!(!keys.use_once(NOW + seconds(6), origin(&ticket), &ticket));
    let earlier = TicketKeys::new(&[1; 32]).seal(NOW - seconds(1), b"session", [4; 12]).unwrap();
    assert!(!keys.use_once(NOW + seconds(7), origin(&earlier), &earlier), "of another process");
}

#[test]
fn a_full_record_accepts_no_more() {
    let (mut used, own) = record();
    for number in 0..MAX_USED as u128 {
        assert!(used.insert(NOW, own, number.to_be_bytes()));
    }
    assert!(!used.insert(NOW, own, [0xff; 16]));
    assert!(used.insert(NOW + WINDOW, own, [0xff; 16]), "the next window has room");
}
