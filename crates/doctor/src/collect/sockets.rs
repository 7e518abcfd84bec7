//! UDP sockets. SOCK_DIAG lists the sockets of every process, including their memory;
//! `/proc/net/udp` is the fallback.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::Path;

use super::files::{self, Files, Malformed};
use super::netlink::{Attributes, Netlink, array, u32_at, word_at};
use crate::snapshot::{Family, Missing, Reading, Socket, SocketKey};

// Constants from linux/sock_diag.h and linux/inet_diag.h.
const BY_FAMILY: u16 = 20;
const UDP: u8 = 17;
/// Size of `struct inet_diag_req_v2`, in bytes.
const REQUEST: usize = 56;
/// Size of `struct inet_diag_msg`, in bytes.
const HEADER: usize = 72;
const MEMORY: u16 = 7;
const ALL_STATES: u32 = u32::MAX;
const FAMILIES: [(u8, Family); 2] = [(2, Family::V4), (10, Family::V6)];

/// Maximum number of sockets to list, so that snapshots stay small enough to be compared.
const MAX_SOCKETS: usize = 1 << 17;

type Sockets = BTreeMap<SocketKey, Socket>;

/// Returns the sockets of this namespace, without their owners.
pub(super) fn sockets(netlink: Result<&mut Netlink, Missing>, files: &Files) -> Reading<Sockets> {
    let by_diag = netlink.and_then(by_diag);
    match by_diag {
        Ok(sockets) => Reading::Seen(sockets),
        // It does not matter why SOCK_DIAG failed if the fallback works.
        Err(_) => by_proc(files).map_or_else(Reading::Missing, Reading::Seen),
    }
}

fn by_diag(netlink: &mut Netlink) -> Result<Sockets, Missing> {
    let mut sockets = Sockets::new();
    for (number, family) in FAMILIES {
        let mut request = [0; REQUEST];
        request[..3].copy_from_slice(&[number, UDP, 1 << (MEMORY - 1)]);
        request[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
        let mut of_family = Sockets::new();
        let listed =
            netlink.list(BY_FAMILY, &request, &mut of_family, Sockets::clear, |sockets, body| {
                sockets.extend(diagnosed(body, family));
                continue_below(sockets.len())
            });
        match listed {
            Ok(()) => sockets.append(&mut of_family),
            // IPv6 is not available.
            Err(Missing::Kernel) if family == Family::V6 => {}
            Err(missing) => return Err(missing),
        }
    }
    bounded(sockets)
}

fn continue_below(len: usize) -> ControlFlow<()> {
    if len > MAX_SOCKETS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn bounded(sockets: Sockets) -> Result<Sockets, Missing> {
    match sockets.len() > MAX_SOCKETS {
        true => Err(Missing::Failed(format!("there are more than {MAX_SOCKETS} UDP sockets"))),
        false => Ok(sockets),
    }
}

fn diagnosed(body: &[u8], family: Family) -> Option<(SocketKey, Socket)> {
    let port = |at| array(body, at).map(u16::from_be_bytes);
    let (local_port, remote_port) = (port(4)?, port(6)?);
    let ip = |at| {
        Some(match family {
            Family::V4 => IpAddr::from(array::<4>(body, at)?),
            Family::V6 => IpAddr::from(array::<16>(body, at)?),
        })
    };
    let (local, remote) = (ip(8)?, ip(24)?);
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let memory = Attributes::after(body, HEADER).find(MEMORY)?;
    let of_memory = |place: usize| word_at(memory, place).map(u64::from);
    let socket = Socket {
        family,
        local: SocketAddr::new(local, local_port).to_string(),
        remote: (remote_port != 0).then(|| SocketAddr::new(remote, remote_port).to_string()),
        inode: u32_at(body, 68)?.into(),
        user: u32_at(body, 64)?,
        // The memory information is not used here: it includes datagrams that were already read,
        // which stay charged for a while.
        receive_queue: u32_at(body, 56)?.into(),
        receive_buffer: Some(of_memory(1)?),
        send_queue: of_memory(2)?,
        send_buffer: Some(of_memory(3)?),
        drops: of_memory(8)?,
        owners: Vec::new(),
    };
    Some((SocketKey(cookie), socket))
}

fn by_proc(files: &Files) -> Result<Sockets, Missing> {
    let mut sockets = of_file(&files.net("udp"), Family::V4)?;
    match of_file(&files.net("udp6"), Family::V6) {
        Ok(mut others) => sockets.append(&mut others),
        // IPv6 is not available.
        Err(Missing::Kernel) => {}
        Err(missing) => return Err(missing),
    }
    bounded(sockets)
}

fn of_file(path: &Path, family: Family) -> Result<Sockets, Missing> {
    let text = files::read(path).map_err(|error| files::missing(path, &error))?;
    Ok(listed(&text, family)?)
}

/// Parses the lines of `/proc/net/udp` and `/proc/net/udp6`.
fn listed(text: &str, family: Family) -> Result<Sockets, Malformed> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    if !heading.contains("local_address") {
        return Err(Malformed::of(heading));
    }
    let mut sockets = Sockets::new();
    for line in lines {
        let socket = listed_socket(line, family).ok_or_else(|| Malformed::of(line))?;
        // A socket that no process has open has no inode, and therefore no identity.
        if socket.inode != 0 {
            sockets.insert(SocketKey(socket.inode), socket);
        }
    }
    Ok(sockets)
}

fn listed_socket(line: &str, family: Family) -> Option<Socket> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [_, local, remote, _, queues, _, _, user, _, inode, _, _, drops] = words[..] else {
        return None;
    };
    let (send_queue, receive_queue) = queues.split_once(':')?;
    let hexadecimal = |word| u64::from_str_radix(word, 16).ok();
    let remote = listed_address(remote, family)?;
    Some(Socket {
        family,
        local: listed_address(local, family)?.to_string(),
        remote: (remote.port() != 0).then(|| remote.to_string()),
        inode: inode.parse().ok()?,
        user: user.parse().ok()?,
        receive_queue: hexadecimal(receive_queue)?,
        receive_buffer: None,
        send_queue: hexadecimal(send_queue)?,
        send_buffer: None,
        drops: drops.parse().ok()?,
        owners: Vec::new(),
    })
}

/// Parses an address in hexadecimal 32-bit words in the machine's byte order, and a port.
fn listed_address(text: &str, family: Family) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |place: usize| {
        let word = address.get(place..)?.get(..8)?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    };
    let ip = match family {
        Family::V4 if address.len() == 8 => Ipv4Addr::from(word(0)?).into(),
        Family::V6 if address.len() == 32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            Ipv6Addr::from(array::<16>(words.as_flattened(), 0)?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
