//! Applications are called for the events that their own calls have.

use std::sync::{Arc, Mutex};

use clearway_transport::Event;
use clearway_wire::{Direction, StreamId, VarInt};
use rustls::crypto::aws_lc_rs::kx_group::X25519;

use super::newcomers::tests::{Clients, Server};
use super::*;
use crate::Application;

/// Fills two streams, and then resets the first.
struct Filling {
    streams: Vec<StreamId>,
    calls: Arc<Mutex<Vec<Vec<Event>>>>,
    takes_events: bool,
}

impl Application for Filling {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        let mut events = Vec::new();
        if self.takes_events {
            events.extend(std::iter::from_fn(|| connection.next_event()));
        }
        self.calls.lock().unwrap().push(events);
        match self.streams[..] {
            [] => {
                for _ in 0..2 {
                    let stream = connection.open(Direction::Unidirectional).unwrap();
                    let data = vec![0; 16 << 20];
                    assert!(connection.write_slice(stream, &data).unwrap() < data.len());
                    self.streams.push(stream);
                }
            }
            [first, _] => {
                let _ = connection.reset(first, VarInt::from_u32(1));
            }
            _ => panic!("two streams"),
        }
    }
}

/// A connection of a server with this application, whose client sends nothing any more.
fn filling(takes_events: bool) -> (Server, Timestamp, Arc<Mutex<Vec<Vec<Event>>>>) {
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
    let calls = Arc::<Mutex<Vec<Vec<Event>>>>::default();
    let application = Filling { streams: Vec::new(), calls: calls.clone(), takes_events };
    let slot = server.0.slots[0].as_mut().expect("a connection");
    slot.application = Guarded::new(|| Box::new(application)).expect("it is made");
    let handle = slot.handle;
    for _ in 0..2 {
        server.0.mark_dirty(handle);
        server.rest_of_turn(now, false);
    }
    (server, now, calls)
}

/// A reset makes room for the writer of another stream, who learns of it without anything else happening.
#[test]
fn an_application_gets_the_events_of_its_own_call() {
    let (mut server, now, calls) = filling(true);
    assert!(server.0.has_dirty());
    server.rest_of_turn(now, false);
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len(), 3);
    assert!(matches!(calls[2][..], [Event::Writable(_)]), "{calls:?}");
    assert!(!server.0.has_dirty());
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
