//! Tests of hot restart, in which one group replaces another in the same process.

use core::num::NonZeroUsize;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use clearway_transport::{EndpointConfig, ResetKey};

use super::quic_lb::{encrypted, longer};
use super::{
    Client, Entrance, Everyone, GroupOptions, GroupServerSetup, Relay, ShardGroup, ShardHandle,
    TIMEOUT, address, client, download, endpoint_config, loopback, server_config, short_header,
    spawn_steered, total, wait_until,
};
use crate::acceptor::Admission;
use crate::shard_ids::{FIRST_OCTET, MAX_SHARDS_WITH_HOT_RESTART};
use crate::system::steering::Steering;
use crate::{Acceptor, HotRestart, HotRestartError, QuicLb};

/// The path of a unix socket, which is removed at the end of the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clearway-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A replaceable group, and a channel that reports its replacement.
struct Process {
    group: ShardGroup,
    replaced: Receiver<()>,
}

fn try_start(
    place: &Place,
    address: SocketAddr,
    count: usize,
    steering: Steering,
) -> io::Result<Process> {
    try_start_with(place, address, count, steering, None)
}

fn try_start_with(
    place: &Place,
    address: SocketAddr,
    count: usize,
    steering: Steering,
    quic_lb: Option<QuicLb>,
) -> io::Result<Process> {
    let begun = Instant::now();
    let mut hot_restart = loop {
        match HotRestart::at(&place.0) {
            Err(HotRestartError::Draining) => {
                assert!(begun.elapsed() < TIMEOUT, "the previous process does not end");
                std::thread::yield_now();
            }
            found => break found?,
        }
    };
    let (replace, replaced) = channel();
    hot_restart.on_replaced(move || {
        // Not every test waits for the replacement.
        let _ = replace.send(());
    });
    let config =
        EndpointConfig { reset_key: ResetKey::new(&hot_restart.reset_key()), ..endpoint_config() };
    let server = Arc::new(server_config());
    let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
    let setup = GroupServerSetup { config: server, acceptor, admission: Admission::default() };
    let options = GroupOptions { hot_restart: Some(hot_restart), quic_lb, ..Default::default() };
    let count = NonZeroUsize::new(count).unwrap();
    let group = spawn_steered(address, count, config, Some(setup), options, steering)?;
    Ok(Process { group, replaced })
}

fn start(place: &Place, count: usize, steering: Steering) -> Process {
    try_start(place, loopback(), count, steering).unwrap()
}

fn start_with(place: &Place, count: usize, steering: Steering, quic_lb: Option<QuicLb>) -> Process {
    try_start_with(place, loopback(), count, steering, quic_lb).unwrap()
}

/// Returns the reason why a process could not replace another one.
fn cause(error: &io::Error) -> &HotRestartError {
    error.get_ref().and_then(|cause| cause.downcast_ref()).unwrap_or_else(|| panic!("{error}"))
}

/// Clients download, each from several ports, before, during and after a hot restart.
fn connections_go_on(count: usize, steering: Steering, quic_lb: Option<QuicLb>) {
    const CLIENTS: usize = 24;
    let with = if quic_lb.is_some() { "with" } else { "without" };
    let place = Place::new(&format!("goes-on-{count}-{steering:?}-{with}"));
    let old = start_with(&place, count, steering, quic_lb.clone());
    let address = address(&old.group);
    let (_relay, entrances) = Relay::start(address, 2 * CLIENTS);
    let (leaving, staying) = (client(), client());
    let begin = |shard: &ShardHandle, entrances: &[Entrance]| -> Vec<Client> {
        entrances.iter().map(|entrance| download(shard, entrance, &[2, 1], false)).collect()
    };
    let (first, second) = entrances.split_at(CLIENTS);
    let first = begin(&leaving, first);
    assert!(first.iter().all(|client| client.next() == Ok(1) && client.next() == Ok(2)));
    let before = total(&old.group);
    assert_eq!(before.connections, CLIENTS as u64);
    // Some downloads are in progress while this process takes over.
    let wakers: Vec<_> = first.iter().map(|client| client.waker.recv().unwrap()).collect();
    let ask = |number| first.iter().zip(&wakers).for_each(|(it, waker)| it.ask(waker, number));
    ask(3);
    let new = start_with(&place, count, steering, quic_lb.clone());
    assert_eq!(old.replaced.recv_timeout(TIMEOUT), Ok(()));
    assert!(first.iter().all(|client| client.next() == Ok(3)));
    for number in 4..8 {
        ask(number);
        assert!(first.iter().all(|client| client.next() == Ok(number)));
    }
    // New downloads come to the new process.
    let second = begin(&staying, second);
    assert!(second.iter().all(|client| client.next() == Ok(1) && client.next() == Ok(2)));
    let (then, now) = (total(&old.group), total(&new.group));
    assert_eq!(then.connections, CLIENTS as u64);
    assert_eq!(now.connections, CLIENTS as u64);
    assert!(now.forwarded > 0 && now.forward_dropped == 0, "{now:?}");
    assert_eq!(new.group.steering(), (count > 1).then_some(steering));
    wait_until(&old.group, |then| then.forwarded_in == total(&new.group).forwarded);
    if steering > Steering::Hash {
        assert_eq!((now.handed_over, then.handed_over), (0, 0));
    }
    // A third process waits until the first has ended.
    let early = HotRestart::at(&place.0).unwrap_err();
    assert!(matches!(early, HotRestartError::Draining), "{early}");
    drop(old);
    leaving.shutdown(0_u32.into(), b"");
    let third = start_with(&place, count, steering, quic_lb.clone());
    assert_eq!(new.replaced.recv_timeout(TIMEOUT), Ok(()));
    let wakers: Vec<_> = second.iter().map(|client| client.waker.recv().unwrap()).collect();
    for number in 3..5 {
        second.iter().zip(&wakers).for_each(|(client, waker)| client.ask(waker, number));
        assert!(second.iter().all(|client| client.next() == Ok(number)));
    }
    assert!(total(&third.group).forwarded > 0);
    assert_eq!(total(&new.group).connections, CLIENTS as u64);
}

#[test]
fn connections_go_on_in_the_process_that_was_replaced() {
    connections_go_on(3, Steering::Hash, None);
    connections_go_on(3, Steering::ClassicBpf, None);
    connections_go_on(1, Steering::Hash, None);
}

#[test]
fn connections_with_ids_of_quic_lb_go_on() {
    connections_go_on(3, Steering::Hash, Some(encrypted(1)));
    connections_go_on(3, Steering::ClassicBpf, Some(encrypted(1)));
    connections_go_on(1, Steering::Hash, Some(encrypted(1)));
}

/// Each process must be able to read the other's IDs.
#[test]
fn ids_of_another_form_are_refused() {
    let place = Place::new("other-ids");
    let old = start_with(&place, 2, Steering::Hash, Some(encrypted(1)));
    let asked = |quic_lb| {
        let error = try_start_with(&place, loopback(), 2, Steering::Hash, quic_lb).err().unwrap();
        match cause(&error) {
            HotRestartError::ConnectionIds { running, asked } => (*running, *asked),
            other => panic!("{other}"),
        }
    };
    let length = encrypted(1).id_len();
    assert_eq!(asked(None), (Some(length), None));
    assert_eq!(asked(Some(longer(1))), (Some(length), Some(length + 1)));
    assert!(old.replaced.try_recv().is_err());
    start_with(&place, 2, Steering::Hash, Some(encrypted(2)));
    assert_eq!(old.replaced.recv_timeout(TIMEOUT), Ok(()));
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Sends packets with a connection ID of each shard in both generations. The old process responds
/// to its own IDs; the new process responds to them once the old one has ended.
#[test]
fn the_packets_of_lost_connections_are_answered_with_stateless_resets() {
    let place = Place::new("resets");
    let old = start(&place, 3, Steering::Hash);
    let new = start(&place, 3, Steering::Hash);
    let (socket, address) = (socket(), address(&new.group));
    let reset_of_each = || {
        (0..6).map(|slot| {
            socket.send_to(&short_header(slot), address).unwrap();
            let mut reset = [0; 100];
            let length = socket.recv(&mut reset).unwrap();
            assert!(length < 60);
            reset[length - 16..length].to_vec()
        })
    };
    let by_both: Vec<_> = reset_of_each().collect();
    let now = total(&new.group);
    assert_eq!((now.forwarded, total(&old.group).forwarded_in), (3, 3));
    drop(old);
    drop(start_after(&place, &new));
    let by_one: Vec<_> = reset_of_each().collect();
    assert!(by_both == by_one, "the tokens depend on the process");
    assert_eq!(total(&new.group).forwarded, 3, "the old process has ended");
}

/// Waits until the predecessor of `new` has ended, since only then can another process replace
/// `new`. The returned handle could replace it, but the caller does not start a group with it.
fn start_after(place: &Place, new: &Process) -> HotRestart {
    let begun = Instant::now();
    loop {
        match HotRestart::at(&place.0) {
            Ok(next) => {
                assert!(next.replaces() && next.local_address() == Some(address(&new.group)));
                assert_eq!(next.shards(), Some(new.group.shards().len()));
                return next;
            }
            Err(HotRestartError::Draining) => {
                assert!(begun.elapsed() < TIMEOUT);
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A client chooses its first connection ID, which may look like one of the old process.
#[test]
fn the_old_process_gives_back_what_begins_a_connection() {
    let place = Place::new("gives-back");
    let old = start(&place, 3, Steering::Hash);
    let new = start(&place, 3, Steering::Hash);
    let socket = socket();
    for second in 0..6 {
        // The version is unknown, so that the response is Version Negotiation.
        let mut first = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, FIRST_OCTET, second];
        first.resize(14, 7);
        first.extend([0; 1200]);
        socket.send_to(&first, address(&new.group)).unwrap();
        let mut answer = [0; 100];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(answer[1..5], [0; 4]);
        assert!(length > 14);
    }
    let (then, now) = (total(&old.group), total(&new.group));
    assert_eq!((now.forwarded, now.forwarded_in), (3, 3));
    assert_eq!((then.forwarded, then.forwarded_in), (3, 3));
    assert_eq!(then.datagrams_sent, 0);
}

/// A new process that never becomes ready, for any reason, does not affect the old one.
#[test]
fn the_old_process_goes_on_if_the_new_one_fails() {
    let place = Place::new("fails");
    let old = start(&place, 3, Steering::Hash);
    let running = address(&old.group);
    let (_relay, entrances) = Relay::start(running, 1);
    let shard = client();
    let connection = download(&shard, &entrances[0], &[1], false);
    assert_eq!(connection.next(), Ok(1));
    let waker = connection.waker.recv().unwrap();
    let mut number = 1;
    let mut still_serves = |group: &ShardGroup| {
        number += 1;
        connection.ask(&waker, number);
        assert_eq!(connection.next(), Ok(number));
        assert_eq!(total(group).connections, 1);
    };
    drop(HotRestart::at(&place.0).unwrap());
    still_serves(&old.group);
    let error = try_start(&place, loopback(), 2, Steering::Hash).err().unwrap();
    let named = cause(&error);
    assert!(matches!(named, HotRestartError::ShardCount { running: 3, asked: 2 }), "{named}");
    still_serves(&old.group);
    for other in ["127.0.0.2:0", "127.0.0.1:1"] {
        let error = try_start(&place, other.parse().unwrap(), 3, Steering::Hash).err().unwrap();
        assert!(matches!(cause(&error), HotRestartError::Addresses { .. }), "{error}");
        still_serves(&old.group);
    }
    let error = try_start(&place, loopback(), MAX_SHARDS_WITH_HOT_RESTART + 1, Steering::Hash);
    let error = error.err().unwrap();
    assert!(matches!(cause(&error), HotRestartError::TooManyShards { limit: 128 }), "{error}");
    still_serves(&old.group);
    assert!(old.replaced.try_recv().is_err());
    // A process that becomes ready can still replace the old one.
    let new = try_start(&place, running, 3, Steering::Hash).unwrap();
    still_serves(&old.group);
    assert_eq!(total(&new.group).connections, 0);
}

/// If the new process ends before the old one, the old one receives from its sockets again.
#[test]
fn the_old_process_outlives_the_new_one() {
    let place = Place::new("outlives");
    let old = start(&place, 3, Steering::Hash);
    let (_relay, entrances) = Relay::start(address(&old.group), 30);
    let shard = client();
    let begin = |entrance| download(&shard, entrance, &[1], false);
    let clients: Vec<_> = entrances.iter().map(begin).collect();
    assert!(clients.iter().all(|client| client.next() == Ok(1)));
    let new = start(&place, 3, Steering::Hash);
    drop(new);
    let wakers: Vec<_> = clients.iter().map(|client| client.waker.recv().unwrap()).collect();
    for number in 2..5 {
        clients.iter().zip(&wakers).for_each(|(client, waker)| client.ask(waker, number));
        assert!(clients.iter().all(|client| client.next() == Ok(number)));
    }
    assert!(!place.0.exists(), "it was the new one's");
}

/// Processes and shards exchange datagrams through pipes and queues that no outsider can access. A
/// datagram that imitates a message in such a pipe is treated as an ordinary datagram from its
/// source address.
#[test]
fn a_hand_over_cannot_be_forged() {
    use clearway_transport::{EcnCodepoint, SocketIndex};
    use rustix::net::{RecvFlags, recv};

    use crate::datagrams::Meta;
    use crate::system::restart::Pipe;
    use crate::via::Via;

    let place = Place::new("forged");
    let old = start(&place, 2, Steering::Hash);
    let address = address(&old.group);
    let new = try_start(&place, address, 2, Steering::Hash).unwrap();
    old.replaced.recv_timeout(TIMEOUT).unwrap();
    let (attacker, victim) = (socket(), socket());
    let victim_address = victim.local_addr().unwrap();
    // The message with which a process would forward the victim's datagram to the other process.
    let message = |datagram: &[u8], socket| {
        let (ours, theirs) = Pipe::pair().unwrap();
        let via = Via { balancer: victim_address, local_ip: Some(address.ip()) };
        let (ecn, via) = (EcnCodepoint::NotEct, Some(via));
        let meta = Meta { remote: victim_address, local_ip: Some(address.ip()), ecn, via };
        Pipe::new(ours).send(SocketIndex(socket), &meta, datagram);
        let mut bytes = vec![0; 2000];
        let (length, _) = recv(&theirs, &mut bytes[..], RecvFlags::empty()).unwrap();
        bytes.truncate(length);
        bytes
    };
    let mut sent = 0;
    for socket in [0, 1, u32::MAX] {
        // The response to an unknown version would be Version Negotiation, and the response to a
        // short header would be a stateless reset.
        let unknown = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &[7; 8], &[0], &[0; 1300]].concat();
        for datagram in [&unknown[..], &[0x40; 60]] {
            let forged = message(datagram, socket);
            attacker.send_to(&forged, address).unwrap();
            sent += 1;
        }
    }
    wait_until(&new.group, |now| now.datagrams_received >= sent);
    let (new, old) = (total(&new.group), total(&old.group));
    assert_eq!((new.forwarded_in, new.forwarded, new.handed_in, new.connections), (0, 0, 0, 0));
    assert_eq!((old.forwarded_in, old.handed_in, old.connections), (0, 0, 0));
    victim.set_nonblocking(true).unwrap();
    assert!(victim.recv(&mut [0; 10]).is_err(), "the victim got a response");
}

/// A stale socket of a process that has ended does not prevent the next process from starting.
#[test]
fn the_socket_is_for_this_user_and_a_stale_one_is_replaced() {
    let place = Place::new("stale");
    // A stale socket, on which no process listens any more.
    drop(UnixListener::bind(&place.0).unwrap());
    assert!(place.0.exists());
    let process = start(&place, 2, Steering::Hash);
    let mode = fs::metadata(&place.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(process);
    assert!(!place.0.exists());
    // Other files are not removed.
    fs::write(&place.0, b"precious").unwrap();
    let error = try_start(&place, loopback(), 1, Steering::Hash).err().unwrap();
    assert!(matches!(cause(&error), HotRestartError::Path { .. }), "{error}");
    assert_eq!(fs::read(&place.0).unwrap(), b"precious");
    let missing = HotRestart::at("/nonexistent/socket").unwrap();
    assert!(!missing.replaces() && missing.local_address().is_none());
    let gone = Place(PathBuf::from("/nonexistent/socket"));
    let error = try_start(&gone, loopback(), 1, Steering::Hash).err().unwrap();
    assert!(matches!(cause(&error), HotRestartError::Path { .. }), "{error}");
}

#[test]
fn sockets_that_somebody_else_bound_are_used() {
    let given = UdpSocket::bind(loopback()).unwrap();
    let at = given.local_addr().unwrap();
    let options = GroupOptions { sockets: vec![given.try_clone().unwrap()], ..Default::default() };
    let count = NonZeroUsize::MIN;
    let best = Steering::BEST;
    let any = loopback();
    let config = Arc::new(server_config());
    let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
    let setup = GroupServerSetup { config, acceptor, admission: Admission::default() };
    let group = spawn_steered(any, count, endpoint_config(), Some(setup), options, best).unwrap();
    assert_eq!(address(&group), at);
    let (_relay, entrances) = Relay::start(at, 1);
    let client = download(&client(), &entrances[0], &[1], true);
    assert_eq!(client.next(), Ok(1));
    let other = UdpSocket::bind(loopback()).unwrap();
    for (sockets, count) in [(vec![&given], 2), (vec![&given, &other], 2)] {
        let sockets = sockets.into_iter().map(|it| it.try_clone().unwrap()).collect();
        let options = GroupOptions { sockets, ..Default::default() };
        let count = NonZeroUsize::new(count).unwrap();
        let error = spawn_steered(any, count, endpoint_config(), None, options, best).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
}
