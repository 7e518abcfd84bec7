//! Tests the output of `get` when no handshake completes: what arrived, and why it was not usable.

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Scratch, fail};

/// Returns the response to a client's datagram, if any.
type Answer = fn(&[u8]) -> Option<Vec<u8>>;

/// Returns the beginning of a long-header packet of `version` in response to the client's Initial
/// packet `initial`: its first byte and connection IDs.
fn header(initial: &[u8], version: u32) -> Option<Vec<u8>> {
    const INITIAL: u8 = 0xc1;
    let ids = initial.get(5..)?;
    let (destination, rest) = ids.get(1..)?.split_at_checked(usize::from(ids[0]))?;
    let (source, _) = rest.get(1..)?.split_at_checked(usize::from(rest[0]))?;
    let mut packet = vec![INITIAL];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.push(source.len() as u8);
    packet.extend_from_slice(source);
    packet.push(destination.len() as u8);
    packet.extend_from_slice(destination);
    Some(packet)
}

/// Returns an Initial packet with a payload that no key decrypts.
fn undecryptable(initial: &[u8]) -> Option<Vec<u8>> {
    let mut packet = header(initial, 1)?;
    // The packet has no token, and a length of 1100 bytes.
    packet.extend_from_slice(&[0, 0x44, 0x4c]);
    packet.extend_from_slice(&[0x5a; 1100]);
    Some(packet)
}

fn of_an_unknown_version(initial: &[u8]) -> Option<Vec<u8>> {
    let mut packet = header(initial, 0x1234_5678)?;
    packet.extend_from_slice(&[0; 1100]);
    Some(packet)
}

fn for_another_connection(initial: &[u8]) -> Option<Vec<u8>> {
    let mut packet = undecryptable(initial)?;
    packet[6] ^= 1;
    Some(packet)
}

#[test]
fn get_says_what_arrived_instead_of_a_handshake() {
    let dropped = ["no usable response from", "packets arrived and all were dropped: "];
    let cases: [(&str, Answer, Vec<&str>); 5] = [
        ("silent", |_| None, vec!["no response from", "blocks UDP", "may not support HTTP/3"]),
        ("broken", undecryptable, [&dropped[..], &["could not be decrypted"]].concat()),
        ("version", of_an_unknown_version, [&dropped[..], &["had an unknown version"]].concat()),
        (
            "another",
            for_another_connection,
            [&dropped[..], &["had an unknown connection ID"]].concat(),
        ),
        (
            "text",
            |_| Some(b"?\n".to_vec()),
            [&dropped[..], &["did not parse as QUIC", "may not be a QUIC server"]].concat(),
        ),
    ];
    // Each case takes the whole handshake timeout.
    thread::scope(|scope| {
        for (name, answer, expected) in cases {
            scope.spawn(move || assert_get_says(name, answer, &expected));
        }
    });
}

/// Makes `get` connect to a server that sends only what `answer` returns, and checks its single
/// line of output.
fn assert_get_says(name: &str, answer: Answer, expected: &[&str]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let scratch = Scratch::new(&format!("unanswered-{name}"));
    let (output, url) = (scratch.path("file"), format!("https://{address}/file"));
    let authorities = scratch.path("trusted.pem");
    let trusted = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&authorities, trusted.cert.pem()).unwrap();
    let is_done = AtomicBool::new(false);
    let line = thread::scope(|scope| {
        scope.spawn(|| {
            let mut datagram = [0; 2048];
            while !is_done.load(Ordering::Relaxed) {
                let Ok((size, client)) = socket.recv_from(&mut datagram) else { continue };
                if let Some(answer) = answer(&datagram[..size]) {
                    drop(socket.send_to(&answer, client));
                }
            }
        });
        let line = thread::scope(|get| {
            get.spawn(|| fail(&["get", "--ca", &authorities, "-o", &output, &url])).join()
        });
        is_done.store(true, Ordering::Relaxed);
        line
    });
    let line = line.unwrap();
    for part in expected.iter().copied().chain([address.as_str()]) {
        assert!(line.contains(part), "{name}: {part:?} is not in {line:?}");
    }
    assert_eq!(scratch.names(), ["trusted.pem"], "{name}");
}
