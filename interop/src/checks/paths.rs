//! Checks of paths: address families, path validation after a NAT rebinding, and migration.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{Evidence, Fault, Verdict, ensure, failed};
use crate::capture::{Packet, Sender};

/// The source and destination addresses of a path.
type Path = (SocketAddr, SocketAddr);

fn path(packet: &Packet) -> Path {
    (packet.source, packet.destination)
}

pub(super) fn are_ipv6(evidence: &Evidence<'_>) -> Verdict {
    let count = evidence.server.from(Sender::Server).filter(|it| it.source.is_ipv4()).count();
    ensure(count == 0, || format!("the server sent {count} packets over IPv4"))?;
    Ok("all packets over IPv6".to_owned())
}

/// Checks that the server's first packet on each new path contains a PATH_CHALLENGE frame, and that
/// the client echoes each challenge that arrives. A challenge that a full queue dropped cannot be
/// echoed; the public runner counts that as a failure.
pub(super) fn are_validated(evidence: &Evidence<'_>) -> Verdict {
    let mut challenges = BTreeSet::new();
    let mut paths: BTreeSet<Path> = BTreeSet::new();
    let packets: Vec<&Packet> = evidence.server.from(Sender::Server).collect();
    for (index, first) in packets.iter().enumerate() {
        let is_new = paths.insert(path(first));
        if !is_new || paths.len() == 1 {
            continue;
        }
        // A datagram is one packet on the wire, even if it contains several QUIC packets.
        let datagram = packets.iter().skip(index).take_while(|it| it.datagram == first.datagram);
        let found: Vec<[u8; 8]> = datagram.flat_map(|packet| challenges_in(packet)).collect();
        ensure(!found.is_empty(), || {
            let to = first.destination;
            format!("the server's first packet on the new path to {to} has no PATH_CHALLENGE frame")
        })?;
        challenges.extend(found);
    }
    ensure(paths.len() > 1, || "the server used a single path".to_owned())?;
    let arrived: BTreeSet<[u8; 8]> =
        evidence.client.from(Sender::Server).flat_map(challenges_in).collect();
    let responses: BTreeSet<[u8; 8]> = evidence
        .client
        .from(Sender::Client)
        .filter_map(|packet| packet.opened.as_ref())
        .flat_map(|opened| opened.frames.path_responses.iter().copied())
        .collect();
    let unanswered = arrived.difference(&responses).count();
    ensure(unanswered == 0, || {
        format!("{unanswered} of {} PATH_CHALLENGE frames were not answered", arrived.len())
    })?;
    ensure(!responses.is_empty(), || "no PATH_CHALLENGE frame arrived".to_owned())?;
    let lost = match challenges.difference(&arrived).count() {
        0 => String::new(),
        lost => format!(", {lost} lost in the network"),
    };
    Ok(format!("{} paths, {} challenges answered{lost}", paths.len(), arrived.len()))
}

fn challenges_in(packet: &Packet) -> Vec<[u8; 8]> {
    packet.opened.as_ref().map(|it| it.frames.path_challenges.clone()).unwrap_or_default()
}

pub(super) fn are_validated_at_new_addresses(evidence: &Evidence<'_>) -> Verdict {
    let to_client = evidence.server.from(Sender::Server).map(|packet| packet.destination.ip());
    let addresses: BTreeSet<_> = to_client.collect();
    ensure(addresses.len() > 1, || "the client had a single address".to_owned())?;
    let found = are_validated(evidence)?;
    Ok(format!("{} client addresses, {found}", addresses.len()))
}

/// Makes the same checks as after a rebinding, and checks that the client's first packet on a new
/// path has a new Destination Connection ID.
pub(super) fn are_migrated_to(evidence: &Evidence<'_>) -> Verdict {
    let found = are_validated(evidence)?;
    let mut used: Option<Vec<u8>> = None;
    let mut paths: BTreeSet<Path> = BTreeSet::new();
    for packet in evidence.client.from(Sender::Client) {
        let is_new = paths.insert(path(packet));
        if is_new && paths.len() > 1 {
            new_id(packet, used.as_deref())?;
        }
        if packet.opened.is_some() && (is_new || used.is_none()) {
            used = Some(packet.destination_id.clone());
        }
    }
    ensure(paths.len() > 1, || "the client did not migrate".to_owned())?;
    Ok(format!("{found}; the client used a new connection ID on each path"))
}

fn new_id(packet: &Packet, used: Option<&[u8]>) -> Result<(), Fault> {
    if packet.opened.is_none() {
        return failed("the client's first packet on a new path could not be decrypted");
    }
    ensure(used != Some(packet.destination_id.as_slice()), || {
        let to = packet.destination;
        format!("the client's first packet on the new path to {to} reuses the old connection ID")
    })
}
