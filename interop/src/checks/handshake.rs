//! Checks of handshakes: their number, version, Retry, resumption, 0-RTT, cipher suites and key
//! updates.

use std::collections::BTreeSet;

use super::{Evidence, Fault, Verdict, ensure, failed};
use crate::capture::{Connection, Kind, Packet, Sender, V1};
use crate::network::Network;

/// The cipher suite TLS_CHACHA20_POLY1305_SHA256.
const CHACHA20: u64 = 0x1303;
/// The transport parameter initial_max_streams_bidi.
const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
/// Maximum initial stream limit that the server may advertise in the multiplexing test.
const MOST_STREAMS: u64 = 1000;
/// Maximum number of request bytes in 1-RTT packets in the 0-RTT test: half of 40 names of 250
/// characters.
const MOST_1RTT_BYTES: usize = 40 * 250 / 2;

/// Checks that there were `count` handshakes, all in version 1. Handshakes are counted by the
/// connection IDs in the server's Initial packets.
///
/// A server may start a connection for an Initial packet with a corrupted connection ID, and close
/// it when no further packets arrive. Such a connection is not counted, because the server sends no
/// handshake messages on it.
pub(super) fn in_version_1(evidence: &Evidence<'_>, count: usize) -> Result<(), Fault> {
    let is_corrupt = matches!(evidence.test.network, Network::Corruption { .. });
    let has_message = |packet: &&Packet| {
        packet.opened.as_ref().is_some_and(|opened| !opened.frames.crypto.is_empty())
    };
    let initials = || {
        let initials = evidence.server.of(Sender::Server, Kind::Initial);
        initials.filter(move |packet| !is_corrupt || has_message(packet))
    };
    let ids: BTreeSet<&[u8]> = initials().map(|packet| packet.source_id.as_slice()).collect();
    ensure(ids.len() == count, || format!("{} handshakes instead of {count}", ids.len()))?;
    let other = initials().find(|packet| packet.version != V1);
    ensure(other.is_none(), || {
        let version = other.map_or(0, |packet| packet.version);
        format!("the server used version {version:#x} instead of 1")
    })
}

pub(super) fn without_retry(evidence: &Evidence<'_>) -> Verdict {
    match evidence.client.of(Sender::Server, Kind::Retry).next() {
        Some(_) => failed("the server sent a Retry packet"),
        None => Ok("1 handshake".to_owned()),
    }
}

/// Checks that the client retransmits its ClientHello before the server's first response arrives.
pub(super) fn repeats_client_hello(evidence: &Evidence<'_>) -> Verdict {
    without_retry(evidence)?;
    let begins = |packet: &&Packet| {
        let crypto = packet.opened.as_ref().map(|opened| opened.frames.crypto.as_slice());
        crypto.unwrap_or_default().iter().any(|(offset, _)| *offset == 0)
    };
    let count = evidence.client.of(Sender::Client, Kind::Initial).filter(begins).count();
    ensure(count >= 2, || {
        format!(
            "the client sent {count} ClientHello messages, expected 2 or \
        more"
        )
    })?;
    Ok(format!("{count} ClientHello messages"))
}

pub(super) fn offers_only_chacha20(evidence: &Evidence<'_>) -> Verdict {
    let hellos = evidence.client.connections.iter().filter_map(Connection::client_hello);
    let offered: BTreeSet<u64> = hellos.flat_map(|hello| hello.cipher_suites).collect();
    ensure(offered == BTreeSet::from([CHACHA20]), || {
        format!("the client offered the cipher suites {offered:#x?}")
    })?;
    Ok("only TLS_CHACHA20_POLY1305_SHA256 was offered".to_owned())
}

/// Checks that the client sends the token from a Retry packet, and does not reset its packet
/// numbers.
pub(super) fn uses_retry_token(evidence: &Evidence<'_>) -> Verdict {
    let retries = evidence.client.of(Sender::Server, Kind::Retry);
    let tokens: BTreeSet<&[u8]> = retries.map(|packet| packet.token.as_slice()).collect();
    ensure(!tokens.is_empty(), || "the server sent no Retry packet".to_owned())?;
    ensure(!tokens.contains(&[][..]), || "a Retry packet has no token".to_owned())?;
    let mut highest = None;
    for packet in evidence.client.of(Sender::Client, Kind::Initial) {
        let number = packet.opened.as_ref().map(|opened| opened.number);
        if packet.token.is_empty() {
            highest = highest.max(number);
            continue;
        }
        ensure(number > highest, || {
            format!("packet number {number:?} after the Retry packet is not above {highest:?}")
        })?;
        if tokens.contains(packet.token.as_slice()) {
            return Ok("the client returned the token".to_owned());
        }
    }
    failed("no Initial packet has the token of a Retry packet")
}

/// Checks that the server allows at most 1000 streams initially, so that the 1999 requests need
/// more stream credit.
pub(super) fn limits_streams(evidence: &Evidence<'_>) -> Verdict {
    let mut connections = evidence.client.connections.iter();
    let limit = connections.find_map(|connection| {
        connection.server_handshake().transport_parameter(INITIAL_MAX_STREAMS_BIDI)
    });
    let Some(limit) = limit else {
        return failed("cannot find the server's initial_max_streams_bidi");
    };
    ensure(limit <= MOST_STREAMS, || format!("the server initially allows {limit} streams"))?;
    Ok(format!("initially {limit} streams"))
}

/// Checks that the first handshake contains a Certificate message, and the second one does not.
pub(super) fn is_resumed(evidence: &Evidence<'_>) -> Verdict {
    let certificates: Vec<bool> = evidence
        .client
        .connections
        .iter()
        .map(|connection| connection.server_handshake().has_certificate())
        .collect();
    match certificates.as_slice() {
        [true, false] => Ok("no Certificate in the second handshake".to_owned()),
        [false, ..] => failed("no Certificate was found in the first handshake"),
        [true, true] => failed("the server sent a Certificate in the second handshake"),
        other => failed(format!("{} connections were found", other.len())),
    }
}

/// Checks that the client sends data in 0-RTT packets, and sends at most half of its requests in
/// 1-RTT packets.
pub(super) fn has_early_data(evidence: &Evidence<'_>) -> Verdict {
    let size = |kind| -> usize {
        evidence.client.of(Sender::Client, kind).map(|packet| packet.protected_length).sum()
    };
    let (early, late) = (size(Kind::ZeroRtt), size(Kind::OneRtt));
    ensure(early > 0, || "the client sent no 0-RTT packets".to_owned())?;
    ensure(late <= MOST_1RTT_BYTES, || {
        format!("the client sent {late} bytes in 1-RTT packets and {early} in 0-RTT packets")
    })?;
    Ok(format!("the client sent {early} bytes in 0-RTT packets and {late} in 1-RTT packets"))
}

/// Checks that both endpoints send packets in key phase 1.
pub(super) fn updates_keys(evidence: &Evidence<'_>) -> Verdict {
    let count = |packets: &mut dyn Iterator<Item = &Packet>| {
        packets.filter(|packet| packet.opened.as_ref().is_some_and(|it| it.key_phase)).count()
    };
    let client = count(&mut evidence.client.of(Sender::Client, Kind::OneRtt));
    let server = count(&mut evidence.server.of(Sender::Server, Kind::OneRtt));
    ensure(client > 0 && server > 0, || {
        format!("packets in key phase 1: {client} from the client, {server} from the server")
    })?;
    Ok(format!("client and server sent {client} and {server} packets in key phase 1"))
}
