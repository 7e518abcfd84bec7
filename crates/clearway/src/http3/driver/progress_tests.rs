use super::*;

const TIMEOUTS: Timeouts =
    Timeouts { request: Duration::from_secs(10), send: Duration::from_secs(20) };

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

fn answering(stream: u64, acknowledged: u64, is_blocked: bool) -> StallSample {
    let progress = StreamProgress { acknowledged, outstanding: 1000, is_blocked, received: 50 };
    StallSample { stream, progress, awaits_request: false }
}

fn asking(stream: u64, received: u64) -> StallSample {
    let progress = StreamProgress { received, ..StreamProgress::default() };
    StallSample { stream, progress, awaits_request: true }
}

#[test]
fn only_the_stream_of_a_blocked_response_is_abandoned() {
    let mut watch = Watch::default();
    for second in 0..20 {
        let samples = [answering(0, 0, true), answering(4, second, false)];
        assert_eq!(watch.check(at(second), &TIMEOUTS, &samples), []);
    }
    let samples = [answering(0, 0, true), answering(4, 20, false)];
    assert_eq!(watch.check(at(20), &TIMEOUTS, &samples), [(0, Stalled::Response)]);
}

#[test]
fn a_byte_in_time_is_progress() {
    let mut watch = Watch::default();
    for round in 0..100 {
        let samples = [answering(0, round, true), asking(4, round)];
        assert_eq!(watch.check(at(round * 9), &TIMEOUTS, &samples), []);
    }
}

#[test]
fn a_stream_that_waits_for_others_is_not_abandoned() {
    let mut watch = Watch::default();
    for second in 0..100 {
        let samples = [answering(0, 0, false), answering(4, second, false)];
        assert_eq!(watch.check(at(second), &TIMEOUTS, &samples), []);
    }
    // No data is acknowledged on the entire connection.
    let samples = [answering(0, 0, false), answering(4, 99, false)];
    assert_eq!(watch.check(at(118), &TIMEOUTS, &samples), []);
    let both = [(0, Stalled::Response), (4, Stalled::Response)];
    assert_eq!(watch.check(at(119), &TIMEOUTS, &samples), both);
}

#[test]
fn a_task_that_produces_nothing_is_not_the_clients_fault() {
    let mut watch = Watch::default();
    let idle =
        |stream| StallSample { progress: StreamProgress::default(), ..answering(stream, 0, false) };
    for second in 0..100 {
        assert_eq!(watch.check(at(second), &TIMEOUTS, &[idle(0)]), []);
    }
    // The timer starts when there is something to send.
    assert_eq!(watch.check(at(100), &TIMEOUTS, &[answering(0, 0, true)]), []);
    assert_eq!(watch.check(at(118), &TIMEOUTS, &[answering(0, 0, true)]), []);
    let stalled = watch.check(at(119), &TIMEOUTS, &[answering(0, 0, true)]);
    assert_eq!(stalled, [(0, Stalled::Response)]);
}

#[test]
fn the_stream_of_an_incomplete_request_is_abandoned() {
    let mut watch = Watch::default();
    assert_eq!(watch.check(at(0), &TIMEOUTS, &[asking(0, 5)]), []);
    assert_eq!(watch.check(at(9), &TIMEOUTS, &[asking(0, 5), asking(4, 1)]), []);
    let samples = [asking(0, 5), asking(4, 1)];
    assert_eq!(watch.check(at(10), &TIMEOUTS, &samples), [(0, Stalled::Request)]);
    // If no task waits for the rest of the request, there is no timeout.
    let unwanted = StallSample { awaits_request: false, ..asking(4, 1) };
    assert_eq!(watch.check(at(30), &TIMEOUTS, &[unwanted]), []);
}

#[test]
fn streams_that_are_over_are_forgotten() {
    let mut watch = Watch::default();
    let samples: Vec<_> = (0..100).map(|number| asking(number * 4, 1)).collect();
    watch.check(at(0), &TIMEOUTS, &samples);
    assert_eq!(watch.streams.len(), 100);
    watch.check(at(1), &TIMEOUTS, &[]);
    assert_eq!(watch.streams.len(), 0);
}

#[test]
fn the_least_and_the_greatest_timeouts() {
    let of = |duration| Timeouts { request: duration, send: duration };
    let samples = [answering(0, 0, true), asking(4, 1)];
    let mut watch = Watch::default();
    for second in [0, 1, 1 << 30] {
        assert_eq!(watch.check(at(second), &of(Duration::MAX), &samples), []);
    }
    let mut watch = Watch::default();
    let both = [(0, Stalled::Response), (4, Stalled::Request)];
    assert_eq!(watch.check(at(1), &of(Duration::ZERO), &samples), both);
    assert_eq!(of(Duration::ZERO).interval(), Duration::from_millis(1));
    assert!(of(Duration::MAX).interval() > Duration::from_secs(1 << 30));
}
