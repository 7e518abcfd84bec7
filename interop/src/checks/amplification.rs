//! The anti-amplification limit, which restricts how much a server may send to an unvalidated
//! address (RFC 9000 §8.1).

use std::collections::BTreeSet;

use super::{Evidence, Verdict, ensure, failed};
use crate::capture::{Kind, Packet, Sender};

/// Minimum number of handshake bytes, if the server uses the long certificate chain.
const LEAST_HANDSHAKE: u64 = 7500;
/// Minimum length of a connection ID that can prove that the client has received it.
const LEAST_ID: usize = 8;

/// Checks that the server sends at most three times the bytes it has received until it has
/// validated the client's address.
pub(super) fn is_limited(evidence: &Evidence<'_>) -> Verdict {
    let ends = evidence.server.connections.iter().map(|it| it.server_handshake().end());
    let end = ends.max().unwrap_or(0);
    ensure(end >= LEAST_HANDSHAKE, || {
        format!(
            "the server's handshake has only {end} bytes: it does not use the long \
            certificate chain"
        )
    })?;
    let initials = evidence.server.of(Sender::Server, Kind::Initial);
    let ids: BTreeSet<&[u8]> =
        initials.map(|it| it.source_id.as_slice()).filter(|id| id.len() >= LEAST_ID).collect();
    let (mut received, mut sent, mut counted) = (0, 0, BTreeSet::new());
    let mut notes = Vec::new();
    for packet in &evidence.server.packets {
        let (datagram, size) = packet.datagram;
        match packet.kind {
            Kind::VersionNegotiation => return failed("there is a Version Negotiation packet"),
            Kind::Unknown => return failed("there is a packet of an unknown type"),
            _ => {}
        }
        if packet.sender == Sender::Client && validates(packet, &ids) {
            notes.insert(
                0,
                format!(
                    "{sent} bytes sent and {received} received before address \
                    validation"
                ),
            );
            return Ok(notes.join("; "));
        }
        if !counted.insert(datagram) {
            continue;
        }
        match packet.sender {
            Sender::Client => received += size,
            Sender::Server => {
                sent += size;
                ensure(sent < 4 * received, || {
                    format!("the server sent {sent} bytes after receiving {received}")
                })?;
                if sent > 3 * received && notes.is_empty() {
                    // The public interop runner accepts this.
                    notes.push("more than three times, but less than four".to_owned());
                }
            }
        }
    }
    failed("the client's address was never validated")
}

fn validates(packet: &Packet, ids: &BTreeSet<&[u8]>) -> bool {
    packet.kind == Kind::Handshake
        || packet.kind == Kind::Initial && ids.contains(packet.destination_id.as_slice())
}
