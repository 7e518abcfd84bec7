use super::*;

#[test]
fn every_reason_has_its_counter_and_adds_to_the_sum() {
    let mut counters = WayCounters::default();
    let reasons = [
        DropReason::Random,
        DropReason::Burst,
        DropReason::Listed,
        DropReason::Disturbance,
        DropReason::Queue,
        DropReason::Pipe,
        DropReason::TooLarge,
        DropReason::Policer,
        DropReason::QueueManagement,
        DropReason::AckFilter,
        DropReason::SocketBuffer,
        DropReason::OldBinding,
    ];
    for reason in reasons {
        counters.count_drop(reason);
    }
    assert_eq!(counters.dropped(), 12);
    let expected = WayCounters {
        lost_random: 1,
        lost_burst: 1,
        lost_listed: 1,
        lost_disturbance: 1,
        dropped_queue: 1,
        dropped_pipe: 1,
        too_large: 1,
        dropped_policer: 1,
        dropped_queue_management: 1,
        dropped_ack_filter: 1,
        dropped_socket_buffer: 1,
        dropped_old_binding: 1,
        ..WayCounters::default()
    };
    assert_eq!(counters, expected);
}

#[test]
fn shows_only_what_happened() {
    let to_server = WayCounters {
        received: 3,
        received_bytes: 300,
        delivered: 2,
        delivered_bytes: 200,
        lost_random: 1,
        ..WayCounters::default()
    };
    let counters = Counters { to_server, to_client: WayCounters::default() };
    assert_eq!(
        counters.to_string(),
        "to server: 3 received (300 bytes), 2 delivered (200 bytes), 1 lost at random\n\
         to client: 0 received (0 bytes), 0 delivered (0 bytes)"
    );
}
