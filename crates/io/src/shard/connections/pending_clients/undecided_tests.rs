//! Tests of postponed decisions, in virtual time.

use std::sync::Mutex;

use clearway_transport::{Connection, Observation, Observer};
use clearway_wire::VarInt;

use super::*;
use crate::application::Application;
use crate::mailbox::{ApplicationFactory, Command, Undecided};

/// An acceptor that postpones all decisions, and what it has passed on.
#[derive(Clone, Default)]
struct Postponing(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    undecided: Vec<Undecided>,
    /// Whether each client had validated its address, and whether its ClientHello was complete.
    clients: Vec<(bool, bool)>,
    /// Has an owner more for each observer.
    observers: Arc<()>,
}

/// Counts the observers of connections.
struct Counting {
    _counted: Arc<()>,
}

impl Observer for Counting {
    fn observe(&mut self, _: Timestamp, _: &Observation<'_>) {}
}

impl Acceptor for Postponing {
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        let observers = self.0.lock().unwrap().observers.clone();
        Some(Box::new(Counting { _counted: observers }))
    }

    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        let hello = incoming.client_hello().unwrap();
        let client = (incoming.address_is_validated(), hello.is_complete());
        let asked = self.0.clone();
        Decision::Postpone(Box::new(move |undecided| {
            let mut asked = asked.lock().unwrap();
            asked.undecided.push(undecided);
            asked.clients.push(client);
        }))
    }
}

impl Postponing {
    fn take(&self) -> Vec<Undecided> {
        std::mem::take(&mut self.0.lock().unwrap().undecided)
    }

    /// Returns what was known of each client: see [`Asked::clients`].
    fn clients(&self) -> Vec<(bool, bool)> {
        self.0.lock().unwrap().clients.clone()
    }

    fn server(&self, admission: &Admission) -> Server {
        Server::admitting(admission, Some(Box::new(self.clone())))
    }
}

impl Server {
    /// Executes the decisions that were sent to the shard.
    fn note_decisions(&mut self) {
        let mut commands = Vec::new();
        self.0.mailbox.take(&mut commands);
        for command in commands {
            if let Command::Decide { ticket, answer } = command {
                self.0.decided(ticket, answer);
            }
        }
    }

    /// Executes the decisions, and the rest of a turn and of the next one: what a turn begins is
    /// sent in the next.
    fn two_turns(&mut self, now: Timestamp) -> Vec<Sent> {
        self.note_decisions();
        let mut sent = self.rest_of_turn(now, false);
        sent.extend(self.rest_of_turn(now, false));
        sent
    }

    fn has_nothing_waiting(&self) -> bool {
        let pending = &self.0.pending_clients;
        let is_empty = pending.waiting.is_empty() && pending.order.is_empty();
        is_empty && pending.bytes == 0 && pending.next_expiry().is_none()
    }
}

struct Draining;

impl Application for Draining {
    fn process(&mut self, _: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
    }
}

fn application() -> ApplicationFactory {
    Box::new(|_| Box::new(Draining))
}

/// Returns an application that can be observed to be dropped: `kept` is then the only owner.
fn observed() -> (ApplicationFactory, Arc<()>) {
    let kept = Arc::new(());
    let held = kept.clone();
    let application: ApplicationFactory = Box::new(move |waker| {
        let _held = held;
        application()(waker) as Box<dyn Application>
    });
    (application, kept)
}

/// Exchanges datagrams between the server and its clients until nothing more is sent.
fn settle(clients: &mut Clients, server: &mut Server, from: u64) {
    let mut sent = Vec::new();
    for turn in from..from + 12 {
        for (_, datagram) in sent.drain(..) {
            clients.receive(at(turn), datagram);
        }
        for client in 0..clients.all.len() {
            let flight = clients.send(at(turn), client);
            server.receive(at(turn), &flight);
        }
        sent = server.rest_of_turn(at(turn), false);
    }
}

/// A large ClientHello takes two datagrams; the second arrives after the decision was postponed.
#[test]
fn a_client_is_accepted_later_with_all_of_its_datagrams() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519MLKEM768);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin(at(1));
    assert_eq!(first.len(), 2);
    server.receive(at(1), &first[..1]);
    assert!(server.rest_of_turn(at(1), false).is_empty());
    server.receive(at(2), &first[1..]);
    for turn in 2..50 {
        assert!(server.rest_of_turn(at(turn), false).is_empty());
        assert!(!server.0.has_pending_clients(), "the shard would not sleep");
    }
    let counts = server.statistics();
    assert_eq!((counts.connections, counts.connections_half_open), (0, 1));
    let [undecided] = acceptor.take().try_into().unwrap();
    undecided.accept(Accept::new(application()));
    server.note_decisions();
    assert!(server.0.has_pending_clients() && server.0.next_deadline().is_none());
    settle(&mut clients, &mut server, 50);
    assert!(clients.is_connected(0) && server.has_nothing_waiting());
    let counts = server.statistics();
    assert_eq!((counts.handshakes_completed, counts.connections_half_open), (1, 0));
    assert_eq!(acceptor.clients(), [(false, false)]);
    assert_eq!(Arc::strong_count(&acceptor.0.lock().unwrap().observers), 2);
}

/// The further datagram of a client that was refused or ignored is not taken for another client.
#[test]
fn a_client_is_refused_or_ignored_later() {
    let decisions: [(fn(Undecided), usize); 3] =
        [(Undecided::refuse, 1), (drop, 1), (Undecided::ignore, 0)];
    for (decide, responses) in decisions {
        let acceptor = Postponing::default();
        let mut clients = Clients::new(X25519MLKEM768);
        let mut server = acceptor.server(&Admission::default());
        let first = clients.begin(at(1));
        server.receive(at(1), &first);
        server.rest_of_turn(at(1), false);
        decide(acceptor.take().pop().unwrap());
        let sent = server.two_turns(at(2));
        assert_eq!(sent.len(), responses);
        for (_, datagram) in sent {
            clients.receive(at(3), datagram);
        }
        let connection = clients.endpoint.connection(clients.all[0].0).unwrap();
        assert_eq!(connection.is_closed(), responses > 0);
        assert!(server.has_nothing_waiting());
        assert_eq!(acceptor.clients(), [(false, true)]);
        let counts = server.statistics();
        assert_eq!((counts.incoming_refused, counts.connections_half_open), (1, 0));
    }
}

#[test]
fn a_client_validates_its_address_before_the_decision() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin(at(1));
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), false);
    acceptor.take().pop().unwrap().retry();
    for (_, datagram) in server.two_turns(at(2)) {
        clients.receive(at(3), datagram);
    }
    assert!(server.has_nothing_waiting());
    let second = clients.send(at(3), 0);
    server.receive(at(3), &second);
    server.rest_of_turn(at(3), false);
    assert_eq!(acceptor.clients(), [(false, true), (true, true)]);
    acceptor.take().pop().unwrap().accept(Accept::new(application()));
    server.note_decisions();
    settle(&mut clients, &mut server, 4);
    assert!(clients.is_connected(0));
    let counts = server.statistics();
    assert_eq!((counts.retries_sent, counts.connections_half_open), (1, 0));
}

#[test]
fn decisions_that_come_at_once_begin_one_handshake_per_turn() {
    const CLIENTS: usize = 40;
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin_many(at(1), CLIENTS);
    server.receive(at(1), &first);
    for _ in 0..CLIENTS {
        server.rest_of_turn(at(1), false);
    }
    for undecided in acceptor.take() {
        undecided.accept(Accept::new(application()));
    }
    server.note_decisions();
    for begun in 0..CLIENTS {
        assert_eq!(server.statistics().connections, begun as u64);
        server.rest_of_turn(at(2), false);
    }
    assert_eq!(server.statistics().connections, CLIENTS as u64);
    assert!(server.has_nothing_waiting());
}

/// Clients that nobody decides on are dropped, a bounded number per turn.
#[test]
fn a_client_without_a_decision_is_dropped_after_the_handshake_timeout() {
    const CLIENTS: usize = 100;
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin_many(at(1), CLIENTS);
    server.receive(at(1), &first);
    for _ in 0..CLIENTS {
        server.rest_of_turn(at(1), false);
    }
    let expiry = at(1) + TransportConfig::default().handshake_timeout();
    assert_eq!(server.0.next_deadline(), Some(expiry));
    let before = Timestamp::from_origin(
        expiry.saturating_since(Timestamp::ORIGIN) - Duration::from_nanos(1),
    );
    server.rest_of_turn(before, false);
    assert_eq!(server.statistics().connections_half_open, CLIENTS as u64);
    server.rest_of_turn(expiry, false);
    let left = server.statistics().connections_half_open;
    assert!(0 < left && left < CLIENTS as u64, "{left}");
    assert_eq!(server.0.next_deadline(), Some(expiry));
    assert!(server.rest_of_turn(expiry, false).is_empty());
    assert!(server.has_nothing_waiting());
    let counts = server.statistics();
    assert_eq!((counts.incoming_refused, counts.connections_half_open), (CLIENTS as u64, 0));

    // Decisions that come too late have no effect, and drop the application.
    let (application, kept) = observed();
    let mut late = acceptor.take();
    late.pop().unwrap().accept(Accept::new(application));
    drop(late);
    assert!(server.two_turns(expiry).is_empty());
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(server.statistics().connections, 0);

    // A client that tries again is a new client.
    server.receive(expiry, &first[..1]);
    server.rest_of_turn(expiry, false);
    assert_eq!(acceptor.take().len(), 1);
}

#[test]
fn a_server_that_stops_accepting_refuses_undecided_clients() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin_many(at(1), 2);
    server.receive(at(1), &first);
    server.two_turns(at(1));
    let [one, other] = acceptor.take().try_into().unwrap();
    let (application, kept) = observed();
    one.accept(Accept::new(application));
    server.note_decisions();
    server.0.stop_accepting();
    let refused = server.two_turns(at(2)).len() + server.rest_of_turn(at(2), false).len();
    assert_eq!(refused, 2);
    assert_eq!((server.statistics().connections, Arc::strong_count(&kept)), (0, 1));
    let (application, kept) = observed();
    other.accept(Accept::new(application));
    assert!(server.two_turns(at(2)).is_empty() && server.has_nothing_waiting());
    assert_eq!((server.statistics().connections, Arc::strong_count(&kept)), (0, 1));
}

#[test]
fn a_decision_after_the_end_of_the_shard_drops_the_application() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin(at(1));
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), false);
    let undecided = acceptor.take().pop().unwrap();
    server.0.mailbox.close();
    drop(server);
    let (application, kept) = observed();
    undecided.accept(Accept::new(application));
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// The client closes its connection while the decision is postponed.
#[test]
fn a_client_that_has_given_up_is_accepted_and_ends() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin(at(1));
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), false);
    let connection = clients.endpoint.connection_mut(clients.all[0].0).unwrap();
    connection.close(at(2), VarInt::ZERO, b"");
    let close = clients.send(at(2), 0);
    server.receive(at(2), &close);
    assert_eq!(server.0.pending_clients.waiting.len(), 1);
    acceptor.take().pop().unwrap().accept(Accept::new(application()));
    server.note_decisions();
    assert!(server.two_turns(at(3)).is_empty());
    let deadline = server.0.next_deadline().unwrap();
    server.rest_of_turn(deadline, false);
    assert!(server.0.is_empty());
    let counts = server.statistics();
    assert_eq!((counts.connections_accepted, counts.connections_half_open), (1, 0));
    assert_eq!((counts.handshakes_failed, counts.connections), (1, 0));
}

/// An acceptor that panics after it has postponed a decision.
struct Panicking;

impl Acceptor for Panicking {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        Decision::Postpone(Box::new(|_undecided| panic!("this panic is intended")))
    }
}

#[test]
fn a_client_is_refused_if_the_acceptor_panics() {
    let mut clients = Clients::new(X25519);
    let mut server = Server::with(usize::MAX, Some(Box::new(Panicking)));
    let first = clients.begin(at(1));
    server.receive(at(1), &first);
    server.rest_of_turn(at(1), false);
    assert_eq!(server.two_turns(at(2)).len(), 1);
    assert!(server.has_nothing_waiting());
    assert_eq!(server.statistics().incoming_refused, 1);
}

/// Undecided clients count toward the limits, also if these are the smallest or largest possible.
#[test]
fn undecided_clients_are_bounded() {
    for (max_incoming, incoming_buffer, expected) in
        [(0, 0, 1), (1, usize::MAX, 1), (9, usize::MAX, 3), (usize::MAX, 0, 13)]
    {
        let acceptor = Postponing::default();
        let mut clients = Clients::new(X25519);
        let admission = Admission { max_incoming, incoming_buffer, ..Admission::default() };
        let mut server = acceptor.server(&admission);
        let first = clients.begin_many(at(1), 20);
        server.receive(at(1), &first);
        for _ in 0..40 {
            server.rest_of_turn(at(1), false);
        }
        assert_eq!(server.0.pending_clients.waiting.len(), expected);
        assert_eq!(acceptor.take().len(), expected);
        let retries = server.statistics().retries_sent;
        assert_eq!(retries, 20 - expected as u64, "additional clients get a Retry packet");
    }
}

/// Undecided and decided clients are passed on to the process that takes over.
#[test]
fn undecided_clients_go_to_the_process_that_takes_over() {
    let acceptor = Postponing::default();
    let mut clients = Clients::new(X25519);
    let mut server = acceptor.server(&Admission::default());
    let first = clients.begin_many(at(1), 3);
    server.receive(at(1), &first);
    server.two_turns(at(1));
    let [one, other] = acceptor.take().try_into().unwrap();
    let (application, kept) = observed();
    one.accept(Accept::new(application));
    server.note_decisions();
    let (ours, theirs) = Pipe::pair().unwrap();
    let passed = server.0.leave_clients_to(&Arc::new(Pipe::new(ours)));
    assert_eq!(passed, [Passed::Forwarded; 3]);
    assert_eq!(Arc::strong_count(&kept), 1);
    let theirs = Pipe::new(theirs);
    let (mut buffer, mut forwarded) = (vec![0; 1 << 16], Vec::new());
    while let Some(Piped { meta, datagram, .. }) = theirs.receive(&mut buffer) {
        forwarded.push((meta.remote, datagram.to_vec()));
    }
    forwarded.sort();
    assert_eq!(forwarded, first);
    let (application, kept) = observed();
    other.accept(Accept::new(application));
    assert!(server.two_turns(at(2)).is_empty() && server.has_nothing_waiting());
    assert_eq!((server.statistics().connections_half_open, Arc::strong_count(&kept)), (0, 1));
}
