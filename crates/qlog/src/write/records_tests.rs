use super::super::testing::{Memory, at};
use super::*;

fn options() -> TraceOptions {
    TraceOptions { flush_interval: Duration::from_millis(100), ..TraceOptions::default() }
}

fn sink(memory: &Memory, options: &TraceOptions) -> Records {
    Records::new(Destination::Direct(Box::new(memory.clone())), options, at(0))
}

fn text_of(length: usize) -> String {
    "x".repeat(length)
}

#[test]
fn every_write_contains_whole_records() {
    let memory = Memory::default();
    let mut records = sink(&memory, &options());
    for index in 0..3000 {
        records.event(at(1), "quic:packet_sent", |json| json.text("t", &text_of(index % 97)));
    }
    records.flush(at(1));
    let writes = memory.writes();
    assert!(writes.len() > 2, "{} writes", writes.len());
    for write in &writes {
        assert_eq!(write.first(), Some(&RECORD_SEPARATOR));
        assert_eq!(write.last(), Some(&b'\n'));
    }
    assert_eq!(memory.records().len(), 3000);
}

#[test]
fn records_are_buffered_no_longer_than_the_interval() {
    let memory = Memory::default();
    let mut records = sink(&memory, &options());
    records.event(at(99), "a", |_| {});
    assert_eq!(memory.writes().len(), 0);
    records.event(at(100), "b", |_| {});
    assert_eq!(memory.records().len(), 2);
    records.event(at(199), "c", |_| {});
    assert_eq!(memory.writes().len(), 1);
    records.event(at(200), "d", |_| {});
    assert_eq!(memory.records().len(), 4);
}

#[test]
fn the_memory_of_a_huge_record_is_released() {
    let memory = Memory::default();
    let mut records = sink(&memory, &options());
    records.event(at(0), "huge", |json| json.text("t", &text_of(1 << 20)));
    assert_eq!(memory.records().len(), 1);
    assert!(records.waiting.capacity() <= 4 * FLUSH_SIZE, "{}", records.waiting.capacity());
}

#[test]
fn a_full_disk_ends_the_log_once() {
    let memory = Memory::with_capacity(100);
    let mut records = sink(&memory, &options());
    records.event(at(0), "first", |_| {});
    records.flush(at(0));
    records.event(at(0), "second", |json| json.text("t", &text_of(200)));
    records.flush(at(0));
    // There would be room for this record, but the gap before it would not be visible.
    records.event(at(0), "third", |_| {});
    records.flush(at(0));
    assert!(matches!(records.take_failure(), Some(QlogError::Write { .. })));
    assert_eq!(memory.records().len(), 1);
}

#[test]
fn the_log_ends_at_its_limit_and_says_so() {
    let memory = Memory::default();
    let mut records = sink(&memory, &TraceOptions { maximum_bytes: 1000, ..options() });
    for _ in 0..100 {
        records.event(at(7), "quic:packet_sent", |json| json.text("t", &text_of(40)));
    }
    assert!(matches!(records.take_failure(), Some(QlogError::Limit { maximum_bytes: 1000 })));
    let written = memory.records();
    let (last, before) = written.split_last().unwrap();
    assert_eq!(last["name"], "loglevel:warning");
    assert_eq!(last["time"], 7);
    assert!(before.len() > 5 && before.iter().all(|record| record["name"] == "quic:packet_sent"));
    let limited: usize = memory
        .bytes()
        .split_inclusive(|byte| *byte == b'\n')
        .take(before.len())
        .map(<[u8]>::len)
        .sum();
    assert!(limited <= 1000);
}
