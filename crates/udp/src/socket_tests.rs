use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::faults::{Call, Fault, Faults, Plan};
use super::{Batch, EcnCodepoint, MAX_TOGETHER, Meta, ReceiveBuffer, SendOutcome, Socket};

fn bind() -> Socket {
    Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn wait(socket: &Socket, interest: PollFlags) -> PollFlags {
    let mut descriptors = [PollFd::new(socket, interest)];
    let timeout = Timespec { tv_sec: 5, tv_nsec: 0 };
    poll(&mut descriptors, Some(&timeout)).unwrap();
    descriptors[0].revents()
}

/// Contents of test datagrams: all bytes are 7.
static CONTENTS: [u8; 65_536] = [7; 65_536];

fn batch(to: SocketAddr, size: usize, segment_size: Option<usize>) -> Batch<'static> {
    let (source_ip, ecn, contents) = (None, EcnCodepoint::NotEct, &CONTENTS[..size]);
    Batch { destination: to, source_ip, ecn, contents, segment_size }
}

#[test]
fn a_batch_arrives_as_the_datagrams_that_it_was() {
    let (mut sender, mut receiver) = (bind(), bind());
    let contents: Vec<u8> = (0..10_500_u32).map(|at| (at / 1000) as u8).collect();
    let mut progress = 0;
    let batch = Batch { contents: &contents, ..batch(receiver.local_address(), 0, Some(1000)) };
    assert!(matches!(sender.send(&batch, &mut progress), SendOutcome::Sent));
    assert_eq!(progress, contents.len());
    let mut datagrams = Vec::new();
    while datagrams.len() < 11 {
        assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
        let count = receiver
            .receive(&mut ReceiveBuffer::new(), |meta, datagram| {
                assert_eq!(meta.remote, sender.local_address());
                datagrams.push(datagram.to_vec());
            })
            .unwrap();
        assert!(count > 0);
    }
    datagrams.sort();
    let sizes: Vec<usize> = datagrams.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 500]);
    for (number, datagram) in datagrams.iter().enumerate() {
        assert!(datagram.iter().all(|byte| usize::from(*byte) == number), "datagram {number}");
    }
}

#[test]
fn a_batch_goes_on_where_it_stopped() {
    let (mut sender, mut receiver) = (bind(), bind());
    let contents = [1, 1, 1, 1, 2, 2, 2, 2, 3];
    let batch = Batch { contents: &contents, ..batch(receiver.local_address(), 0, Some(4)) };
    assert!(matches!(sender.send(&batch, &mut 4), SendOutcome::Sent));
    let mut bytes = Vec::new();
    while bytes.len() < 5 {
        assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN));
        receiver
            .receive(&mut ReceiveBuffer::new(), |_, datagram| bytes.extend_from_slice(datagram))
            .unwrap();
    }
    assert_eq!(bytes, [2, 2, 2, 2, 3]);
}

#[test]
fn nothing_to_receive_is_no_error() {
    let mut socket = bind();
    assert_eq!(socket.receive(&mut ReceiveBuffer::new(), |_, _| ()).unwrap(), 0);
    assert!(!socket.may_have_more());
}

#[test]
fn an_unreachable_port_is_reported() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut socket, living) = (bind(), bind());
    let mut unreachable = Vec::new();
    let began = Instant::now();
    // The kernel may rate-limit these reports.
    while unreachable.is_empty() && began.elapsed() < Duration::from_secs(5) {
        socket.send(&batch(living.local_address(), 1, None), &mut 0);
        socket.send(&batch(free, 1, None), &mut 0);
        wait(&socket, PollFlags::IN);
        socket.receive(&mut ReceiveBuffer::new(), |_, _| ()).unwrap();
        socket.unreachable(|destination| unreachable.push(destination));
    }
    assert!(unreachable.iter().all(|destination| *destination == free), "{unreachable:?}");
    assert!(!unreachable.is_empty());
    assert!(!socket.has_errors());
    // The socket still works.
    let outcome = socket.send(&batch(living.local_address(), 1, None), &mut 0);
    assert!(matches!(outcome, SendOutcome::Sent));
}

/// Sends to an unreachable port until poll(2) reports an error. Returns the port.
fn send_until_error(socket: &mut Socket) -> SocketAddr {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = Instant::now();
    // The kernel may rate-limit these reports.
    while began.elapsed() < Duration::from_secs(5) {
        socket.send(&batch(free, 1, None), &mut 0);
        if wait(socket, PollFlags::IN).contains(PollFlags::ERR) {
            return free;
        }
    }
    panic!("the kernel does not report an unreachable port");
}

#[test]
fn a_report_is_noticed_by_the_next_send_call() {
    let (mut socket, living) = (bind(), bind());
    let free = send_until_error(&mut socket);
    let outcome = socket.send(&batch(living.local_address(), 1, None), &mut 0);
    assert!(matches!(outcome, SendOutcome::Sent));
    assert!(socket.has_errors());
    let mut unreachable = Vec::new();
    socket.unreachable(|destination| unreachable.push(destination));
    assert_eq!(unreachable.first(), Some(&free));
}

/// A send or receive call returns each error once, but the report remains in the error queue.
#[test]
fn a_report_is_found_if_something_else_has_taken_its_error() {
    let mut socket = bind();
    let free = send_until_error(&mut socket);
    assert!(socket2::SockRef::from(&socket).take_error().unwrap().is_some());
    assert_eq!(socket.receive(&mut ReceiveBuffer::new(), |_, _| ()).unwrap(), 0);
    let mut unreachable = Vec::new();
    socket.unreachable(|destination| unreachable.push(destination));
    assert_eq!(unreachable, []);
    assert!(wait(&socket, PollFlags::IN).contains(PollFlags::ERR));
    socket.note_errors();
    socket.unreachable(|destination| unreachable.push(destination));
    assert_eq!(unreachable, [free]);
}

#[test]
fn destinations_are_named_as_the_socket_needs_them() {
    let socket = bind();
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let reachable = [
        ("192.0.2.1:443", Some("192.0.2.1:443")),
        ("[::ffff:192.0.2.1]:443", Some("192.0.2.1:443")),
        ("[2001:db8::1]:443", None),
        ("192.0.2.1:0", None),
        ("0.0.0.0:443", None),
    ];
    for (remote, expected) in reachable {
        assert_eq!(socket.destination(address(remote)), expected.map(address), "{remote}");
    }
    if let Ok(socket) = Socket::bind(address("[::]:0")) {
        let expected = Some(address("[::ffff:192.0.2.1]:443"));
        assert_eq!(socket.destination(address("192.0.2.1:443")), expected);
    }
    if let Ok(socket) = Socket::bind(address("[::1]:0")) {
        assert_eq!(socket.destination(address("192.0.2.1:443")), None);
    }
}

#[test]
fn an_address_can_be_bound_once() {
    let socket = bind();
    let error = Socket::bind(socket.local_address()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

/// The interface's MTU is the limit: larger datagrams are not fragmented, and are not a socket
/// error.
#[test]
fn what_is_larger_than_the_interface_permits_is_refused() {
    for (address, largest) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_488)] {
        let Ok(mut sender) = Socket::bind(address.parse().unwrap()) else { continue };
        let mut receiver = Socket::bind(address.parse().unwrap()).unwrap();
        let to = receiver.local_address();
        let send = |sender: &mut Socket, size| sender.send(&batch(to, size, None), &mut 0);
        assert!(matches!(send(&mut sender, 65_527), SendOutcome::TooLarge), "{address}");
        assert!(matches!(send(&mut sender, largest), SendOutcome::Sent), "{address}");
        let mut received = 0;
        while received == 0 {
            assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "nothing arrived");
            receiver
                .receive(&mut ReceiveBuffer::new(), |_, datagram| received = datagram.len())
                .unwrap();
        }
        assert_eq!(received, largest, "{address}");
    }
}

/// Every datagram of a batch is sent with the batch's ECN field, and the receiver reads that field
/// (RFC 9000 §13.4).
#[test]
fn the_ecn_field_is_sent_and_received() {
    let both = [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")];
    // A dual-stack socket also sends to and receives from IPv4 addresses.
    let mixed = [("[::]:0", "127.0.0.1:0"), ("127.0.0.1:0", "[::]:0"), ("[::1]:0", "[::]:0")];
    for (address, other) in both.into_iter().chain(mixed) {
        let Ok(mut sender) = Socket::bind(address.parse().unwrap()) else { continue };
        let Ok(mut receiver) = Socket::bind(other.parse().unwrap()) else { continue };
        let mut to = receiver.local_address();
        if to.ip().is_unspecified() {
            to.set_ip(sender.local_address().ip());
        }
        let to = sender.destination(to).unwrap();
        for ecn in [EcnCodepoint::Ect0, EcnCodepoint::Ce, EcnCodepoint::NotEct, EcnCodepoint::Ect1]
        {
            let batch = Batch { ecn, ..batch(to, 3000, Some(1000)) };
            let outcome = sender.send(&batch, &mut 0);
            assert!(matches!(outcome, SendOutcome::Sent), "{address} {ecn:?}");
            let (mut buffer, mut received) = (ReceiveBuffer::new(), Vec::new());
            while received.len() < 3 {
                assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
                receiver.receive(&mut buffer, |meta, _| received.push(meta.ecn)).unwrap();
            }
            assert_eq!(received, [ecn; 3], "{address} {other}");
        }
    }
}

/// Each of the batches in one call keeps its own destination, source, ECN field and segment size.
#[test]
fn batches_that_are_sent_together_are_each_as_described() {
    for (address, other) in [
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        ("[::]:0", "127.0.0.1:0"),
        ("[::]:0", "[::1]:0"),
    ] {
        let Ok(mut sender) = Socket::bind(address.parse().unwrap()) else { continue };
        let mut receivers = [other; 3].map(|other| Socket::bind(other.parse().unwrap()).unwrap());
        let to = receivers.each_ref().map(|receiver| {
            sender.destination(receiver.local_address()).expect("it can send there")
        });
        // A dual-stack socket uses IPv4-mapped IPv6 addresses.
        let local = to[0].ip();
        let elsewhere = match (local, local.to_canonical()) {
            (IpAddr::V4(_), _) => Ipv4Addr::new(127, 0, 0, 9).into(),
            (_, IpAddr::V4(_)) => Ipv4Addr::new(127, 0, 0, 9).to_ipv6_mapped().into(),
            _ => local,
        };
        let source = |source_ip: IpAddr, batch| Batch { source_ip: Some(source_ip), ..batch };
        let marked = |ecn, batch| Batch { ecn, ..batch };
        let (ect0, ect1) = (EcnCodepoint::Ect0, EcnCodepoint::Ect1);
        let batches = [
            marked(ect0, batch(to[0], 2_500, Some(1_000))),
            marked(ect1, source(elsewhere, batch(to[1], 700, None))),
            source(local, batch(to[2], 900, Some(900))),
            source(elsewhere, marked(ect0, batch(to[0], 300, Some(150)))),
        ];
        let numbered = batches.iter().zip(1..);
        let contents: Vec<Vec<u8>> =
            numbered.map(|(batch, number)| vec![number; batch.contents.len()]).collect();
        let sent =
            batches.iter().zip(&contents).map(|(batch, contents)| Batch { contents, ..*batch });
        assert_eq!(sender.send_together(sent), batches.len(), "{address}");
        let [local, elsewhere] = [local, elsewhere].map(|ip| ip.to_canonical());
        let expected: [&[_]; 3] = [
            &[
                (1, 1_000, ect0, local),
                (1, 1_000, ect0, local),
                (1, 500, ect0, local),
                (4, 150, ect0, elsewhere),
                (4, 150, ect0, elsewhere),
            ],
            &[(2, 700, ect1, elsewhere)],
            &[(3, 900, EcnCodepoint::NotEct, local)],
        ];
        for (receiver, expected) in receivers.iter_mut().zip(expected) {
            let mut received = Vec::new();
            while received.len() < expected.len() {
                assert!(wait(receiver, PollFlags::IN).contains(PollFlags::IN), "{address}");
                let note = |meta: Meta, datagram: &mut [u8]| {
                    received.push((datagram[0], datagram.len(), meta.ecn, meta.remote.ip()));
                };
                receiver.receive(&mut ReceiveBuffer::new(), note).unwrap();
            }
            assert_eq!(received, expected, "{address} {other}");
        }
    }
}

/// The first batch that the kernel rejects ends the call; sending it alone shows why.
#[test]
fn batches_before_one_that_is_refused_are_sent() {
    let (mut sender, mut receiver) = (bind(), bind());
    let to = receiver.local_address();
    let batches = [10, 20, 65_527, 30].map(|size| batch(to, size, None));
    let from = |first: usize| batches[first..].iter().copied();
    assert_eq!(sender.send_together(from(0)), 2);
    assert_eq!(sender.send_together(from(2)), 0);
    assert!(matches!(sender.send(&batches[2], &mut 0), SendOutcome::TooLarge));
    assert_eq!(sender.send_together(from(3)), 1);
    let many = core::iter::repeat_n(batches[0], MAX_TOGETHER + 1);
    assert_eq!(sender.send_together(many), MAX_TOGETHER);
    assert_eq!(sender.send_together(core::iter::empty()), 0);
    let mut lengths = Vec::new();
    while lengths.len() < 3 + MAX_TOGETHER {
        assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
        let mut note = |_, datagram: &mut [u8]| lengths.push(datagram.len());
        receiver.receive(&mut ReceiveBuffer::new(), &mut note).unwrap();
    }
    assert_eq!(lengths[..3], [10, 20, 30]);
}

/// Anyone can send from port 0, and a server's local addresses may disappear.
#[test]
fn an_address_that_cannot_be_used_costs_neither_segmentation_nor_ecn() {
    let (mut sender, mut receiver) = (bind(), bind());
    let segments = sender.max_gso_segments();
    let to = receiver.local_address();
    let alone = batch(to, 1000, None);
    let batch = Batch { ecn: EcnCodepoint::Ect0, ..batch(to, 3000, Some(1000)) };
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let from_elsewhere = Some([192, 0, 2, 1].into());
    for wrong in [
        Batch { destination: nowhere, ..batch },
        Batch { source_ip: from_elsewhere, ..batch },
        Batch { destination: nowhere, ..alone },
        Batch { source_ip: from_elsewhere, ..alone },
    ] {
        let outcome = sender.send(&wrong, &mut 0);
        assert!(matches!(outcome, SendOutcome::Failed(_)), "{wrong:?} {outcome:?}");
        assert_eq!(sender.max_gso_segments(), segments);
    }
    assert!(matches!(sender.send(&batch, &mut 0), SendOutcome::Sent));
    let (mut buffer, mut received) = (ReceiveBuffer::new(), Vec::new());
    while received.len() < 3 {
        assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
        receiver.receive(&mut buffer, |meta, _| received.push(meta.ecn)).unwrap();
    }
    assert_eq!(received, [EcnCodepoint::Ect0; 3]);
}

/// Receives `count` datagrams. Returns their ECN fields.
fn receive(receiver: &mut Socket, count: usize) -> Vec<EcnCodepoint> {
    let (mut buffer, mut received) = (ReceiveBuffer::new(), Vec::new());
    while received.len() < count {
        assert!(wait(receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
        receiver.receive(&mut buffer, |meta, _| received.push(meta.ecn)).unwrap();
    }
    received
}

/// EIO and EINVAL may come from a driver without segmentation offload. The datagrams of such a
/// batch, and all later datagrams, are sent one by one, with their ECN fields. If a single datagram
/// is rejected too, segmentation was not the cause.
#[test]
fn a_batch_that_cannot_be_segmented_is_sent_one_by_one() {
    for errno in [Errno::IO, Errno::INVAL] {
        for (lasts, is_sent) in [(Duration::ZERO, true), (Duration::MAX, false)] {
            let (mut sender, mut receiver) = (bind(), bind());
            let segments = sender.max_gso_segments();
            let fault = Fault::Error(errno);
            let plan = Plan { call: Call::Send, number: 0, fault, lasts };
            sender.inject(Faults::planned(Some(plan)));
            let to = receiver.local_address();
            let batch = Batch { ecn: EcnCodepoint::Ect0, ..batch(to, 2500, Some(1000)) };
            let mut progress = 0;
            let outcome = sender.send(&batch, &mut progress);
            if is_sent {
                assert!(matches!(outcome, SendOutcome::Sent), "{errno:?} {outcome:?}");
                assert_eq!((progress, sender.max_gso_segments()), (2500, 1));
                assert!(matches!(sender.send(&batch, &mut 0), SendOutcome::Sent));
                assert_eq!(receive(&mut receiver, 6), [EcnCodepoint::Ect0; 6]);
            } else {
                assert!(matches!(outcome, SendOutcome::Failed(_)), "{errno:?} {outcome:?}");
                assert_eq!((progress, sender.max_gso_segments()), (0, segments));
            }
        }
    }
}

/// A partially sent batch resumes when the kernel accepts batches again.
#[test]
fn a_batch_that_is_refused_in_the_middle_goes_on_there() {
    for (errno, is_failure) in [(Errno::AGAIN, false), (Errno::NOBUFS, true)] {
        let (mut sender, mut receiver) = (bind(), bind());
        sender.cannot_segment = true;
        let (fault, lasts) = (Fault::Error(errno), Duration::ZERO);
        let plan = Plan { call: Call::Send, number: 1, fault, lasts };
        sender.inject(Faults::planned(Some(plan)));
        let batch = batch(receiver.local_address(), 2500, Some(1000));
        let mut progress = 0;
        let outcome = sender.send(&batch, &mut progress);
        assert_eq!(matches!(outcome, SendOutcome::Failed(_)), is_failure, "{outcome:?}");
        assert_eq!(matches!(outcome, SendOutcome::WouldBlock), !is_failure, "{outcome:?}");
        assert_eq!(progress, 1000);
        assert!(matches!(sender.send(&batch, &mut progress), SendOutcome::Sent));
        assert_eq!(receive(&mut receiver, 3).len(), 3);
        assert_eq!(receiver.receive(&mut ReceiveBuffer::new(), |_, _| ()).unwrap(), 0);
    }
}

#[test]
fn an_empty_datagram_is_one() {
    let mut receiver = bind();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in [&b""[..], b"1", b""] {
        sender.send_to(datagram, receiver.local_address()).unwrap();
    }
    let (mut buffer, mut lengths, mut count) = (ReceiveBuffer::new(), Vec::new(), 0);
    while lengths.len() < 3 {
        assert!(wait(&receiver, PollFlags::IN).contains(PollFlags::IN), "not all arrived");
        count += receiver.receive(&mut buffer, |_, datagram| lengths.push(datagram.len())).unwrap();
    }
    assert_eq!((lengths, count), (vec![0, 1, 0], 3));
}

/// A server that listens at all addresses can prefer one of them, with the same port (RFC 9000
/// §9.6).
#[test]
fn an_address_is_taken_from_a_socket_at_all_addresses() {
    for all in ["0.0.0.0:0", "[::]:0"] {
        let Ok(mut main) = Socket::bind(all.parse().unwrap()) else { continue };
        let port = main.local_address().port();
        let [taken, other] = [3, 4].map(|last| SocketAddr::from(([127, 0, 0, last], port)));
        let mut beside = Socket::bind_beside(taken, Some(&main)).unwrap();
        let mut sender = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        for (receiver, to) in [(&mut beside, taken), (&mut main, other)] {
            let outcome = sender.send(&batch(to, 10, None), &mut 0);
            assert!(matches!(outcome, SendOutcome::Sent), "{all} {to}");
            assert!(wait(receiver, PollFlags::IN).contains(PollFlags::IN), "{all} {to}");
            assert_eq!(receiver.receive(&mut ReceiveBuffer::new(), |_, _| ()).unwrap(), 1);
        }
        let thief =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        thief.set_reuse_address(true).unwrap();
        let refused = thief.bind(&other.into()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse, "{all}");
    }
}

/// Datagrams are not fragmented (RFC 9000 §14).
#[test]
fn dont_fragment_is_set() {
    let socket = bind();
    assert!(!socket.state.may_fragment());
}
