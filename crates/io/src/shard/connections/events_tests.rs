//! Tests that applications are called for events that their own calls cause, and at their
//! deadlines.

use std::sync::{Arc, Mutex};

use clearway_transport::Event;
use clearway_wire::{Direction, StreamId, VarInt};
use rustls::crypto::aws_lc_rs::kx_group::X25519;

use super::pending_clients::tests::{Clients, Server};
use super::*;
use crate::Application;

/// Number of streams that are reset.
const RESETS: usize = 6;

/// Keeps two streams full, and resets the older stream in each call that reports an event on the
/// newer one.
struct Filling {
    streams: Vec<StreamId>,
    calls: Arc<Mutex<Vec<Vec<Event>>>>,
    takes_events: bool,
}

impl Filling {
    /// Opens streams until there are two, and fills them.
    fn fill(&mut self, connection: &mut Connection) {
        while self.streams.len() < 2 {
            self.streams.push(connection.open(Direction::Unidirectional).unwrap());
        }
        for stream in &self.streams {
            let data = vec![0; 16 << 20];
            assert!(connection.write_slice(*stream, &data).unwrap() < data.len());
        }
    }
}

impl Application for Filling {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        let mut events = Vec::new();
        if self.takes_events {
            events.extend(std::iter::from_fn(|| connection.next_event()));
        }
        self.calls.lock().unwrap().push(events);
        self.fill(connection);
        let calls = self.calls.lock().unwrap().len();
        if (2..2 + RESETS).contains(&calls) {
            let _ = connection.reset(self.streams.remove(0), VarInt::from_u32(1));
        }
    }
}

/// Returns a server connection with this application; its client sends nothing more.
fn serving(application: impl Application + 'static) -> (Server, Timestamp) {
    let (mut server, mut clients) = (Server::new(100), Clients::new(X25519));
    let mut now = Timestamp::ORIGIN;
    let mut sent = clients.begin(now);
    for _ in 0..10 {
        now += Duration::from_millis(10);
        server.receive(now, &sent);
        for (_, datagram) in server.rest_of_turn(now, false) {
            clients.receive(now, datagram);
        }
        sent = clients.send(now, 0);
    }
    let slot = server.0.slots[0].as_mut().expect("a connection");
    slot.application = Guarded::new(|| Box::new(application)).expect("it is made");
    let handle = slot.handle;
    for _ in 0..2 {
        server.0.mark_dirty(handle);
        server.rest_of_turn(now, false);
    }
    (server, now)
}

fn filling(takes_events: bool) -> (Server, Timestamp, Arc<Mutex<Vec<Vec<Event>>>>) {
    let calls = Arc::<Mutex<Vec<Vec<Event>>>>::default();
    let application = Filling { streams: Vec::new(), calls: calls.clone(), takes_events };
    let (server, now) = serving(application);
    (server, now, calls)
}

/// Each reset frees buffer space for the writer of another stream, which must be notified even if
/// no other event follows.
#[test]
fn an_application_gets_the_events_of_its_own_calls() {
    let (mut server, now, calls) = filling(true);
    for _ in 0..100 {
        if !server.0.has_dirty() {
            break;
        }
        server.rest_of_turn(now, false);
    }
    assert!(!server.0.has_dirty());
    let calls = calls.lock().unwrap();
    // There is one call to fill the streams, one for the first reset, and one after each reset.
    assert_eq!(calls.len(), 2 + RESETS, "{calls:?}");
    let is_writable =
        |events: &Vec<Event>| events.iter().any(|event| matches!(event, Event::Writable(_)));
    assert!(calls[2..].iter().all(is_writable), "{calls:?}");
}

#[test]
fn an_application_that_takes_no_events_is_not_called_for_ever() {
    let (mut server, now, calls) = filling(false);
    for _ in 0..10 {
        server.rest_of_turn(now, false);
    }
    assert!(!server.0.has_dirty());
    assert!(calls.lock().unwrap().len() <= 4);
}

/// Number of times that [`Ticking`] requests to be called, at a fixed interval.
const TICKS: usize = 5;
const INTERVAL: Duration = Duration::from_millis(3);

/// An application that records the calls at its own deadlines.
struct Ticking {
    ticks: Arc<Mutex<Vec<Timestamp>>>,
    deadline: Option<Timestamp>,
}

impl Application for Ticking {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        let mut ticks = self.ticks.lock().unwrap();
        if ticks.len() < TICKS && self.deadline.is_none_or(|at| at <= now) {
            ticks.push(now);
            self.deadline = (ticks.len() < TICKS).then(|| now + INTERVAL);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }
}

#[test]
fn an_application_is_called_at_its_deadlines() {
    let ticks = Arc::<Mutex<Vec<Timestamp>>>::default();
    let (mut server, begun) = serving(Ticking { ticks: ticks.clone(), deadline: None });
    while let Some(now) =
        server.0.next_deadline().filter(|at| *at <= begun + Duration::from_secs(1))
    {
        server.rest_of_turn(now, false);
    }
    let wanted: Vec<Timestamp> = (0..TICKS as u32).map(|tick| begun + INTERVAL * tick).collect();
    assert_eq!(*ticks.lock().unwrap(), wanted);
}
