use proptest::prelude::*;

use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(100);

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_nanos(milliseconds * 1_000_000)
}

#[test]
fn credit_is_never_exceeded() {
    let mut credit = SendCredit::new(10);
    assert!(credit.consume(10));
    assert!(!credit.consume(1));
    assert_eq!(credit.used(), 10);
    assert!(!credit.raise(9), "a lower limit means nothing");
    assert!(credit.raise(11));
    assert_eq!(credit.available(), 1);
    assert!(!credit.consume(u64::MAX));
}

#[test]
fn a_limit_that_blocks_is_reported_once_and_again_when_that_is_lost() {
    let mut credit = SendCredit::new(0);
    assert!(credit.is_report_pending());
    credit.on_reported();
    assert!(!credit.is_report_pending());
    credit.on_report_lost();
    assert!(credit.is_report_pending());
    credit.raise(5);
    assert!(!credit.is_report_pending(), "no longer blocked");
    assert!(credit.consume(5));
    assert!(credit.is_report_pending(), "the new limit blocks too");
}

#[test]
fn one_byte_too_many_is_refused() {
    let mut window = ReceiveWindow::new(100, 100);
    assert_eq!(window.receive(at(0), 100), Ok(()));
    assert_eq!(window.receive(at(0), 1), Err(Exceeded));
    assert_eq!(window.received(), 100);
}

#[test]
fn the_limit_moves_when_an_eighth_is_consumed() {
    let mut window = ReceiveWindow::new(80, 80);
    window.receive(at(0), 80).unwrap();
    assert!(!window.consume(at(1), None, 9));
    assert_eq!(window.limit(), 80);
    assert!(window.consume(at(1), None, 1));
    assert_eq!(window.limit(), 90);
    assert!(!window.consume(at(1), None, 1), "no update for each packet");
}

#[test]
fn updates_become_more_frequent_while_they_are_lost() {
    let mut window = ReceiveWindow::new(160, 160);
    window.receive(at(0), 160).unwrap();
    window.on_update_lost();
    assert!(!window.consume(at(1), None, 9));
    assert!(window.consume(at(1), None, 1), "a sixteenth");
    (0..10).for_each(|_| window.on_update_lost());
    assert!(window.consume(at(1), None, 1), "no more often than 128 times");
    (0..10).for_each(|_| window.on_update_acknowledged());
    assert!(!window.consume(at(1), None, 19));
    assert!(window.consume(at(1), None, 1), "an eighth");
}

#[test]
fn a_window_doubles_while_it_is_consumed_fast() {
    let mut window = ReceiveWindow::new(100, 350);
    window.receive(at(0), 100).unwrap();
    window.consume(at(199), Some(ROUND_TRIP), 50);
    assert_eq!(window.window(), 200);
    assert_eq!(window.limit(), 250);
    window.receive(at(200), 100).unwrap();
    window.consume(at(250), Some(ROUND_TRIP), 100);
    assert_eq!(window.window(), 350, "the maximum holds");
}

#[test]
fn a_window_stays_while_it_is_consumed_slowly_or_no_round_trip_is_known() {
    let mut window = ReceiveWindow::new(100, 1000);
    window.receive(at(0), 100).unwrap();
    window.consume(at(200), Some(ROUND_TRIP), 50);
    assert_eq!(window.window(), 100);
    window.consume(at(201), None, 50);
    assert_eq!(window.window(), 100);
}

#[test]
fn a_window_doubles_when_it_holds_up_a_peer_whose_data_is_read() {
    let mut window = ReceiveWindow::new(80, 300);
    window.receive(at(0), 80).unwrap();
    window.on_peer_blocked(80);
    assert_eq!(window.window(), 80, "the application does not read");
    window.consume(at(1000), Some(ROUND_TRIP), 75);
    assert!(window.on_peer_blocked(80));
    assert_eq!((window.window(), window.limit()), (160, 235));
    window.receive(at(1001), 10).unwrap();
    window.on_peer_blocked(80);
    assert_eq!(window.window(), 160, "that report is old: the peer has continued");
    window.receive(at(1002), 145).unwrap();
    window.consume(at(2000), None, 155);
    window.on_peer_blocked(window.received());
    assert_eq!(window.window(), 300, "the maximum holds");
}

/// If a stream's window grows, the connection's limit rises too; otherwise, a stream that is no
/// longer read could use up the connection's credit.
#[test]
fn the_connections_limit_rises_with_a_stream_that_grows_while_nothing_is_read() {
    let mut stream = ReceiveWindow::new(80, 1000);
    let mut connection = ConnectionFlow::new(ReceiveWindow::new(120, 1000));
    stream.receive(at(0), 80).unwrap();
    connection.receive(at(0), 80).unwrap();
    stream.consume(at(1000), None, 75);
    connection.return_credit(at(1000), 75);
    connection.pending_max_data = false;
    stream.on_peer_blocked(80);
    assert_eq!((stream.window(), stream.limit()), (160, 235));
    connection.fit_grown_window(stream.window());
    assert_eq!(connection.pending_max_data(), Some(75 + 240));
}

#[test]
fn a_blocked_peer_gets_the_highest_possible_limit() {
    let mut window = ReceiveWindow::new(100, 100);
    window.receive(at(0), 100).unwrap();
    assert!(!window.on_peer_blocked(100), "nothing is free");
    window.consume(at(0), None, 1);
    assert!(window.on_peer_blocked(100));
    assert_eq!(window.limit(), 101);
    assert!(window.on_peer_blocked(100), "the earlier update may have been lost");
    assert!(!window.on_peer_blocked(101), "nothing more is free");
}

proptest! {
    /// S18: no more is consumed than was received, the limit never falls, and a peer at the limit
    /// has at least half a window once everything is consumed.
    #[test]
    fn ledger(steps in prop::collection::vec((any::<bool>(), 0u64..300, 0u64..500), 1..200)) {
        let mut window = ReceiveWindow::new(200, 1600);
        let mut now = 0;
        for (receives, bytes, passed) in steps {
            now += passed;
            let limit = window.limit();
            if receives {
                let room = window.limit() - window.received();
                prop_assert_eq!(window.receive(at(now), bytes).is_ok(), bytes <= room);
            } else {
                let bytes = bytes.min(window.received() - window.consumed());
                window.consume(at(now), Some(ROUND_TRIP), bytes);
            }
            prop_assert!(window.limit() >= limit);
            prop_assert!(window.consumed() <= window.received());
            prop_assert!(window.received() <= window.limit());
            prop_assert!(window.limit() - window.consumed() <= window.window());
            prop_assert!(window.limit() - window.consumed() >= window.window() / 2);
        }
    }
}

/// The memory limit and the application's maximum apply together, in whatever order they are set.
#[test]
fn the_lower_of_two_limits_applies() {
    let window = |flow: &ConnectionFlow| flow.receive_window().window();
    let mut flow = ConnectionFlow::new(ReceiveWindow::new(1000, 4000));
    flow.fit_stream_window(10_000);
    assert_eq!(window(&flow), 4000);
    flow.limit_window(Some(1000));
    assert_eq!(window(&flow), 1000);
    flow.set_max_window(8000, 1000);
    flow.fit_stream_window(10_000);
    assert_eq!(window(&flow), 1000, "memory is still scarce");
    flow.limit_window(None);
    flow.fit_stream_window(10_000);
    assert_eq!(window(&flow), 8000);
    flow.set_max_window(100, 1000);
    flow.limit_window(Some(1000));
    flow.limit_window(None);
    flow.fit_stream_window(10_000);
    assert_eq!(window(&flow), 100);
}

/// A maximum of 0 is possible, and raising it revives the peer.
#[test]
fn a_window_that_was_closed_opens_again() {
    let mut flow = ConnectionFlow::new(ReceiveWindow::new(1000, 4000));
    flow.set_max_window(0, 1000);
    flow.receive(at(0), 1000).unwrap();
    flow.return_credit(at(1), 1000);
    flow.on_peer_blocked(1000);
    assert_eq!(flow.pending_max_data(), None);
    flow.set_max_window(500, 1000);
    assert_eq!(flow.pending_max_data(), Some(1500));
}
