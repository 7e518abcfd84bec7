use clearway_units::Timestamp;

use super::{instant, timestamp};

#[test]
fn virtual_time_survives_the_way_there_and_back_to_the_nanosecond() {
    for nanoseconds in [0, 1, 999_999_999, 1_000_000_001, 86_400_000_000_001] {
        let at = Timestamp::from_nanos(nanoseconds);
        assert_eq!(timestamp(instant(at)), at);
    }
}
