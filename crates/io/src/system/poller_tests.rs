use std::net::UdpSocket;
use std::thread;

use clearway_transport::SocketIndex;
use clearway_udp::Socket;

use super::super::{eventfd_pair, loopback_pair};
use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Returns pollers with both kinds of wake-ups.
fn both() -> [(Poller, Waker); 2] {
    [eventfd_pair(), loopback_pair()].map(|pair| Poller::with(pair.unwrap()))
}

/// Waits for a socket. Returns its readiness, and how long the wait took.
fn wait(
    poller: &mut Poller,
    socket: &Socket,
    [receives, sends]: [bool; 2],
    timeout: Duration,
) -> (Readiness, Duration) {
    let clock = Clock::start();
    let deadline = Some(clock.now() + timeout);
    let sockets = vec![Interest { index: SocketIndex(7), socket, receives, sends }];
    let sources = Sources { pipe: None, sockets };
    let mut busy_poll = BusyPoll::default();
    let (_, ready) = poller.wait(&mut busy_poll, &clock, Duration::ZERO, deadline, sources);
    let took = clock.now().saturating_since(Timestamp::ORIGIN);
    assert!(!ready.pipe);
    assert_eq!(ready.sockets.len(), 1);
    assert_eq!(ready.sockets[0].0, SocketIndex(7));
    (ready.sockets[0].1, took)
}

#[test]
fn a_wait_ends_with_a_datagram_a_wakeup_or_its_deadline() {
    let readable = Readiness { receives: true, has_error: false };
    for (mut poller, waker) in both() {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let short = Duration::from_millis(20);
        let (readiness, took) = wait(&mut poller, &socket, [true, false], short);
        assert!(readiness == Readiness::default() && took >= short, "{readiness:?}, {took:?}");
        // The socket can send immediately.
        assert!(wait(&mut poller, &socket, [false, true], LONG).1 < LONG);
        // A wake-up before the wait ends it, but only once.
        waker.wake();
        assert!(wait(&mut poller, &socket, [true, false], LONG).1 < LONG);
        assert!(wait(&mut poller, &socket, [true, false], short).1 >= short);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(short);
                waker.wake();
            });
            assert!(wait(&mut poller, &socket, [true, false], LONG).1 < LONG);
        });
        // A datagram that nobody receives ends every wait.
        peer.send_to(b"here", socket.local_address()).unwrap();
        for _ in 0..3 {
            let (readiness, took) = wait(&mut poller, &socket, [true, true], LONG);
            assert!(readiness == readable && took < LONG, "{readiness:?}, {took:?}");
        }
        // The datagram does not end waits for another socket.
        let other = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(wait(&mut poller, &other, [true, false], short).0, Readiness::default());
    }
}
