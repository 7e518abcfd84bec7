use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_transport::ConnectionError;

use super::super::testing::{Memory, at, started};
use super::*;

fn counting() -> (ErrorHandler, Arc<AtomicUsize>, Arc<Mutex<String>>) {
    let count = Arc::new(AtomicUsize::new(0));
    let text = Arc::new(Mutex::new(String::new()));
    let (counter, last) = (Arc::clone(&count), Arc::clone(&text));
    let handler: ErrorHandler = Arc::new(move |error| {
        counter.fetch_add(1, Ordering::Relaxed);
        *last.lock().unwrap() = error.to_string();
    });
    (handler, count, text)
}

#[test]
fn a_log_begins_with_the_connection() {
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &Observation::PacketBuffered { size: 1 });
    assert_eq!(memory.bytes(), b"");
    observer.observe(at(0), &started(Side::Client));
    let beginning = memory.records();
    assert!(!beginning.is_empty());
    // Only once.
    observer.observe(at(0), &started(Side::Client));
    assert_eq!(memory.records(), beginning);
}

#[test]
fn what_waits_is_written_when_the_observer_goes() {
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &started(Side::Client));
    observer.observe(at(1), &Observation::PacketBuffered { size: 1 });
    assert_eq!(memory.events("quic:packet_buffered").len(), 0);
    drop(observer);
    assert_eq!(memory.events("quic:packet_buffered").len(), 1);
}

#[test]
fn the_end_of_the_connection_is_written_at_once() {
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &started(Side::Client));
    observer.observe(at(1), &Observation::Closed(&ConnectionError::TimedOut));
    assert_eq!(memory.events("quic:connection_closed").len(), 1);
}

#[test]
fn a_log_that_cannot_be_opened_is_reported_once() {
    let (handler, count, text) = counting();
    let open: Open = Box::new(|_, _| Err(io::ErrorKind::PermissionDenied.into()));
    let mut observer = QlogObserver::opening(open, Arc::default()).with_error_handler(handler);
    observer.observe(at(0), &started(Side::Server));
    observer.observe(at(1), &started(Side::Server));
    observer.observe(at(1), &Observation::PacketBuffered { size: 1 });
    drop(observer);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(*text.lock().unwrap(), "a qlog file cannot be made: permission denied");
}

#[test]
fn a_full_disk_is_reported_once_and_the_connection_goes_on() {
    let (handler, count, text) = counting();
    let memory = Memory::with_capacity(2000);
    let mut observer =
        QlogObserver::new(memory.clone(), TraceOptions::default()).with_error_handler(handler);
    observer.observe(at(0), &started(Side::Server));
    for millisecond in 1..10_000 {
        observer.observe(at(millisecond), &Observation::PacketBuffered { size: 1200 });
    }
    drop(observer);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(*text.lock().unwrap(), "a qlog file ends early: no storage space");
    // What was written before is whole.
    assert!(memory.records().len() > 3);
}

#[test]
fn a_disk_that_is_full_at_the_very_end_is_reported_too() {
    let (handler, count, _) = counting();
    let memory = Memory::with_capacity(1100);
    let mut observer =
        QlogObserver::new(memory.clone(), TraceOptions::default()).with_error_handler(handler);
    observer.observe(at(0), &started(Side::Server));
    for _ in 0..20 {
        observer.observe(at(1), &Observation::PacketBuffered { size: 1200 });
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    drop(observer);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
