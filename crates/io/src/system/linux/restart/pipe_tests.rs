use core::net::{Ipv6Addr, SocketAddrV6};

use clearway_transport::{EcnCodepoint, SocketIndex};

use super::{Pipe, Sent};
use crate::datagrams::Meta;
use crate::via::Via;

fn pair() -> (Pipe, Pipe) {
    let (one, other) = Pipe::pair().unwrap();
    (Pipe::new(one), Pipe::new(other))
}

fn meta() -> Meta {
    Meta {
        remote: ([127, 0, 0, 1], 9).into(),
        local_ip: None,
        ecn: EcnCodepoint::NotEct,
        via: None,
    }
}

#[test]
fn a_datagram_arrives_with_its_addresses_its_ecn_field_and_its_socket() {
    let (from, to) = pair();
    let link_local: Ipv6Addr = "fe80::1".parse().unwrap();
    let remotes = [
        ([192, 0, 2, 1], 443).into(),
        SocketAddrV6::new(link_local, 65535, 7, 3).into(),
        "[::ffff:192.0.2.1]:1".parse().unwrap(),
    ];
    let locals = [None, Some([198, 51, 100, 7].into()), Some("2001:db8::1".parse().unwrap())];
    let vias = [
        None,
        Some(Via { balancer: ([192, 0, 2, 9], 7000).into(), local_ip: locals[1] }),
        Some(Via {
            balancer: SocketAddrV6::new(link_local, 65535, 0, 9).into(),
            local_ip: locals[2],
        }),
        Some(Via { balancer: "[2001:db8::9]:1".parse().unwrap(), local_ip: None }),
    ];
    let codepoints =
        [EcnCodepoint::NotEct, EcnCodepoint::Ect0, EcnCodepoint::Ect1, EcnCodepoint::Ce];
    let mut buffer = vec![0; 1 << 17];
    for remote in remotes {
        for local_ip in locals {
            for ecn in codepoints {
                for via in vias {
                    let meta = Meta { remote, local_ip, ecn, via };
                    assert_eq!(from.send(SocketIndex(2), &meta, b"datagram"), Sent::Done);
                    let piped = to.receive(&mut buffer).unwrap();
                    assert_eq!((piped.meta, piped.socket), (meta, SocketIndex(2)));
                    assert_eq!(piped.datagram, b"datagram");
                }
            }
        }
    }
    // The empty datagram and the largest one are valid too.
    for length in [0, 65_507_usize] {
        let datagram = vec![7; length];
        assert_eq!(from.send(SocketIndex(0), &meta(), &datagram), Sent::Done);
        assert_eq!(to.receive(&mut buffer).unwrap().datagram, datagram);
    }
    assert!(to.receive(&mut buffer).is_none() && !to.has_ended());
}

#[test]
fn a_full_pipe_drops_and_never_waits() {
    let (from, to) = pair();
    let mut count = 0;
    while from.send(SocketIndex(0), &meta(), &[0; 1200]) == Sent::Done {
        count += 1;
    }
    assert!(count > 50, "{count}");
    assert_eq!(from.send(SocketIndex(0), &meta(), &[0; 1200]), Sent::Full);
    let mut buffer = [0; 2000];
    for _ in 0..count {
        assert!(to.receive(&mut buffer).is_some());
    }
    assert!(to.receive(&mut buffer).is_none());
    assert_eq!(from.send(SocketIndex(0), &meta(), &[0; 1200]), Sent::Done);
    assert!(!from.has_ended() && !to.has_ended());
}

#[test]
fn what_was_sent_before_the_other_end_closed_is_received() {
    let (from, to) = pair();
    assert_eq!(from.send(SocketIndex(0), &meta(), b"first"), Sent::Done);
    // There is an unread datagram in the other direction.
    assert_eq!(to.send(SocketIndex(0), &meta(), b"unread"), Sent::Done);
    drop(from);
    let mut buffer = [0; 100];
    assert_eq!(to.receive(&mut buffer).unwrap().datagram, b"first");
    assert!(!to.has_ended());
    assert!(to.receive(&mut buffer).is_none());
    assert!(to.has_ended());
    assert_eq!(to.send(SocketIndex(0), &meta(), b"second"), Sent::Ended);
}

#[test]
fn an_end_without_reader_is_noticed_by_the_sender() {
    let (from, to) = pair();
    drop(to);
    assert_eq!(from.send(SocketIndex(0), &meta(), b"lost"), Sent::Ended);
    assert!(from.has_ended());
}
