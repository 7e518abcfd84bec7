//! ICMP messages about a path, and forged ones.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::client::ask;
use crate::attack::endpoint::{Endpoint, Settings};
use crate::attack::http3;
use crate::attack::scene::{HANDSHAKE, LARGE, SMALL, Scene};
use crate::waiting::check_interrupt;

/// The address of the client whose path the forged messages are about. No other test uses it: the
/// kernel caches the path information from these messages for minutes.
const TARGETED: Ipv4Addr = Ipv4Addr::new(127, 6, 0, 1);
/// The ICMP type and code for "fragmentation needed" (RFC 792).
const TOO_BIG: [u8; 2] = [3, 4];
/// The types and codes of other messages that Linux reports to sockets: an unreachable destination
/// with each code of RFC 1812, an exceeded time, and a parameter problem.
const OTHERS: [[u8; 2]; 17] = [
    [3, 0],
    [3, 1],
    [3, 2],
    [3, 3],
    [3, 5],
    [3, 6],
    [3, 7],
    [3, 8],
    [3, 9],
    [3, 10],
    [3, 11],
    [3, 12],
    [3, 13],
    [3, 14],
    [3, 15],
    [11, 0],
    [12, 0],
];

pub(super) fn rows() -> Vec<Row> {
    vec![Row {
        name: "forged-icmp",
        target: Target::Serve(&[]),
        is_quick: true,
        // The congestion windows of two downloads.
        bound: Bound { memory: 40 * MIB, ..USUAL },
        drive: forged_icmp,
    }]
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded + (folded >> 16)) as u16)
}

/// Returns an ICMP message about a datagram from the server to the client.
fn message([kind, code]: [u8; 2], mtu: u16, server: SocketAddrV4, client: SocketAddrV4) -> Vec<u8> {
    let mut datagram = vec![0x45, 0, 5, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    datagram.extend(server.ip().octets());
    datagram.extend(client.ip().octets());
    let sum = checksum(&datagram);
    datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    datagram.extend(server.port().to_be_bytes());
    datagram.extend(client.port().to_be_bytes());
    datagram.extend([4, 0xe8, 0, 0]);
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(datagram);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Checks that forged ICMP messages neither close a connection nor reduce its packets below 1,200
/// bytes (RFC 9000 §14.2.1).
fn forged_icmp(scene: &mut Scene<'_>) -> Result<(), String> {
    let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) else {
        scene.notes.push("not run: it requires CAP_NET_RAW".to_owned());
        return Ok(());
    };
    let settings = Settings { local: TARGETED.into(), ..scene.site.settings(&scene.counter) };
    let mut client = Endpoint::connect(scene.address, &settings, HANDSHAKE)?;
    http3::open(&mut client, &[]);
    let (SocketAddr::V4(server), SocketAddr::V4(own)) = (scene.address, client.local_address()?)
    else {
        return Err("the addresses are not IPv4 addresses".to_owned());
    };
    let to = SockAddr::from(SocketAddrV4::new(*server.ip(), 0));
    let forge = |kind, mtu| {
        let message = message(kind, mtu, server, own);
        scene.counter.add(message.len());
        // If the send buffer is full, the message is dropped, as it could be on a path.
        let _ = raw.send_to(&message, &to);
    };
    http3::request(&mut client, LARGE);
    for number in 0..400_u16 {
        for mtu in [0, 68, 552, 1_000, 1_227] {
            forge(TOO_BIG, mtu);
        }
        for kind in OTHERS {
            forge(kind, 0);
        }
        client.pump(Duration::from_millis(1))?;
        if number % 64 == 0 {
            check_interrupt()?;
        }
    }
    let (datagrams, bytes) = (client.received_datagrams, client.received_bytes);
    http3::request(&mut client, LARGE);
    client.pump(Duration::from_secs(1))?;
    let (datagrams, bytes) = (client.received_datagrams - datagrams, client.received_bytes - bytes);
    let mean = bytes / datagrams.max(1);
    scene.notes.push(format!("afterwards {mean} bytes per datagram"));
    scene.check(mean >= 1_100, || {
        format!(
            "after forged ICMP messages, datagrams have only {mean} \
        bytes"
        )
    });
    scene.check(client.closed.is_none(), || format!("closed: {:?}", client.closed));
    let settings = Settings { local: TARGETED.into(), ..scene.site.settings(&scene.counter) };
    let mut later = Endpoint::connect(scene.address, &settings, HANDSHAKE)?;
    http3::open(&mut later, &[]);
    let answer = ask(&mut later, SMALL);
    scene.check(answer.is_ok(), || format!("a later connection: {answer:?}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_its_checksum_has_the_sum_0() {
        let [one, other] = ["192.0.2.1:443", "192.0.2.2:1"].map(|text| text.parse().unwrap());
        assert_eq!(checksum(&message(TOO_BIG, 1_000, one, other)), 0);
        assert_eq!(checksum(&[0x45, 0, 0, 0x1c]), !0x451c);
    }
}
