use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_transport::{ConnectionError, HandshakePackets};
use clearway_wire::PacketType;

use super::super::testing::{Memory, at, received, started};
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
    // Later `Started` observations are ignored.
    observer.observe(at(0), &started(Side::Client));
    assert_eq!(memory.records(), beginning);
}

#[test]
fn buffered_records_are_written_when_the_observer_is_dropped() {
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &started(Side::Client));
    observer.observe(at(1), &Observation::PacketBuffered { size: 1 });
    assert_eq!(memory.events("quic:packet_buffered").len(), 0);
    drop(observer);
    assert_eq!(memory.events("quic:packet_buffered").len(), 1);
}

#[test]
fn the_end_of_the_connection_is_written_immediately() {
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
    assert_eq!(*text.lock().unwrap(), "cannot create a qlog file: permission denied");
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
    // The records that were written before the failure are complete.
    assert!(memory.records().len() > 2);
}

#[test]
fn a_disk_that_is_full_at_the_end_of_the_log_is_reported() {
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

/// Creates an observer whose log `admission` has to admit.
fn held(memory: &Memory, admission: &Arc<Admission>) -> QlogObserver {
    QlogObserver::new(memory.clone(), TraceOptions::default()).admitted_by(Arc::clone(admission))
}

#[test]
fn a_server_begins_its_log_with_the_first_handshake_packet() {
    let (memory, immediate) = (Memory::default(), Memory::default());
    let mut observers = [
        held(&memory, &Arc::default()),
        QlogObserver::new(immediate.clone(), TraceOptions::default()),
    ];
    let mut observe = |milliseconds, observation: &Observation<'_>| {
        for observer in &mut observers {
            observer.observe(at(milliseconds), observation);
        }
    };
    observe(0, &started(Side::Server));
    observe(0, &received(PacketType::Initial));
    observe(1, &Observation::PacketBuffered { size: 1200 });
    observe(200, &received(PacketType::Initial));
    assert_eq!(memory.bytes(), b"");
    observe(201, &received(PacketType::Handshake));
    assert_eq!(memory.events("quic:packet_received").len(), 3);
    observe(202, &Observation::PacketBuffered { size: 1200 });
    drop(observers);
    assert_eq!(memory.bytes(), immediate.bytes(), "nothing is missing");
}

#[test]
fn a_client_begins_its_log_immediately() {
    let memory = Memory::default();
    let mut observer = held(&memory, &Arc::default());
    observer.observe(at(0), &started(Side::Client));
    assert_eq!(memory.events("quic:connection_started").len(), 1);
}

#[test]
fn a_handshake_that_failed_has_a_log_with_its_reason() {
    let memory = Memory::default();
    let mut observer = held(&memory, &Arc::default());
    observer.observe(at(0), &started(Side::Server));
    observer.observe(at(0), &received(PacketType::Initial));
    observer.observe(
        at(10_000),
        &Observation::Closed(&ConnectionError::HandshakeTimedOut(HandshakePackets::default())),
    );
    assert_eq!(memory.bytes(), b"");
    drop(observer);
    let closed = memory.events("quic:connection_closed");
    let reason = "the handshake did not complete in time: nothing arrived";
    assert_eq!(closed[0]["reason"], reason);
}

#[test]
fn few_failed_handshakes_have_a_log_and_the_others_are_reported() {
    let admission = Arc::new(Admission::default());
    let (handler, count, text) = counting();
    let logs: Vec<_> = (0..2000)
        .map(|_| {
            let memory = Memory::default();
            let mut observer = held(&memory, &admission).with_error_handler(handler.clone());
            observer.observe(at(0), &started(Side::Server));
            observer.observe(at(0), &received(PacketType::Initial));
            memory
        })
        .collect();
    assert_eq!(logs.iter().filter(|memory| !memory.bytes().is_empty()).count(), 16);
    assert_eq!(count.load(Ordering::Relaxed), 1984);
    assert!(text.lock().unwrap().starts_with("too many failed handshakes"), "{text:?}");
    assert_eq!(admission.failed(), 1984);
}

#[test]
fn a_connection_without_a_decrypted_packet_has_no_log() {
    let admission = Arc::new(Admission::default());
    let memory = Memory::default();
    let mut observer = held(&memory, &admission);
    observer.observe(at(0), &started(Side::Server));
    let reason = clearway_transport::DropReason::DecryptionFailure;
    observer.observe(at(0), &Observation::PacketDropped { size: 1200, reason });
    observer.observe(
        at(1),
        &Observation::Closed(&ConnectionError::HandshakeTimedOut(HandshakePackets::default())),
    );
    drop(observer);
    assert_eq!(memory.bytes(), b"");
    assert_eq!((admission.unopened(), admission.failed()), (1, 0));
}

#[test]
fn held_records_are_bounded_and_the_log_says_how_many_are_missing() {
    let memory = Memory::default();
    let mut observer = held(&memory, &Arc::default());
    observer.observe(at(0), &started(Side::Server));
    for number in 0..5000 {
        observer.observe(at(number), &Observation::PacketBuffered { size: 1200 });
    }
    observer.observe(at(5000), &received(PacketType::Handshake));
    observer.observe(at(5001), &Observation::PacketBuffered { size: 1200 });
    drop(observer);
    let records = memory.records();
    let buffered = memory.events("quic:packet_buffered").len() as u64;
    let dropped = memory.events("clearway:records_dropped");
    assert_eq!(dropped.len(), 1);
    // The Handshake packet is the last record that was dropped, and ended the gap.
    assert_eq!(buffered + dropped[0]["records"].as_u64().unwrap(), 5000 + 1 + 1);
    assert!(memory.writes()[0].len() <= 65 << 10, "{} bytes", memory.writes()[0].len());
    assert!(records[0]["trace"].is_object(), "the header comes first");
}
