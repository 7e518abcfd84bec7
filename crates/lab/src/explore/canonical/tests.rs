use clearway_units::Timestamp;

use super::*;

fn value(text: &str, origin: Origin) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash(text, origin, &mut hasher);
    hasher.finish()
}

fn origin(by: u64) -> Origin {
    let now = Timestamp::from_nanos(5_000_000_000 + by * 1_000_000);
    Origin {
        now,
        next_index: 70 + by,
        round: 9 + by,
        delivered: 24_000 + by * SIZE,
        lost: by * SIZE,
    }
}

#[test]
fn what_is_relative_is_the_same_later() {
    let text = |by: u64| {
        format!(
            "since: Some(Timestamp({})), boundary: SendIndex({}), began_round: {}, delivered: {}, window: 7300",
            4_000_000_000 + by * 1_000_000,
            60 + by,
            8 + by,
            12_000 + by * SIZE
        )
    };
    assert_eq!(value(&text(0), origin(0)), value(&text(3), origin(3)));
    assert_ne!(value(&text(0), origin(0)), value(&text(3), origin(4)));
}

#[test]
fn sizes_count_in_quarters_of_a_datagram() {
    assert_eq!(value("window: 7300", origin(0)), value("window: 7499", origin(0)));
    assert_ne!(value("window: 7300", origin(0)), value("window: 7500", origin(0)));
    assert_ne!(value("is_open: true", origin(0)), value("is_open: false", origin(0)));
}

#[test]
fn counters_decide_nothing() {
    assert_eq!(value("congestion_events: 3", origin(0)), value("congestion_events: 4", origin(0)));
}
