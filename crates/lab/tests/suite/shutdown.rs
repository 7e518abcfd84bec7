//! Tests that a server shuts down in two steps (RFC 9114 §5.2), across the whole stack and in
//! virtual time.

use clearway_http3::conformance::Harness;
use clearway_http3::{Code, Config, Connection as Http3, Event, Role, SendError};
use clearway_lab::stack::ClearwayStack;
use clearway_transport::TransportConfig;
use clearway_units::{Random, Timestamp};
use http::{Request, Response};

use crate::two_ends::{DELAY, Pair, clearway, feed};

/// The identifier in the first GOAWAY, with which every request is still accepted.
const EVERY_REQUEST: u64 = (1 << 62) - 4;

struct World {
    pair: Pair<ClearwayStack>,
    http3: [Http3; 2],
    /// The GOAWAY frames that have arrived at the client, and when.
    goaways: Vec<(u64, Timestamp)>,
    /// The requests that the server has received.
    seen: Vec<u64>,
    answered: Vec<u64>,
    failed: Vec<(u64, Code)>,
    is_shutting_down: bool,
    /// The time at which the server sent the last GOAWAY.
    ended_at: Option<Timestamp>,
}

impl World {
    fn new() -> Self {
        let pair = clearway(|| TransportConfig::builder().build().unwrap());
        let http3 = [Role::Client, Role::Server]
            .map(|role| Http3::new(role, Config::default(), &mut Random::from_number(5)));
        let mut world = Self {
            pair,
            http3,
            goaways: Vec::new(),
            seen: Vec::new(),
            answered: Vec::new(),
            failed: Vec::new(),
            is_shutting_down: false,
            ended_at: None,
        };
        for http3 in &mut world.http3 {
            world.pair.end(http3.role(), &mut |streams| http3.on_streams_available(streams));
        }
        while world.step() {}
        world
    }

    fn request(&mut self) -> Result<u64, SendError> {
        let request = Request::get("https://lab.example/").body(()).unwrap();
        let client = &mut self.http3[0];
        let mut sent = Err(SendError::StreamClosed);
        self.pair.end(Role::Client, &mut |streams| {
            sent = client.send_request(streams, &request, true);
        });
        sent
    }

    fn shut_down(&mut self) {
        let server = &mut self.http3[1];
        self.pair.end(Role::Server, &mut |streams| server.shutdown(streams));
        self.is_shutting_down = true;
    }

    fn handle(&mut self) {
        feed(&mut self.pair, &mut self.http3);
        let (now, [client, server]) = (self.pair.now, &mut self.http3);
        while let Some(event) = client.next_event() {
            match event {
                Event::GoAway { id } => self.goaways.push((id, now)),
                Event::Finished { stream } => self.answered.push(stream),
                Event::Failed { stream, error } => self.failed.push((stream, error.code)),
                _ => {}
            }
        }
        let (seen, ended_at) = (&mut self.seen, &mut self.ended_at);
        let is_shutting_down = self.is_shutting_down;
        self.pair.end(Role::Server, &mut |streams| {
            while let Some(event) = server.next_event() {
                if let Event::Request { stream, .. } = event {
                    seen.push(stream);
                    server.send_response(streams, stream, &Response::new(()), true).unwrap();
                }
            }
            if is_shutting_down && server.continue_shutdown(streams) {
                ended_at.get_or_insert(now);
            }
        });
    }

    /// Sends and delivers as much as possible, or waits for a timer. Returns whether there was
    /// anything to do.
    fn step(&mut self) -> bool {
        self.handle();
        let sent = self.pair.transmit();
        if sent.is_empty() {
            return self.pair.wait();
        }
        self.pair.now += DELAY;
        for datagram in sent {
            self.pair.arrive(datagram);
        }
        self.handle();
        true
    }
}

/// Requests that cross the first GOAWAY on the wire are served. The last GOAWAY follows when the
/// first has been acknowledged: a round trip later, plus at most the maximum ACK delay.
#[test]
fn requests_on_their_way_are_served() {
    let mut world = World::new();
    assert_eq!(world.request(), Ok(0));
    while world.step() {}
    let began_at = world.pair.now;
    world.shut_down();
    // This request crosses the GOAWAY: the client has not received it yet.
    let crossing = world.request().unwrap();
    while world.step() {}
    assert_eq!(world.seen, [0, crossing]);
    assert_eq!(world.answered, [0, crossing]);
    assert_eq!(world.failed, []);
    let ids: Vec<u64> = world.goaways.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [EVERY_REQUEST, crossing + 4]);
    assert_eq!(world.goaways[0].1, began_at + DELAY);
    let ended_at = world.ended_at.unwrap();
    assert!(ended_at >= began_at + 2 * DELAY, "a round trip");
    assert!(ended_at <= began_at + 2 * DELAY + std::time::Duration::from_millis(25));
    // The client has received the GOAWAY, and the server is idle.
    assert_eq!(world.request(), Err(SendError::GoingAway));
    assert!(world.http3[1].is_idle());
}

/// Without the first step, a request that crosses the GOAWAY on the wire is rejected, and the
/// client knows that it was not processed.
#[test]
fn one_step_rejects_what_is_on_its_way() {
    let mut world = World::new();
    assert_eq!(world.request(), Ok(0));
    while world.step() {}
    let server = &mut world.http3[1];
    world.pair.end(Role::Server, &mut |streams| server.goaway(streams));
    let crossing = world.request().unwrap();
    while world.step() {}
    assert_eq!(world.seen, [0]);
    assert_eq!(world.failed, [(crossing, Code::REQUEST_REJECTED)]);
    let ids: Vec<u64> = world.goaways.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [crossing]);
}
