use std::sync::{Condvar, Mutex};

use clearway_transport::{Observation, Observer, Side};
use serde_json::Value;

use super::super::testing::{Memory, at, started};
use super::super::{QlogObserver, TraceOptions};
use super::*;

/// Timeout that is far longer than anything here takes: a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Memory that blocks writers until it is opened.
#[derive(Clone, Default)]
struct Gated {
    memory: Memory,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Gated {
    fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shut = self.gate.0.lock().unwrap();
        drop(self.gate.1.wait_while(shut, |is_open| !*is_open).unwrap());
        self.memory.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a handler that collects the reports of a log, and the reports.
fn reports() -> (ErrorHandler, Arc<Mutex<Vec<String>>>) {
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let of_handler = Arc::clone(&reports);
    (Arc::new(move |error| of_handler.lock().unwrap().push(error.to_string())), reports)
}

fn observer(writer: impl Write + Send + 'static, thread: &WritingThread) -> QlogObserver {
    QlogObserver::new(writer, TraceOptions::default()).on_thread(thread.clone())
}

/// Returns the number of records that are missing according to the log.
fn missing(records: &[Value]) -> u64 {
    let dropped = records.iter().filter(|record| record["name"] == "clearway:records_dropped");
    dropped.map(|record| record["data"]["records"].as_u64().unwrap()).sum()
}

fn buffered(records: &[Value]) -> u64 {
    records.iter().filter(|record| record["name"] == "quic:packet_buffered").count() as u64
}

#[test]
fn a_slow_disk_does_not_delay_a_connection() {
    let gated = Gated::default();
    let thread = WritingThread::with_room(200_000).unwrap();
    let (on_error, reports) = reports();
    let mut observer = observer(gated.clone(), &thread).with_error_handler(on_error);
    observer.observe(at(0), &started(Side::Client));
    // Nothing has been written yet, but the connection continues.
    let events = 20_000;
    for number in 0..events {
        observer.observe(at(number), &Observation::PacketBuffered { size: 1200 });
    }
    assert_eq!(gated.memory.bytes(), b"");
    assert!(!thread.finish(Duration::ZERO).is_complete);
    gated.open();
    assert!(thread.finish(TIMEOUT).is_complete);
    // As soon as there is room again, the log continues, and states how many records are missing.
    for number in 0..100 {
        observer.observe(at(events + number), &Observation::PacketBuffered { size: 1200 });
    }
    drop(observer);
    let finished = thread.finish(TIMEOUT);
    let records = gated.memory.records();
    assert!(missing(&records) > 0 && missing(&records) < events);
    assert_eq!(buffered(&records) + missing(&records), events + 100);
    let expected =
        Finished { is_complete: true, records_dropped: missing(&records), ..Finished::default() };
    assert_eq!(finished, expected);
    assert!(records[0]["trace"].is_object(), "the header comes first");
    let reports = reports.lock().unwrap();
    assert_eq!(
        *reports,
        ["qlog files are incomplete: the disk is too slow (200000 bytes are queued)"]
    );
}

#[test]
fn a_log_that_ends_while_the_disk_is_slow_says_how_many_records_are_missing() {
    let gated = Gated::default();
    let thread = WritingThread::with_room(50_000).unwrap();
    let mut first = observer(gated.clone(), &thread);
    first.observe(at(0), &started(Side::Client));
    for number in 0..5000 {
        first.observe(at(number), &Observation::PacketBuffered { size: 1200 });
    }
    drop(first);
    let waiting = thread.finish(Duration::ZERO).waiting_bytes;
    assert!((50_000 - 40_000..=52_000).contains(&waiting), "{waiting} bytes are queued");
    gated.open();
    assert!(thread.finish(TIMEOUT).is_complete);
    let records = gated.memory.records();
    assert_eq!(buffered(&records) + missing(&records), 5000);
    assert_eq!(records.last().unwrap()["name"], "clearway:records_dropped");
}

#[test]
fn no_log_is_begun_without_room() {
    let gated = Gated::default();
    let thread = WritingThread::with_room(1).unwrap();
    let begin = |on_error| {
        let mut observer = observer(gated.clone(), &thread).with_error_handler(on_error);
        observer.observe(at(0), &started(Side::Client));
        observer
    };
    let (on_error, reports) = reports();
    let first = begin(Arc::clone(&on_error));
    let second = begin(on_error);
    assert_eq!(reports.lock().unwrap().len(), 1);
    gated.open();
    drop((first, second));
    let finished = thread.finish(TIMEOUT);
    assert_eq!((finished.is_complete, finished.logs_dropped), (true, 1));
    assert_eq!(gated.memory.events("quic:connection_started").len(), 1);
}

#[test]
fn nothing_is_missing_if_the_disk_keeps_up() {
    let log = |thread: Option<&WritingThread>| {
        let memory = Memory::default();
        let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
        if let Some(thread) = thread {
            observer = observer.on_thread(thread.clone());
        }
        observer.observe(at(0), &started(Side::Client));
        for number in 0..5000 {
            observer.observe(at(number), &Observation::PacketBuffered { size: 1200 });
        }
        drop(observer);
        if let Some(thread) = thread {
            assert!(thread.finish(TIMEOUT).is_complete);
        }
        memory.bytes()
    };
    let thread = WritingThread::start().unwrap();
    assert_eq!(log(Some(&thread)), log(None));
}

#[test]
fn a_full_disk_is_reported_once_by_the_thread_and_other_logs_go_on() {
    let thread = WritingThread::start().unwrap();
    let (on_error, reports) = reports();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut unlucky = observer(full, &thread).with_error_handler(on_error);
    let memory = Memory::default();
    let mut lucky = observer(memory.clone(), &thread);
    for number in 0..2000 {
        let observation = match number {
            0 => started(Side::Client),
            _ => Observation::PacketBuffered { size: 1200 },
        };
        unlucky.observe(at(number), &observation);
        lucky.observe(at(number), &observation);
    }
    drop((unlucky, lucky));
    assert!(thread.finish(TIMEOUT).is_complete);
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].starts_with("a qlog file ends early: No space left"), "{reports:?}");
    assert_eq!(memory.events("quic:packet_buffered").len(), 1999);
}

#[test]
fn a_file_that_cannot_be_created_is_reported_once() {
    let thread = WritingThread::start().unwrap();
    let (on_error, reports) = reports();
    let open: super::super::Open = Box::new(|_, _| Err(io::ErrorKind::PermissionDenied.into()));
    let mut observer = QlogObserver::opening(open, Arc::default())
        .with_error_handler(on_error)
        .on_thread(thread.clone());
    observer.observe(at(0), &started(Side::Server));
    for number in 0..2000 {
        observer.observe(at(number), &Observation::PacketBuffered { size: 1200 });
    }
    drop(observer);
    assert!(thread.finish(TIMEOUT).is_complete);
    assert_eq!(*reports.lock().unwrap(), ["cannot create a qlog file: permission denied"]);
}
