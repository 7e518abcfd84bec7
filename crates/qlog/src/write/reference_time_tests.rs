use super::*;

fn after_epoch(milliseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds)
}

fn written(reference_time: ReferenceTime, now: Timestamp) -> String {
    let mut output = Vec::new();
    Object::write(&mut output, |json| reference_time.write(now, json));
    String::from_utf8(output).unwrap()
}

#[test]
fn dates_follow_the_calendar() {
    for (milliseconds, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_553_900_153_572, "2019-03-29T22:55:53.572Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
        (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(date_time(after_epoch(milliseconds)).as_deref(), Some(expected));
    }
}

#[test]
fn dates_that_rfc_3339_cannot_write_are_left_out() {
    assert_eq!(date_time(after_epoch(253_402_300_800_000)), None);
    assert_eq!(date_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), None);
}

#[test]
fn a_monotonic_clock_has_no_epoch() {
    let now = Timestamp::from_nanos(5_000_000_000);
    assert_eq!(
        written(ReferenceTime::Monotonic { wall_clock_at_origin: None }, now),
        r#"{"reference_time":{"clock_type":"monotonic","epoch":"unknown"}}"#
    );
    // The wall clock time is the time at the beginning of the log.
    assert_eq!(
        written(ReferenceTime::Monotonic { wall_clock_at_origin: Some(after_epoch(0)) }, now),
        concat!(
            r#"{"reference_time":{"clock_type":"monotonic","epoch":"unknown","#,
            r#""wall_clock_time":"1970-01-01T00:00:05.000Z"}}"#
        )
    );
}

#[test]
fn the_system_clock_has_one() {
    assert_eq!(
        written(ReferenceTime::System { origin: after_epoch(1000) }, Timestamp::ORIGIN),
        r#"{"reference_time":{"clock_type":"system","epoch":"1970-01-01T00:00:01.000Z"}}"#
    );
}
