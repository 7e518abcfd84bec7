use clearway_units::Rate;

use super::*;
use crate::testing::{at_ms, datagram, drain, flows, link_to_client, ms, stream};
use crate::{Conditions, Link, Way};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn at_us(microseconds: u64) -> Timestamp {
    Timestamp::from_origin(us(microseconds))
}

fn link(host: Host) -> Link {
    link_to_client(Conditions { host: Some(host), ..Conditions::default() })
}

fn buffer(packets: Option<usize>, bytes: Option<u64>) -> QueueLimit {
    QueueLimit { packets, bytes }
}

#[test]
fn one_thread_delivers_datagrams_one_after_the_other() {
    let mut link = link(Host { service: us(30), ..Host::default() });
    let deliveries = stream(&mut link, 4, 1200, Duration::from_micros(10));
    let times: Vec<_> = deliveries.iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [30, 60, 90, 120].map(at_us));
    // An idle thread processes the next datagram immediately.
    link.submit(at_ms(5), Way::ToClient, datagram(9, 1200));
    assert_eq!(link.deadline(), Some(at_ms(5)));
    assert_eq!(link.poll(at_ms(5)), None);
    assert_eq!(link.deadline(), Some(at_ms(5) + us(30)));
}

#[test]
fn a_batch_costs_its_time_once_and_frees_the_buffer_at_once() {
    let host =
        Host { service: us(10), batch_service: us(50), batch: 3, buffer: buffer(Some(5), None) };
    let mut link = link(host);
    // The first datagram is read alone, five wait, and there is no room for the seventh.
    let deliveries = stream(&mut link, 7, 100, Duration::ZERO);
    assert_eq!(flows(&deliveries), [0, 1, 2, 3, 4, 5]);
    let times: Vec<_> = deliveries.iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [60, 120, 130, 140, 200, 210].map(at_us));
    assert_eq!(link.counters().to_client.dropped_socket_buffer, 1);
}

#[test]
fn bytes_count_with_their_overhead() {
    let host = Host { service: ms(1), buffer: buffer(None, Some(2300)), ..Host::default() };
    let conditions = Conditions { host: Some(host), overhead: 28, ..Conditions::default() };
    let mut link = link_to_client(conditions);
    assert_eq!(flows(&stream(&mut link, 5, 1100, Duration::ZERO)), [0, 1, 2]);
}

/// Sends datagrams of 1250 bytes for `seconds` at `rate`. Returns how many were delivered, how many
/// were dropped, when the first was dropped, and the transit time of the last one.
fn offer(
    service: Duration,
    socket_buffer: u64,
    rate: Rate,
    seconds: u64,
) -> (u64, u64, Duration, Duration) {
    let host = Host { service, buffer: buffer(None, Some(socket_buffer)), ..Host::default() };
    let mut link = link(host);
    let interval = rate.time_for(1250).unwrap();
    let mut now = Timestamp::ORIGIN;
    let mut first_drop = None;
    let (mut last_delay, mut delivered) = (Duration::ZERO, 0);
    while now < at_ms(1000 * seconds) {
        let payload = vec![0; 1250];
        link.submit(now, Way::ToClient, crate::Datagram { payload, ..datagram(0, 0) });
        while let Some(delivery) = link.poll(now) {
            last_delay = delivery.at.saturating_since(delivery.entered);
            delivered += 1;
        }
        if link.counters().to_client.dropped() > 0 {
            first_drop.get_or_insert(now.since_origin());
        }
        now += interval;
    }
    let dropped = link.counters().to_client.dropped_socket_buffer;
    (delivered, dropped, first_drop.unwrap_or(Duration::MAX), last_delay)
}

/// The published failure of a UDP proxy: at 40 us per datagram a thread processes 25,000 per
/// second, which is 250 Mbit/s at 1250 bytes. The load is a fifth above that.
#[test]
fn above_the_service_rate_a_larger_buffer_gains_time_but_no_throughput() {
    let rate = Rate::from_bits_per_second(300_000_000);
    let (small, small_dropped, small_first, small_delay) = offer(us(40), 200_000, rate, 3);
    let (large, large_dropped, large_first, large_delay) = offer(us(40), 2_000_000, rate, 3);
    // The thread determines the throughput, regardless of the buffer size.
    assert!(small.abs_diff(75_000) <= 2 && large.abs_diff(75_000) <= 2, "{small} {large}");
    // The gain of the larger buffer: the time to fill it at 6.25 MB/s, once.
    let bought = large_first.checked_sub(small_first).unwrap();
    assert!(bought.abs_diff(ms(288)) < ms(2), "{bought:?}");
    // 1440 more datagrams are not dropped, because the larger buffer has room for them.
    assert_eq!(small_dropped - large_dropped, 1440);
    // But every datagram waits ten times as long: 2 MB at 31.25 MB/s.
    assert!(small_delay.abs_diff(us(6400)) < us(200), "{small_delay:?}");
    assert!(large_delay.abs_diff(ms(64)) < ms(1), "{large_delay:?}");
}

#[test]
fn below_the_service_rate_nothing_is_dropped() {
    let rate = Rate::from_bits_per_second(240_000_000);
    let (_, dropped, _, delay) = offer(us(40), 20_000, rate, 1);
    assert_eq!((dropped, delay), (0, us(40)));
}

#[test]
fn datagrams_of_a_thread_that_never_finishes_stay_inside() {
    let mut link = link(Host { service: Duration::MAX, ..Host::default() });
    stream(&mut link, 3, 10, ms(1));
    assert_eq!(drain(&mut link), []);
    assert_eq!((link.deadline(), link.counters().to_client.in_pipe), (None, 3));
}
