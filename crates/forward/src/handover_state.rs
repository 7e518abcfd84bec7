//! The handover state of a thread for the same thread of the next process: its ports, their
//! clients, and the state of its routing. Datagrams that arrive in between are queued in the
//! sockets, which both processes have open.
//!
//! ```text
//! Count (32)                 number of leases
//! Lease (..) ...
//! Routing (..)               the routing's saved state
//!
//! Lease {
//!   Server, Client           addresses
//!   Local                    the balancer's address without port, if known
//!   Port (32)                the first bit is set if the client is not confirmed
//!   Idle (64)                nanoseconds since the last use
//! }
//! Address {
//!   Family (8)               4, 6, or 0 for none
//!   IP (32, 128)
//!   Port (16)
//!   Flow (32), Scope (32)    only for IPv6
//! }
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use clearway_io::hand_over::Predecessor;
use clearway_wire::Reader;

use super::table::{Client, SavedLease};

/// Flag in the port number of an unconfirmed client. Processes that do not support the flag ignore
/// such a port.
const UNCONFIRMED: u32 = 1 << 31;

/// The handover state from a thread's predecessor.
#[derive(Debug, Default)]
pub(super) struct HandoverState {
    pub(super) ports: Vec<UdpSocket>,
    pub(super) leases: Vec<SavedLease>,
    pub(super) routing: Vec<u8>,
}

/// Waits for the handover state.
pub(super) fn take(predecessor: Predecessor) -> io::Result<HandoverState> {
    let (ports, bytes) = predecessor.receive()?;
    let mut reader = Reader::new(&bytes);
    let leases = decode(&mut reader).ok_or(ErrorKind::InvalidData)?;
    Ok(HandoverState { ports, leases, routing: reader.take_rest().to_vec() })
}

/// Encodes the leases, which precede the routing's state.
pub(super) fn encode(leases: &[SavedLease]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((leases.len() as u32).to_be_bytes());
    for SavedLease { server, client, port, idle, is_confirmed } in leases {
        push_address(&mut bytes, Some(*server));
        push_address(&mut bytes, Some(client.remote));
        push_address(&mut bytes, client.local_ip.map(|ip| SocketAddr::new(ip, 0)));
        let flag = if *is_confirmed { 0 } else { UNCONFIRMED };
        bytes.extend((port | flag).to_be_bytes());
        bytes.extend(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
    }
    bytes
}

fn decode(reader: &mut Reader<'_>) -> Option<Vec<SavedLease>> {
    let count = u32::from_be_bytes(reader.array("count").ok()?);
    let mut leases = Vec::new();
    for _ in 0..count {
        let server = take_address(reader)??;
        let remote = take_address(reader)??;
        let local_ip = take_address(reader)?.map(|address| address.ip());
        let port = u32::from_be_bytes(reader.array("port").ok()?);
        let idle = Duration::from_nanos(u64::from_be_bytes(reader.array("idle").ok()?));
        let (client, is_confirmed) = (Client { remote, local_ip }, port & UNCONFIRMED == 0);
        let port = port & !UNCONFIRMED;
        leases.push(SavedLease { server, client, port, idle, is_confirmed });
    }
    Some(leases)
}

fn push_address(bytes: &mut Vec<u8>, address: Option<SocketAddr>) {
    match address {
        None => bytes.push(0),
        Some(SocketAddr::V4(v4)) => {
            bytes.push(4);
            bytes.extend(v4.ip().octets());
            bytes.extend(v4.port().to_be_bytes());
        }
        Some(SocketAddr::V6(v6)) => {
            bytes.push(6);
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.port().to_be_bytes());
            bytes.extend(v6.flowinfo().to_be_bytes());
            bytes.extend(v6.scope_id().to_be_bytes());
        }
    }
}

/// Decodes an optional address. Returns `None` if the encoding is invalid, and `Some(None)` if it
/// states that there is no address.
fn take_address(reader: &mut Reader<'_>) -> Option<Option<SocketAddr>> {
    let family = reader.u8("family").ok()?;
    let ip = match family {
        0 => return Some(None),
        4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>("IP").ok()?)),
        6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>("IP").ok()?)),
        _ => return None,
    };
    let port = u16::from_be_bytes(reader.array("port").ok()?);
    let IpAddr::V6(ip) = ip else { return Some(Some(SocketAddr::new(ip, port))) };
    let [flow, scope] = [reader.array("flow").ok()?, reader.array("scope").ok()?];
    let [flow, scope] = [flow, scope].map(u32::from_be_bytes);
    Some(Some(SocketAddrV6::new(ip, port, flow, scope).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> Vec<SavedLease> {
        let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 4433, 7, 3).into();
        let v4: SocketAddr = ([192, 0, 2, 1], 443).into();
        let client = |remote, local_ip| Client { remote, local_ip };
        vec![
            SavedLease {
                server: v4,
                client: client(v6, None),
                port: 0,
                idle: Duration::ZERO,
                is_confirmed: false,
            },
            SavedLease {
                server: v6,
                client: client(v4, Some(Ipv4Addr::LOCALHOST.into())),
                port: 77,
                idle: Duration::from_millis(1500),
                is_confirmed: true,
            },
        ]
    }

    #[test]
    fn leases_are_read_as_they_were_written_and_what_follows_is_left() {
        let mut bytes = encode(&leases());
        let length = bytes.len();
        bytes.extend(b"what is remembered");
        let mut reader = Reader::new(&bytes);
        assert_eq!(decode(&mut reader), Some(leases()));
        assert_eq!(reader.take_rest(), b"what is remembered");
        for length in 0..length {
            assert!(decode(&mut Reader::new(&bytes[..length])).is_none());
        }
    }
}
