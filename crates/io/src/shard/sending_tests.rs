use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clearway_transport::{
    ClientConfig, Connection, EndpointConfig, Incoming, ReadOutcome, TlsClientConfig,
    TransportConfig,
};
use clearway_udp::Socket;
use clearway_udp::faults::Faults;
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use super::super::tests::{endpoint_config, server_config, wait_until};
use super::super::{ShardSetup, Sockets, start};
use crate::acceptor::Admission;
use crate::census::Census;
use crate::mailbox::{Command, Mailbox};
use crate::{Accept, Acceptor, Application, ConnectRequest, Decision, ShardHandle};

const TIMEOUT: Duration = Duration::from_secs(20);
const CLIENTS: usize = 20;
const LENGTH: usize = 40_000;

/// Writes [`LENGTH`] bytes to a stream.
struct Uploading {
    stream: Option<StreamId>,
    written: usize,
}

impl Application for Uploading {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        if connection.is_closed() || connection.is_handshaking() {
            return;
        }
        let open = || connection.open(Direction::Unidirectional).unwrap();
        let stream = *self.stream.get_or_insert_with(open);
        while self.written < LENGTH {
            let rest = [self.written as u8; 1_000];
            match connection.write_slice(stream, &rest[..rest.len().min(LENGTH - self.written)]) {
                Ok(0) | Err(_) => return,
                Ok(written) => self.written += written,
            }
        }
        let _ = connection.finish(stream);
    }
}

/// Accepts every client, and reports how many bytes each client has sent.
struct Receiving(Sender<usize>);

impl Acceptor for Receiving {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        let done = self.0.clone();
        let application = Counting { stream: None, received: 0, done };
        Decision::Accept(Accept::new(Box::new(|_| Box::new(application))))
    }
}

struct Counting {
    stream: Option<StreamId>,
    received: usize,
    done: Sender<usize>,
}

impl Application for Counting {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        while connection.next_event().is_some() {}
        self.stream = self.stream.or_else(|| connection.accept(Direction::Unidirectional));
        let Some(stream) = self.stream else { return };
        while let Ok(outcome) = connection.read(now, stream, usize::MAX) {
            match outcome {
                ReadOutcome::Data(data) => self.received += data.len(),
                ReadOutcome::Finished => {
                    let _ = self.done.send(self.received);
                    return connection.close(now, VarInt::ZERO, b"");
                }
                _ => return,
            }
        }
    }
}

/// Starts a shard at a loopback address that no other test uses, since datagrams to reused ports
/// would be counted. The send buffer of the shard's socket is full for every `every`-th batch;
/// `first` contains the shard's first commands.
fn shard(every: Option<usize>, server: Option<Sender<usize>>, first: Vec<Command>) -> ShardHandle {
    let mut socket = Socket::bind("127.0.60.1:0".parse().unwrap()).unwrap();
    socket.inject(Faults::shortage(every));
    let mailbox = Arc::new(Mailbox::new());
    for command in first {
        assert!(mailbox.send(command).is_ok());
    }
    start(ShardSetup {
        sockets: Sockets::new(socket),
        config: EndpointConfig { max_connections: CLIENTS, ..endpoint_config() },
        server: server.is_some().then(|| Arc::new(server_config())),
        acceptor: server.map(|done| Box::new(Receiving(done)) as Box<dyn Acceptor>),
        admission: Admission::default(),
        mailbox,
        peer_shards: None,
        predecessor: None,
        memory_budget: None,
    })
    .unwrap()
}

fn connect(remote: std::net::SocketAddr) -> Command {
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let config = ClientConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    };
    let request = ConnectRequest {
        config: Arc::new(config),
        remote,
        server_name: "localhost".to_owned(),
        application: Box::new(|_| Box::new(Uploading { stream: None, written: 0 })),
        observer: None,
        on_failure: Box::new(|failure| panic!("{failure}")),
    };
    Command::Connect(Box::new(request), Arc::<Census>::default().count_one())
}

/// A call to the kernel takes longer than all other work to send a small datagram.
#[test]
fn datagrams_of_several_connections_go_in_one_call() {
    let receiver = UdpSocket::bind("127.0.60.1:0").unwrap();
    let remote = receiver.local_addr().unwrap();
    let client = shard(None, None, (0..CLIENTS).map(|_| connect(remote)).collect());
    wait_until(&client, |client| client.batches_sent >= CLIENTS as u64);
    let sent = client.statistics();
    // Each connection sends 2,400 bytes, and batches are sent once 16,384 bytes are collected, so
    // twenty connections take three calls. If the statistics are read late, they also include
    // probes.
    assert!(sent.send_calls * 4 <= sent.batches_sent, "{sent:?}");
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut ids: Vec<_> = (0..sent.datagrams_sent)
        .map(|_| {
            let mut datagram = [0; 1_500];
            assert_eq!(receiver.recv(&mut datagram).unwrap(), 1_200);
            datagram[6..14].to_vec()
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), CLIENTS);
}

/// Batches that do not fit in the socket's send buffer are sent once there is space, exactly once
/// and in order.
#[test]
fn sockets_without_room_lose_nothing() {
    for every in 2..=9 {
        let (done, received): (_, Receiver<usize>) = channel();
        let server = shard(Some(every), Some(done), Vec::new());
        let remote = server.local_address();
        let client = shard(Some(every), None, (0..CLIENTS).map(|_| connect(remote)).collect());
        for _ in 0..CLIENTS {
            assert_eq!(received.recv_timeout(TIMEOUT), Ok(LENGTH), "{every}");
        }
        wait_until(&client, |client| client.connections == 0);
        let is_all = |of: &ShardHandle, at: &ShardHandle| {
            wait_until(of, |of| of.datagrams_sent == at.statistics().datagrams_received);
        };
        is_all(&client, &server);
        is_all(&server, &client);
        for shard in [client.statistics(), server.statistics()] {
            assert!(shard.send_blocked > 0, "{every} {shard:?}");
            assert_eq!(shard.handshakes_failed, 0, "{every} {shard:?}");
        }
    }
}
