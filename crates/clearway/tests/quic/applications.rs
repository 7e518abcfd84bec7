//! Tests of applications that run inside the shard.

use std::sync::mpsc;

use crate::support::{PROTOCOL, code, identity, loopback, run};
use clearway::rustls::crypto::aws_lc_rs::kx_group::X25519;
use clearway::transport::{Connection, Incoming, ReadOutcome};
use clearway::{
    Accept, Acceptor, Application, ApplicationFactory, ClientConfig, ConnectError, ConnectionError,
    ConnectionWaker, Decision, Direction, Endpoint, Event, ServerConfig, Statistics, StreamId,
    Timestamp, Undecided,
};

/// Sends every stream back in uppercase.
struct Shouting {
    streams: Vec<StreamId>,
    closed: mpsc::Sender<u64>,
}

impl Application for Shouting {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            if let Event::Opened(direction) = event {
                while let Some(id) = connection.accept(direction) {
                    self.streams.push(id);
                }
            }
        }
        self.streams.retain(|id| {
            loop {
                match connection.read(now, *id, usize::MAX) {
                    Ok(ReadOutcome::Data(data)) => {
                        let answer = data.to_ascii_uppercase();
                        assert_eq!(connection.write_slice(*id, &answer), Ok(answer.len()));
                    }
                    Ok(ReadOutcome::Blocked) => return true,
                    Ok(ReadOutcome::Finished) => {
                        connection.finish(*id).unwrap();
                        return false;
                    }
                    Err(_) => return false,
                }
            }
        });
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.closed.send(statistics.packets_received).unwrap();
    }
}

struct AcceptAll(mpsc::Sender<u64>);

impl Acceptor for AcceptAll {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        Decision::Accept(Accept::new(shouting(self.0.clone())))
    }
}

fn shouting(closed: mpsc::Sender<u64>) -> ApplicationFactory {
    Box::new(|_| Box::new(Shouting { streams: Vec::new(), closed }))
}

struct RefuseAll;

impl Acceptor for RefuseAll {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        Decision::Refuse
    }
}

/// A server with one shard.
fn server(acceptor: impl Acceptor + 'static) -> Endpoint {
    let identity = identity();
    let config = ServerConfig::new(vec![identity.certificate], identity.key)
        .application_protocols([PROTOCOL]);
    let mut only = Some(acceptor);
    Endpoint::server_with_applications(loopback(), config, |_| only.take().unwrap()).unwrap()
}

fn trusting() -> ClientConfig {
    ClientConfig::dangerous_without_certificate_verification().application_protocols([PROTOCOL])
}

#[test]
fn an_application_serves_inside_the_shard() {
    run(async {
        let (closed, ends) = mpsc::channel();
        let server = server(AcceptAll(closed));
        let client = Endpoint::client(loopback()).unwrap();
        let remote = server.local_address();
        let connection =
            client.connect_with(&trusting(), remote, "localhost").unwrap().await.unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"is anybody there").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"IS ANYBODY THERE");
        drop((connection, send, recv));
        server.wait_idle().await;
        assert!(ends.try_recv().unwrap() > 0);
    });
}

#[test]
fn an_acceptor_can_refuse_clients() {
    run(async {
        let server = server(RefuseAll);
        let client = Endpoint::client(loopback()).unwrap();
        let remote = server.local_address();
        for refused in 1..=100 {
            let error =
                client.connect_with(&trusting(), remote, "localhost").unwrap().await.unwrap_err();
            assert!(
                matches!(error, ConnectError::Lost(ConnectionError::ConnectionClosed { .. })),
                "{error:?}"
            );
            assert_eq!(server.statistics().connections, 0);
            assert!(server.statistics().incoming_refused >= refused);
        }
    });
}

/// Passes its clients to another thread.
struct Postponing(mpsc::Sender<Undecided>);

impl Acceptor for Postponing {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        let clients = self.0.clone();
        Decision::Postpone(Box::new(move |client| clients.send(client).unwrap()))
    }
}

#[test]
fn another_thread_can_decide_on_clients() {
    run(async {
        let (clients, undecided) = mpsc::channel::<Undecided>();
        let (closed, _ends) = mpsc::channel();
        std::thread::spawn(move || {
            for (number, client) in undecided.into_iter().enumerate() {
                match number {
                    0 => drop(client),
                    1 => client.retry(),
                    _ => client.accept(Accept::new(shouting(closed.clone()))),
                }
            }
        });
        let server = server(Postponing(clients));
        let client = Endpoint::client(loopback()).unwrap();
        // The ClientHello fits in one datagram, so that each client arrives once.
        let config = trusting().key_exchange_groups([X25519]);
        let connect = || client.connect_with(&config, server.local_address(), "localhost").unwrap();
        let error = connect().await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Lost(ConnectionError::ConnectionClosed { .. })),
            "{error:?}"
        );
        for _ in 0..3 {
            let connection = connect().await.unwrap();
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(b"hello").await.unwrap();
            send.finish().unwrap();
            assert_eq!(recv.read_to_end(100).await.unwrap(), b"HELLO");
        }
        server.wait_idle().await;
        let counts = server.statistics();
        assert_eq!((counts.incoming_refused, counts.retries_sent), (1, 1));
    });
}

/// Acts only when it is woken from outside the shard.
struct Woken {
    orders: mpsc::Receiver<Vec<u8>>,
    answers: mpsc::Sender<Vec<u8>>,
    stream: Option<StreamId>,
    answer: Vec<u8>,
}

impl Application for Woken {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        if connection.is_handshaking() || connection.is_closed() {
            return;
        }
        while let Ok(order) = self.orders.try_recv() {
            let id = connection.open(Direction::Bidirectional).unwrap();
            assert_eq!(connection.write_slice(id, &order), Ok(order.len()));
            connection.finish(id).unwrap();
            self.stream = Some(id);
        }
        let Some(id) = self.stream else { return };
        while let Ok(ReadOutcome::Data(data)) = connection.read(now, id, usize::MAX) {
            self.answer.extend_from_slice(&data);
        }
        if connection.read(now, id, 1) == Ok(ReadOutcome::Finished) || self.answer.len() == 4 {
            self.answers.send(std::mem::take(&mut self.answer)).unwrap();
            self.stream = None;
        }
    }
}

#[test]
fn an_application_can_be_woken_from_any_thread() {
    run(async {
        let (closed, _ends) = mpsc::channel();
        let server = server(AcceptAll(closed));
        let client = Endpoint::client(loopback()).unwrap();
        let (order, orders) = mpsc::channel();
        let (answers, answer) = mpsc::channel();
        let (wakers, waker) = mpsc::channel::<ConnectionWaker>();
        client
            .connect_application(
                &trusting(),
                server.local_address(),
                "localhost",
                Box::new(move |waker| {
                    wakers.send(waker).unwrap();
                    Box::new(Woken { orders, answers, stream: None, answer: Vec::new() })
                }),
                Box::new(|failure| panic!("{failure}")),
            )
            .unwrap();
        let waker = waker.recv().unwrap();
        for _ in 0..100 {
            order.send(b"ping".to_vec()).unwrap();
            waker.wake();
            assert_eq!(answer.recv().unwrap(), b"PING");
        }
        client.close(code(0), b"");
        client.wait_idle().await;
        // Does nothing, since the connection is gone.
        waker.wake();
    });
}

/// Panics when the peer opens a stream.
struct Panicking;

impl Application for Panicking {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            assert!(!matches!(event, Event::Opened(_)), "this panic is intended");
        }
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        panic!("this panic is intended, too");
    }
}

/// Serves the first client; panics while serving the second, while deciding on the third, and while
/// creating the application for all others.
struct Unreliable {
    clients: u32,
    first: AcceptAll,
}

impl Acceptor for Unreliable {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        self.clients += 1;
        match self.clients {
            1 => self.first.incoming(incoming),
            2 => Decision::Accept(Accept::new(Box::new(|_| Box::new(Panicking)))),
            3 => panic!("this panic is intended"),
            _ => Decision::Accept(Accept::new(Box::new(|_| panic!("this panic is intended")))),
        }
    }
}

#[test]
fn a_panic_in_one_application_ends_only_its_connection() {
    run(async {
        let (closed, _ends) = mpsc::channel();
        let server = server(Unreliable { clients: 0, first: AcceptAll(closed) });
        let remote = server.local_address();
        let client = Endpoint::client(loopback()).unwrap();
        // Each ClientHello fits in one datagram, so each client requires one decision.
        let config = trusting().key_exchange_groups([X25519]);
        let connecting = || client.connect_with(&config, remote, "localhost").unwrap();
        let first = connecting().await.unwrap();
        let (mut send, mut receive) = first.open_bi().await.unwrap();
        send.write_all(b"before").await.unwrap();

        let second = connecting().await.unwrap();
        second.open_uni().await.unwrap().write_all(b"x").await.unwrap();
        let ended = second.closed().await;
        assert!(matches!(ended, ConnectionError::ConnectionClosed { .. }), "{ended:?}");
        assert!(ended.to_string().contains("INTERNAL_ERROR"), "{ended}");
        // The acceptor panics for the third client, and the application factory for the fourth.
        assert!(connecting().await.is_err());
        assert!(connecting().await.is_err());

        send.write_all(b" and after").await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(100).await.unwrap(), b"BEFORE AND AFTER");
        assert_eq!(server.statistics().panics, 3);
    });
}
