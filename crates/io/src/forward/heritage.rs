//! What a thread hands over to the same thread of the process that takes this one's place: its ports, whose they are, and what
//! its routing remembers. Datagrams that arrive in between wait in the sockets, which both processes have.
//!
//! ```text
//! Count (32)                 of leases
//! Lease (..) ...
//! Routing (..)               what it has saved
//!
//! Lease {
//!   Server, Client           addresses
//!   Local                    an address without port, if it is known
//!   Port (32)                the first bit is set if the client is not confirmed
//!   Idle (64)                nanoseconds since it was used last
//! }
//! Address {
//!   Family (8)               4, 6, or 0 for none
//!   IP (32, 128)
//!   Port (16)
//!   Flow (32), Scope (32)    of IPv6
//! }
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use clearway_wire::Reader;
use rustix::fs::{MemfdFlags, memfd_create};

use super::table::{Client, SavedLease};
use crate::restart::{Conversation, MAX_DESCRIPTORS, Message, PATIENCE};

/// Set in the port of a client that is not confirmed. To a process that does not know it, there is no such port.
const UNCONFIRMED: u32 = 1 << 31;

/// What a thread has of the one before.
#[derive(Debug, Default)]
pub(super) struct Heritage {
    pub(super) ports: Vec<UdpSocket>,
    pub(super) leases: Vec<SavedLease>,
    pub(super) routing: Vec<u8>,
}

/// Hands it over through `pipe`.
pub(super) fn give(
    pipe: OwnedFd,
    ports: &[BorrowedFd<'_>],
    leases: &[SavedLease],
    routing: &[u8],
) -> io::Result<()> {
    let conversation = conversation(pipe)?;
    let mut memory = File::from(memfd_create("clearway-forward", MemfdFlags::CLOEXEC)?);
    memory.write_all(&encode(leases))?;
    memory.write_all(routing)?;
    let count = u32::try_from(ports.len()).map_err(|_| ErrorKind::InvalidInput)?;
    conversation.send(Message::State(count), &[memory.as_fd()])?;
    ports.chunks(MAX_DESCRIPTORS).try_for_each(|some| conversation.send(Message::Ports, some))
}

/// Waits for it.
pub(super) fn take(pipe: OwnedFd) -> io::Result<Heritage> {
    let conversation = conversation(pipe)?;
    let foreign = || io::Error::from(ErrorKind::InvalidData);
    let (Message::State(count), memory) = conversation.receive()? else { return Err(foreign()) };
    let mut ports = Vec::new();
    while ports.len() < count as usize {
        match conversation.receive()? {
            (Message::Ports, some) if !some.is_empty() => {
                ports.extend(some.into_iter().map(UdpSocket::from));
            }
            _ => return Err(foreign()),
        }
    }
    let mut memory = File::from(memory.into_iter().next().ok_or_else(foreign)?);
    let mut bytes = Vec::new();
    memory.rewind()?;
    memory.read_to_end(&mut bytes)?;
    let mut reader = Reader::new(&bytes);
    let leases = decode(&mut reader).ok_or_else(foreign)?;
    Ok(Heritage { ports, leases, routing: reader.take_rest().to_vec() })
}

/// The pipes of servers never wait; here both ends do.
fn conversation(pipe: OwnedFd) -> io::Result<Conversation> {
    rustix::io::ioctl_fionbio(&pipe, false)?;
    Conversation::new(pipe, PATIENCE)
}

fn encode(leases: &[SavedLease]) -> Vec<u8> {
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

/// `None` if it is no address, `Some(None)` if it says that there is none.
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
    use crate::restart::Pipe;

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
    fn what_is_given_is_taken() {
        let (ours, theirs) = Pipe::pair().unwrap();
        let sockets: Vec<_> =
            (0..3 * MAX_DESCRIPTORS / 2).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let expected: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
        let taken = std::thread::scope(|scope| {
            let taking = scope.spawn(|| take(theirs).unwrap());
            let ports: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            give(ours, &ports, &leases(), b"what is remembered").unwrap();
            taking.join().unwrap()
        });
        let ports: Vec<_> = taken.ports.iter().map(|it| it.local_addr().unwrap()).collect();
        assert_eq!(ports, expected);
        assert_eq!((taken.leases, &taken.routing[..]), (leases(), &b"what is remembered"[..]));
    }

    #[test]
    fn an_end_before_that_is_an_error() {
        let (ours, theirs) = Pipe::pair().unwrap();
        drop(ours);
        assert!(take(theirs).is_err());
        let bytes = encode(&leases());
        for length in 0..bytes.len() {
            assert!(decode(&mut Reader::new(&bytes[..length])).is_none());
        }
    }
}
