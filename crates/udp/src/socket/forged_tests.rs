//! Tests that forged ICMP messages do not affect a socket. Sending them needs root; without it, the
//! test prints a message and ends.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};
use rustix::event::{PollFd, PollFlags};

use super::{Batch, EcnCodepoint, ReceiveBuffer, SendOutcome, Socket};
use crate::poll;

/// The subject of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    /// An unreachable destination.
    Destination,
    /// The size or the headers of a packet.
    Contents,
}

/// Returns the types and codes that Linux reports to sockets.
fn messages(is_v6: bool) -> Vec<([u8; 2], About)> {
    let unreachable = |kind, code| ([kind, code], About::Destination);
    let contents = |kind, code| ([kind, code], About::Contents);
    if is_v6 {
        let unreachable = (0..=6).map(|code| unreachable(1, code));
        return unreachable
            .chain([contents(2, 0), ([3, 0], About::Destination), contents(4, 0)])
            .collect();
    }
    let unreachable =
        (0..=15).filter(|code| ![4, 5].contains(code)).map(|code| unreachable(3, code));
    let others = [contents(3, 4), contents(3, 5), ([11, 0], About::Destination), contents(12, 0)];
    unreachable.chain(others).collect()
}

/// Returns an ICMP message about a datagram.
fn message([kind, code]: [u8; 2], from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    // The MTU, or the number of the erroneous byte.
    message.extend(1280_u32.to_be_bytes());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            message.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0]);
            message.extend(source.octets().into_iter().chain(destination.octets()));
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            message.extend([0x60, 0, 0, 0, 0, 16, 17, 64]);
            message.extend(source.octets().into_iter().chain(destination.octets()));
        }
        _ => unreachable!("the families are the same"),
    }
    message.extend([from.port(), to.port(), 16, 0].map(u16::to_be_bytes).concat());
    message.extend([7; 8]);
    if from.is_ipv4() {
        let words = message.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum = words.sum::<u32>();
        let sum = (sum >> 16) + (sum & 0xffff);
        let checksum = !((sum + (sum >> 16)) as u16);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    message
}

fn wait(socket: &Socket, interest: PollFlags) -> PollFlags {
    let mut descriptors = [PollFd::new(socket, interest)];
    poll(&mut descriptors, Some(Duration::from_secs(5))).unwrap();
    descriptors[0].revents()
}

/// The call on the socket after a message has arrived.
#[derive(Clone, Copy, Debug)]
enum Call {
    Receive,
    Send,
    SendTogether,
}

#[test]
fn a_forged_icmp_message_neither_ends_a_socket_nor_affects_a_datagram() {
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    // The last one is a dual-stack socket that receives IPv4.
    for (bound, local) in [(v4, v4), (v6, v6), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), v4)] {
        let (family, protocol) = match local.is_ipv6() {
            true => (AddressFamily::Inet6, SockProtocol::IcmpV6),
            false => (AddressFamily::Inet, SockProtocol::Icmp),
        };
        let Ok(raw) = socket(family, SockType::Raw, SockFlag::empty(), protocol) else {
            return eprintln!("skipped: sending ICMP messages needs root");
        };
        let elsewhere: IpAddr = match local.is_ipv6() {
            true => "2001:db8::9".parse().unwrap(),
            false => "203.0.113.9".parse().unwrap(),
        };
        let elsewhere = SocketAddr::new(elsewhere, 9999);
        for (kind, about) in messages(local.is_ipv6()) {
            for call in [Call::Receive, Call::Send, Call::SendTogether] {
                let context = format!("{bound}, {local}, {kind:?}, {call:?}");
                let bind = |ip| Socket::bind(SocketAddr::new(ip, 0)).unwrap();
                let (mut attacked, mut peer) = (bind(bound), bind(local));
                let own = SocketAddr::new(local, attacked.local_address().port());
                let message = message(kind, own, elsewhere);
                let target = SockaddrStorage::from(SocketAddr::new(local, 0));
                sendto(raw.as_raw_fd(), &message, &target, MsgFlags::empty()).unwrap();
                assert!(wait(&attacked, PollFlags::IN).contains(PollFlags::ERR), "{context}");
                let batch = Batch {
                    destination: attacked.destination(peer.local_address()).unwrap(),
                    source_ip: None,
                    ecn: EcnCodepoint::NotEct,
                    contents: &[7; 2000],
                    segment_size: Some(1000),
                };
                match call {
                    Call::Receive => {}
                    Call::Send => {
                        let outcome = attacked.send(&batch, &mut 0);
                        assert!(matches!(outcome, SendOutcome::Sent), "{context}: {outcome:?}");
                    }
                    Call::SendTogether => {
                        // The caller passes a batch that was not accepted to send().
                        if attacked.send_together([batch].into_iter()) == 0 {
                            let outcome = attacked.send(&batch, &mut 0);
                            assert!(matches!(outcome, SendOutcome::Sent), "{context}: {outcome:?}");
                        }
                    }
                }
                let mut buffer = ReceiveBuffer::new();
                let received = attacked.receive(&mut buffer, |_, _| ());
                assert_eq!(received.map_err(|error| error.to_string()), Ok(0), "{context}");
                assert!(attacked.has_errors(), "{context}");
                let mut unreachable = Vec::new();
                attacked.unreachable(|destination| unreachable.push(destination));
                let elsewhere = attacked.destination(elsewhere).unwrap();
                let expected = if about == About::Destination { vec![elsewhere] } else { vec![] };
                assert_eq!(unreachable, expected, "{context}");
                // Both directions work.
                let back = Batch { destination: own, ..batch };
                assert!(matches!(peer.send(&back, &mut 0), SendOutcome::Sent), "{context}");
                let mut count = 0;
                while count < 2 {
                    assert!(wait(&attacked, PollFlags::IN).contains(PollFlags::IN), "{context}");
                    count += attacked.receive(&mut buffer, |_, _| ()).expect(&context);
                }
                if !matches!(call, Call::Receive) {
                    assert!(wait(&peer, PollFlags::IN).contains(PollFlags::IN), "{context}");
                }
                assert!(attacked.max_gso_segments() > 1, "{context}");
            }
        }
    }
}
