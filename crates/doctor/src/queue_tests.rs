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

#[test]
fn a_reader_that_reads_nothing_has_no_rate() {
    let samples: Vec<_> = (0..12).map(|at| sample(at, 92 * 2_315, at * 100, Some(0))).collect();
    let measured = measure(&samples);
    assert_eq!(measured.why, Why::Rate);
    assert_eq!(measured.drain_rate, Some(0.0));
    assert_eq!(measured.certainty, Certainty::Possible, "nothing is known of its threads");
}
