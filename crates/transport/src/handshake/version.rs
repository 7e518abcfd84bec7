//! Stateless parts of version negotiation (RFC 9000 §6, RFC 9368).

use clearway_units::Random;
use clearway_wire::header::VersionNegotiation;
use clearway_wire::{TransportErrorCode, Version, VersionInformation, Writer};

use crate::TransportError;

/// The minimum size of a datagram that is answered (RFC 9000 §6.1).
const MINIMUM_TRIGGER: usize = 1200;
/// The length of the version prefix of a token.
const VERSION_LEN: usize = 4;

/// Builds a Version Negotiation packet that lists `spoken`, from `source` to `destination`, in
/// response to a datagram of `trigger_len` bytes with another version; `None` if the datagram is
/// too small to be answered.
pub(crate) fn negotiate(
    spoken: &[Version],
    trigger_len: usize,
    destination: &[u8],
    source: &[u8],
    random: &mut Random,
) -> Option<Vec<u8>> {
    if trigger_len < MINIMUM_TRIGGER {
        return None;
    }
    let [unused, bits @ ..] = random.array::<5>();
    let mut versions = spoken.to_vec();
    // A reserved version, so that clients keep ignoring unknown ones (RFC 9000 §6.3).
    versions.push(Version::reserved(u32::from_be_bytes(bits)));
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    VersionNegotiation::encode(&mut writer, unused, source, destination, &versions).ok()?;
    Some(writer.filled().to_vec())
}

/// Returns the first of `preferred` that is among `offered`.
pub(crate) fn select(preferred: &[Version], offered: &[Version]) -> Option<Version> {
    preferred.iter().copied().find(|version| offered.contains(version))
}

/// Returns the version that a server negotiates for a first flight of version `original` (RFC 9368
/// §2.3): the first of `preferred` that the client offers. All versions in [`Version::KNOWN`] are
/// compatible with each other (RFC 9369 §4). A client whose information is missing or wrong stays
/// in its version, and the handshake detects the error.
pub(crate) fn compatible(
    preferred: &[Version],
    original: Version,
    client: Option<&VersionInformation>,
) -> Version {
    client
        .filter(|client| client.chosen == original)
        .and_then(|client| select(preferred, &client.available))
        .unwrap_or(original)
}

/// The client's view of the connection's versions when the server's version information arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// The versions that the client supports, the preferred one first.
    pub(crate) spoken: &'a [Version],
    /// The version of the client's first flight.
    pub(crate) chosen: Version,
    /// The version of the server's packets.
    pub(crate) negotiated: Version,
    /// Whether the client chose its version because of a Version Negotiation packet.
    pub(crate) has_reacted: bool,
}

/// Checks a server's version information (RFC 9368 §4).
///
/// # Errors
/// Returns VERSION_NEGOTIATION_ERROR if the version was not offered, differs from the version of
/// the server's packets, or would have been different without a forged Version Negotiation packet.
pub(crate) fn check_server(
    server: Option<&VersionInformation>,
    expected: Expected<'_>,
) -> Result<(), TransportError> {
    let Expected { spoken, chosen, negotiated, has_reacted } = expected;
    let Some(server) = server else {
        // A server that supports only version 1 need not support version information; it is treated
        // as if it had listed only that version (RFC 9368 §8).
        let is_excused = negotiated == chosen && (!has_reacted || negotiated == Version::V1);
        let missing = error("the server's version information is missing");
        return if is_excused { Ok(()) } else { Err(missing) };
    };
    if !spoken.contains(&server.chosen) {
        return Err(error("the server chose a version that was not offered"));
    }
    if server.chosen != negotiated {
        return Err(error("the version of the server's packets differs from its chosen version"));
    }
    if !has_reacted {
        return Ok(());
    }
    if server.available.is_empty() {
        return Err(error("the server's version list is empty after a Version Negotiation packet"));
    }
    let mut offered = server.available.clone();
    offered.push(negotiated);
    if select(spoken, &offered) == Some(chosen) {
        Ok(())
    } else {
        Err(error("the server's version list contradicts the Version Negotiation packet"))
    }
}

/// Checks a client's version information, if any: it must contain the version of the client's first
/// flight (RFC 9368 §4).
///
/// # Errors
/// Returns VERSION_NEGOTIATION_ERROR if the information does not match.
pub(crate) fn check_client(
    client: Option<&VersionInformation>,
    original: Version,
) -> Result<(), TransportError> {
    match client {
        Some(client) if client.chosen != original => {
            Err(error("the version of the client's packets differs from its chosen version"))
        }
        _ => Ok(()),
    }
}

const fn error(what: &'static str) -> TransportError {
    TransportError::rule(TransportErrorCode::VERSION_NEGOTIATION_ERROR, what, "RFC 9368 §4")
}

/// Returns a server's token in the form stored by a client's application: prefixed with the version
/// of its connection, the only one in which it may be used (RFC 9369 §5).
pub(crate) fn with_version(version: Version, token: &[u8]) -> Vec<u8> {
    [&version.0.to_be_bytes(), token].concat()
}

/// Extracts the server's token from one created by [`with_version`]; empty if the token was issued
/// on a connection of another version.
pub(crate) fn token_for(version: Version, kept: &[u8]) -> Vec<u8> {
    match kept.split_first_chunk::<VERSION_LEN>() {
        Some((of, token)) if *of == version.0.to_be_bytes() => token.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
