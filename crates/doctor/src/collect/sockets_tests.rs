use std::net::UdpSocket;

use proptest::prelude::*;
use rustix::net::netlink::SOCK_DIAG;

use super::super::netlink::attribute;
use super::*;

const LISTED: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  377: 0100007F:1151 00000000:0000 07 00000010:000340C0 00:00000000 00000000  1000        0 5157 2 0000000000000000 908
  378: 0100007F:1152 0200007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 5158 2 0000000000000000 0
";

fn diagnosis() -> Vec<u8> {
    let mut body = vec![2, 7, 0, 0];
    body.extend([0x11, 0x51, 0, 53]);
    body.extend([127, 0, 0, 1].into_iter().chain([0; 12]));
    body.extend([192, 0, 2, 1].into_iter().chain([0; 12]));
    for word in [0_u32, 7, 1, 0, 300, 0, 1000, 5157] {
        body.extend(word.to_ne_bytes());
    }
    let memory: Vec<u8> = (1..=9_u32).flat_map(u32::to_ne_bytes).collect();
    body.extend(attribute(MEMORY, &memory));
    body
}

#[test]
fn a_socket_of_sock_diag() {
    let (key, socket) = diagnosed(&diagnosis(), Family::V4).unwrap();
    assert_eq!(key, SocketKey(1 << 32 | 7));
    assert_eq!(socket.local, "127.0.0.1:4433");
    assert_eq!(socket.remote.as_deref(), Some("192.0.2.1:53"));
    assert_eq!((socket.inode, socket.user, socket.receive_queue), (5157, 1000, 300));
    assert_eq!((socket.receive_buffer, socket.send_queue), (Some(2), 3));
    assert_eq!((socket.send_buffer, socket.drops), (Some(4), 9));
    for len in 0..diagnosis().len() {
        assert_eq!(diagnosed(&diagnosis()[..len], Family::V4), None, "{len}");
    }
}

#[test]
fn sockets_of_proc() {
    let sockets = listed(LISTED, Family::V4).unwrap();
    let socket = &sockets[&SocketKey(5157)];
    assert_eq!((&socket.local[..], socket.remote.as_deref()), ("127.0.0.1:4433", None));
    assert_eq!((socket.receive_queue, socket.send_queue, socket.drops), (0x340c0, 16, 908));
    assert_eq!((socket.receive_buffer, socket.user), (None, 1000));
    assert_eq!(sockets[&SocketKey(5158)].remote.as_deref(), Some("127.0.0.2:53"));
    let address = listed_address("00000000000000000000000001000000:0035", Family::V6);
    assert_eq!(address, Some("[::1]:53".parse().unwrap()));
}

#[test]
fn damaged_lists_are_refused() {
    assert!(listed("", Family::V4).is_err());
    let heading = LISTED.lines().next().unwrap().len() + 1;
    let line = LISTED.lines().nth(1).unwrap().len();
    // Truncated anywhere up to its last column, whose number of digits is not known.
    for len in heading + 1..heading + line - 3 {
        assert!(listed(&LISTED[..len], Family::V4).is_err(), "{:?}", &LISTED[..len]);
    }
    assert!(listed(LISTED, Family::V6).is_err());
    for damaged in ["", ":", "0100007F", "0100007F:x", "0100007:0035", "ä00007F:0035"] {
        assert_eq!(listed_address(damaged, Family::V4), None, "{damaged}");
    }
}

#[test]
fn both_ways_see_a_socket_alike() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.send_to(&[1; 100], address).unwrap();
    let find = |sockets: Sockets| {
        sockets.into_values().find(|socket| socket.local == address.to_string()).unwrap()
    };
    let by_diag = find(by_diag(&mut Netlink::open(Some(SOCK_DIAG)).unwrap()).unwrap());
    let by_proc = find(by_proc(&Files::of_system()).unwrap());
    assert!(by_diag.receive_queue > 100 && by_diag.receive_buffer.is_some());
    assert_eq!(by_diag.receive_queue, by_proc.receive_queue);
    assert_eq!((by_diag.inode, by_diag.user, by_diag.drops), (by_proc.inode, by_proc.user, 0));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, text in "[0-9A-Fa-f: \n]{0,120}") {
        let _ = (diagnosed(&bytes, Family::V6), listed_socket(&text, Family::V6));
        let _ = listed(&format!("local_address\n{text}"), Family::V4);
    }
}
