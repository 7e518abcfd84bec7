use super::*;

const LEAST: Duration = Duration::from_millis(200);

#[test]
fn a_server_that_thinks_is_asked_less_and_less_often() {
    let mut timer = AnswerTimer::default();
    let mut waits = Vec::new();
    for _ in 0..9 {
        waits.push(timer.while_thinking(LEAST).as_millis());
        timer.asked += 1;
    }
    assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    timer.asked = u32::MAX;
    assert_eq!(timer.while_thinking(LEAST), LONGEST_WAIT);
    timer.on_stream_data();
    assert_eq!(timer.while_thinking(LEAST), LEAST);
}

#[test]
fn a_silent_server_is_asked_again_after_a_part_of_the_silence() {
    for (silence, wait) in [(0, 200), (1600, 200), (3200, 400), (24_000, 3000), (600_000, 15_000)] {
        let wait_here = AnswerTimer::while_silent(LEAST, Duration::from_millis(silence));
        assert_eq!(wait_here.as_millis(), wait);
    }
}

/// A path whose round trip is longer than the longest wait is not flooded either.
#[test]
fn no_wait_is_below_the_least() {
    let least = Duration::from_secs(20);
    assert_eq!(AnswerTimer::default().while_thinking(least), least);
    assert_eq!(AnswerTimer::while_silent(least, Duration::ZERO), least);
}
