use super::*;
use crate::testing::{at_ms, flows, link_to_client, ms, stream};
use crate::{Conditions, Link, QueueLimit, Way};

fn trace(times: &[u64]) -> Trace {
    Trace::new(times.to_vec()).unwrap()
}

fn link(times: &[u64]) -> Link {
    link_to_client(Conditions { trace: Some(trace(times)), ..Conditions::default() })
}

/// Returns the times at which datagrams of `length` bytes that all enter simultaneously are
/// delivered.
fn times(trace: &[u64], count: u32, length: usize) -> Vec<Timestamp> {
    let deliveries = stream(&mut link(trace), count, length, Duration::ZERO);
    deliveries.iter().map(|delivery| delivery.at).collect()
}

#[test]
fn each_line_delivers_a_datagram_and_the_trace_repeats() {
    assert_eq!(times(&[1, 1, 4, 10], 9, 1500), [1, 1, 4, 10, 11, 11, 14, 20, 21].map(at_ms));
    // An opportunity at time zero coincides with the end of each round.
    assert_eq!(times(&[0, 3, 5], 6, 1500), [0, 3, 5, 5, 8, 10].map(at_ms));
}

#[test]
fn small_datagrams_share_a_line_and_large_ones_take_several() {
    assert_eq!(times(&[1, 2, 3], 5, 500), [1, 1, 1, 2, 2].map(at_ms));
    assert_eq!(times(&[1, 2, 3], 3, 2000), [2, 3, 4].map(at_ms));
    assert_eq!(times(&[1, 2, 3], 2, 0), [0, 0].map(at_ms));
}

#[test]
fn what_is_not_used_is_lost() {
    let first = at_ms(50);
    let finish = |state: &mut TraceState, now, bytes| {
        state.finish(at_ms(now), first, bytes).saturating_since(first).as_millis()
    };
    // A round takes 7 ms, so 700 ms are 100 rounds.
    for (now, due) in [(700, 700), (701, 701), (703, 703), (704, 707), (705, 707), (707, 707)] {
        let mut state = TraceState::new(trace(&[1, 2, 3, 7]));
        assert_eq!(finish(&mut state, now + 50, 1500), due, "at {now} ms");
    }
    // The remainder of a delivery opportunity is usable only at its time.
    let mut state = TraceState::new(trace(&[1, 2, 3, 7]));
    assert_eq!(finish(&mut state, 50, 1000), 1);
    assert_eq!(finish(&mut state, 51, 500), 1);
    assert_eq!(finish(&mut state, 51, 500), 2);
    assert_eq!(finish(&mut state, 53, 1500), 3);
}

#[test]
fn the_queue_in_front_of_it_fills() {
    let queue = QueueLimit { packets: Some(2), bytes: None };
    let conditions = Conditions { trace: Some(trace(&[10])), queue, ..Conditions::default() };
    let mut link = link_to_client(conditions);
    assert_eq!(flows(&stream(&mut link, 5, 1500, ms(1))), [0, 1, 2]);
    assert_eq!(link.rate(Way::ToClient, at_ms(0)), Some(Rate::from_bytes_per_second(150_000)));
}

#[test]
fn lines_are_read_and_written() {
    let text = "0\n5\n5\n1000\n";
    let trace = Trace::parse(text).unwrap();
    assert_eq!(trace.to_string(), text);
    assert_eq!(trace.length(), ms(1000));
    assert_eq!(trace.mean_rate(), Rate::from_bytes_per_second(6000));
    assert_eq!(Trace::parse("0\r\n5\r\n5\r\n1000"), Ok(trace));
}

#[test]
fn errors_say_the_line() {
    let errors = [
        ("", "the trace has no lines"),
        ("0\n0\n", "the trace ends at 0 ms: it has no duration"),
        ("1\n2\n1.5\n", "line 3: \"1.5\" is not a whole number of milliseconds"),
        ("1\n\n3\n", "line 2: \"\" is not a whole number of milliseconds"),
        ("-1\n", "line 1: \"-1\" is not a whole number of milliseconds"),
        ("7\n9\n8\n", "line 3: 8 ms is before the previous line's 9 ms"),
    ];
    for (text, message) in errors {
        assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn times_without_end_do_no_harm() {
    let trace = Trace::parse(&format!("{}\n", u64::MAX)).unwrap();
    let mut link = link_to_client(Conditions { trace: Some(trace), ..Conditions::default() });
    assert_eq!(stream(&mut link, 2, 100, ms(1)), []);
    assert_eq!(link.counters().to_client.in_pipe, 2);
}

#[test]
fn a_synthetic_trace_has_the_requested_properties() {
    let megabit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
    let cellular =
        Cellular { between: (megabit(1), megabit(30)), outages: 3.0, length: ms(60_000) };
    let trace = Trace::cellular(&cellular, 1);
    assert_eq!(trace, Trace::cellular(&cellular, 1));
    assert_ne!(trace, Trace::cellular(&cellular, 2));
    assert_eq!(trace.length(), ms(60_000));
    assert!(trace.mean_rate() > megabit(1) && trace.mean_rate() < megabit(30));
    let gaps = trace.opportunities.windows(2).map(|pair| pair[1] - pair[0]);
    let outages: Vec<_> = gaps.filter(|gap| *gap > 40).collect();
    assert!((8..30).contains(&outages.len()), "{outages:?}");
    let mut in_a_second = vec![0u64; 60];
    for time in trace.opportunities.iter().filter(|time| **time < 60_000) {
        in_a_second[usize::try_from(time / 1000).unwrap()] += 1500;
    }
    let (least, most) = (in_a_second.iter().min().unwrap(), in_a_second.iter().max().unwrap());
    assert!(*most <= 30_000_000 / 8 + 1500 && *most > 3 * *least, "{least} to {most}");
}

/// Returns the traces in `traces/`, and the parameters that generated them.
fn stored() -> [(&'static str, Trace); 2] {
    let kilobit = |rate: u64| Rate::from_bits_per_second(rate * 1000);
    let length = ms(10_000);
    let good = Cellular { between: (kilobit(2000), kilobit(20_000)), outages: 1.0, length };
    let poor = Cellular { between: (kilobit(200), kilobit(4000)), outages: 5.0, length };
    [
        (include_str!("../traces/cellular-good.trace"), Trace::cellular(&good, 1)),
        (include_str!("../traces/cellular-poor.trace"), Trace::cellular(&poor, 1)),
    ]
}

#[test]
fn the_stored_traces_are_those_generated_with_seed_1() {
    for (text, trace) in stored() {
        assert_eq!(Trace::parse(text).as_ref(), Ok(&trace));
    }
}
