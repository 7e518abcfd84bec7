use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Instant;

use clearway_network::{Conditions, Ecn, LossRule, Probability, Rebind, Way, Window};

use super::socket::Buffers;
use super::*;

/// Timeout that is far longer than anything here takes: a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind(any_port()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn relay(to: &UdpSocket, link: LinkConfig) -> Relay {
    let to = to.local_addr().unwrap();
    Relay::start(RelayConfig { listen: any_port(), to, link }).unwrap()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 1 << 16];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    buffer.truncate(length);
    (buffer, from)
}

#[tokio::test]
async fn carries_datagrams_of_several_clients_both_ways() {
    let server = udp();
    let relay = relay(&server, LinkConfig::default());
    let clients = [udp(), udp()];
    let mut sources = BTreeSet::new();
    for (number, client) in clients.iter().enumerate() {
        let sizes = [1200, 1200, 700, 0, 1];
        for size in sizes {
            client.send_to(&vec![number as u8; size], relay.local_address()).unwrap();
        }
        for size in sizes {
            let (payload, from) = receive(&server);
            assert_eq!(payload, vec![number as u8; size]);
            sources.insert(from);
            server.send_to(&payload, from).unwrap();
        }
        for size in sizes {
            let (payload, from) = receive(client);
            assert_eq!((payload.len(), from), (size, relay.local_address()));
        }
    }
    assert_eq!(sources.len(), 2, "each client has a socket of its own");
    let status = relay.stop().await;
    assert_eq!(status.link.to_server.delivered, 10);
    assert_eq!(status.link.to_client.delivered_bytes, 2 * 3101);
    assert_eq!((status.clients, status.unsent, status.strangers), (2, 0, 0));
    assert_eq!(status.loss_window, LossWindow::None);
}

#[tokio::test]
async fn delays_each_way() {
    let server = udp();
    let delay = |milliseconds| Conditions {
        delay: Duration::from_millis(milliseconds),
        ..Conditions::default()
    };
    let link = LinkConfig { to_server: delay(30), to_client: delay(50), ..LinkConfig::default() };
    let relay = relay(&server, link);
    let client = udp();
    let start = Instant::now();
    client.send_to(b"ping", relay.local_address()).unwrap();
    let (_, from) = receive(&server);
    assert!(start.elapsed() >= Duration::from_millis(30));
    server.send_to(b"pong", from).unwrap();
    receive(&client);
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn carries_the_ecn_field() {
    let server = Socket::bind(any_port()).unwrap();
    let to = server.local_address().unwrap();
    let config = RelayConfig { listen: any_port(), to, link: LinkConfig::default() };
    let relay = Relay::start(config).unwrap();
    let client = Socket::bind(any_port()).unwrap();
    let mut buffers = Buffers::new();
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
        client.send(relay.local_address(), None, ecn, b"up").unwrap();
        let arrival = next(&server, &mut buffers);
        assert_eq!(arrival.ecn, ecn);
        server.send(arrival.remote, None, ecn, b"down").unwrap();
        assert_eq!(next(&client, &mut buffers).ecn, ecn);
    }
}

/// Waits for the next datagram.
fn next(socket: &Socket, buffers: &mut Buffers) -> socket::Arrival {
    let start = Instant::now();
    loop {
        let mut found = None;
        socket.receive(buffers, |arrival, _| found = Some(arrival)).unwrap();
        if let Some(arrival) = found {
            return arrival;
        }
        assert!(start.elapsed() < TIMEOUT, "no datagram arrived");
        let mut sockets = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        let timeout = TIMEOUT.try_into().unwrap();
        rustix::event::poll(&mut sockets, Some(&timeout)).unwrap();
    }
}

#[tokio::test]
async fn gives_a_client_a_new_address_and_drops_what_goes_to_the_old_one() {
    let server = udp();
    let rebind = Rebind { first: Duration::from_millis(40), every: None, address: true };
    let link = LinkConfig { rebind: Some(rebind), ..LinkConfig::default() };
    let relay = relay(&server, link);
    let client = udp();
    let start = Instant::now();
    client.send_to(b"first", relay.local_address()).unwrap();
    let (_, old) = receive(&server);
    let new = loop {
        client.send_to(b"again", relay.local_address()).unwrap();
        let (_, from) = receive(&server);
        if from != old {
            break from;
        }
        assert!(start.elapsed() < TIMEOUT, "the address never changed");
    };
    assert!(start.elapsed() >= Duration::from_millis(40));
    assert_ne!(new.ip(), old.ip());
    assert!(new.ip().is_loopback() && old.ip().is_loopback());
    server.send_to(b"to the old one", old).unwrap();
    server.send_to(b"to the new one", new).unwrap();
    assert_eq!(receive(&client).0, b"to the new one");
    // The two datagrams arrive at different sockets, and the relay may read the old socket last.
    while relay.status().link.to_client.received < 2 {
        assert!(start.elapsed() < TIMEOUT, "the relay does not read the old socket");
        tokio::task::yield_now().await;
    }
    assert_eq!(relay.stop().await.link.to_client.dropped_old_binding, 1);
}

#[tokio::test]
async fn ignores_datagrams_from_unknown_senders() {
    let server = udp();
    let relay = relay(&server, LinkConfig::default());
    let client = udp();
    client.send_to(b"hello", relay.local_address()).unwrap();
    let (_, from) = receive(&server);
    udp().send_to(b"stranger", from).unwrap();
    server.send_to(b"server", from).unwrap();
    assert_eq!(receive(&client).0, b"server");
    assert_eq!(relay.stop().await.strangers, 1);
}

#[tokio::test]
async fn loses_datagrams_in_its_loss_window() {
    let server = udp();
    let window = Window::AfterBytes { way: Way::ToServer, bytes: 1000, length: None };
    let to_server = Conditions {
        loss: vec![LossRule { model: LossRule::random(Probability::ALWAYS).model, window }],
        ..Conditions::default()
    };
    let relay = relay(&server, LinkConfig { to_server, ..LinkConfig::default() });
    assert_eq!(relay.status().loss_window, LossWindow::Waiting);
    let client = udp();
    for _ in 0..5 {
        client.send_to(&[0; 500], relay.local_address()).unwrap();
    }
    let start = Instant::now();
    while relay.status().link.to_server.received < 5 {
        assert!(start.elapsed() < TIMEOUT, "the relay does not read");
        tokio::task::yield_now().await;
    }
    let status = relay.stop().await;
    assert_eq!((status.link.to_server.delivered, status.link.to_server.lost_random), (2, 3));
    assert_eq!(status.loss_window, LossWindow::Open);
}

#[tokio::test]
async fn reports_why_it_cannot_start() {
    let taken = udp();
    let listen = taken.local_addr().unwrap();
    let to = "127.0.0.1:4433".parse().unwrap();
    let start =
        |listen, to, link| Relay::start(RelayConfig { listen, to, link }).unwrap_err().to_string();
    let message = start(listen, to, LinkConfig::default());
    assert!(message.contains(&listen.to_string()) && message.contains("--listen"), "{message}");
    let message = start(any_port(), "0.0.0.0:4433".parse().unwrap(), LinkConfig::default());
    assert!(message.contains("0.0.0.0:4433"), "{message}");
    let rebind = Rebind { first: Duration::ZERO, every: None, address: true };
    let link = LinkConfig { rebind: Some(rebind), ..LinkConfig::default() };
    let message = start(any_port(), "10.0.0.1:4433".parse().unwrap(), link);
    assert!(message.contains("10.0.0.1:4433"), "{message}");
}
