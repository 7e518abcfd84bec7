use super::*;

fn sample(at: u64, queue: u64, drops: u64, reads: Option<u64>) -> Sample {
    Sample { at: at * 100_000_000, queue, buffer: Some(92 * 2_315), drops, reads, reader: None }
}

#[test]
fn the_charge_is_the_common_divisor_of_the_lengths() {
    let of = |lengths: &[u64]| {
        let samples: Vec<_> = lengths.iter().map(|queue| sample(0, *queue, 0, None)).collect();
        charge(&samples)
    };
    assert_eq!(of(&[0, 2_315 * 3, 2_315 * 7, 2_315 * 8, 2_315 * 92]), Some(2_315.0));
    assert_eq!(of(&[2_315 * 3, 2_315 * 7, 2_315 * 8]), None, "too few");
    assert_eq!(of(&[2_315, 832 + 2_315, 5 * 832, 9 * 2_315]), None, "of different sizes");
}

#[test]
fn from_two_samples_little_is_known() {
    let full = measure(&[sample(0, 0, 0, Some(0)), sample(1, 92 * 2_315, 50, Some(500))]);
    assert_eq!((full.why, full.certainty), (Why::Rate, Certainty::Possible));
    let empty = measure(&[sample(0, 0, 0, Some(0)), sample(1, 0, 50, Some(500))]);
    assert_eq!((empty.why, empty.certainty), (Why::Burst, Certainty::Possible));
    assert_eq!(measure(&[]).why, Why::Unknown);
}

/// If reads are unknown, being prevented from running explains losses only if it lasted most of the
/// time.
#[test]
fn a_reader_that_ran_for_half_of_the_time_was_not_kept_off() {
    let why = |milliseconds: u64, waited: u64, reads: Option<u64>| {
        let reader = |waited| Reader { state: RunState::Sleeping, ran: 0, waited, throttled: 0 };
        let (before, after) = (sample(0, 0, 0, reads.map(|_| 0)), sample(0, 0, 50, reads));
        measure(&[
            Sample { reader: Some(reader(0)), ..before },
            Sample {
                at: milliseconds * 1_000_000,
                reader: Some(reader(waited * 1_000_000)),
                ..after
            },
        ])
        .why
    };
    assert_eq!(why(100, 50, None), Why::Burst);
    assert!(matches!(why(100, 51, None), Why::CpuPressure(part) if part > 0.5));
    // The snapshots are simultaneous.
    assert_eq!(why(0, 0, Some(500)), Why::Burst);
}

#[test]
fn a_reader_that_reads_nothing_has_no_rate() {
    let samples: Vec<_> = (0..12).map(|at| sample(at, 92 * 2_315, at * 100, Some(0))).collect();
    let measured = measure(&samples);
    assert_eq!(measured.why, Why::Rate);
    assert_eq!(measured.drain_rate, Some(0.0));
    assert_eq!(measured.certainty, Certainty::Possible, "nothing is known of its threads");
}

/// If senders pause for a moment, the queue is sometimes seen empty.
#[test]
fn a_reader_that_was_busy_all_the_time_is_not_fast_enough_although_its_queue_was_seen_empty() {
    let why = |ran_each: u64| {
        let sample = |at: u64| {
            let queue = if at % 10 == 5 { 0 } else { 92 * 2_315 };
            let reader = Reader {
                state: RunState::Runnable,
                ran: at * ran_each * 1_000_000,
                waited: at * 5_000_000,
                throttled: 0,
            };
            Sample { reader: Some(reader), ..sample(at, queue, at * 1_200, Some(at * 1_800)) }
        };
        let measured = measure(&(0..40).map(sample).collect::<Vec<_>>());
        (measured.why, measured.certainty)
    };
    assert_eq!(why(94), (Why::Rate, Certainty::Possible));
    // The reader read 1,800 datagrams in 40 ms of each 100 ms and was idle for 55 ms, in which it
    // would have read 2,475 more.
    assert_eq!(why(40), (Why::Burst, Certainty::Possible));
}

/// The kernel counts a wait only when it ends. If snapshots are frequent, an interval between two
/// of them is shorter than one wait.
#[test]
fn a_wait_that_is_longer_than_intervals_belongs_to_all_of_them() {
    let measured = |waited: fn(u64) -> u64, read: fn(u64) -> u64| {
        let sample = |at: u64| {
            let (waited, read) = (waited(at), read(at));
            let ran = read * 10_000;
            let reader = Reader { state: RunState::Runnable, ran, waited, throttled: 0 };
            let sample = sample(0, 92 * 2_315, at * 40, Some(read));
            Sample { at: at * 10_000_000, reader: Some(reader), ..sample }
        };
        let measured = measure(&(0..200).map(sample).collect::<Vec<_>>());
        (measured.why, measured.certainty)
    };
    // The reader never runs, and its wait never ends.
    let (why, _) = measured(|_| 0, |_| 0);
    assert!(matches!(why, Why::CpuPressure(part) if part > 0.99), "{why:?}");
    // The reader waits for 490 ms, then runs for 10 ms and reads 3,000 datagrams.
    let (why, certainty) = measured(|at| at / 50 * 490_000_000, |at| at / 50 * 3_000);
    assert!(matches!(why, Why::CpuPressure(part) if part > 0.7), "{why:?}");
    assert_eq!(certainty, Certainty::Certain);
    // The reader runs once for 3 ms, and then waits until after the last snapshot, so that this
    // wait is never counted.
    let (why, _) = measured(|at| at.min(20) * 10_000_000, |at| if at < 20 { 0 } else { 300 });
    assert!(matches!(why, Why::CpuPressure(part) if part > 0.9), "{why:?}");
}
