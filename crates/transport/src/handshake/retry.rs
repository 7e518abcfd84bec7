//! Retry packets (RFC 9000 §17.2.5, RFC 9001 §5.8).

use clearway_wire::header::{Retry, has_fixed_bit};
use clearway_wire::{ConnectionId, Version, Writer};

use super::initial::retry_integrity_tag;

/// Builds a Retry of `version` from `source` to `destination`, in response to an Initial packet
/// sent to `original_destination`.
pub(crate) fn build(
    version: Version,
    destination: ConnectionId,
    source: ConnectionId,
    original_destination: ConnectionId,
    token: &[u8],
    unused: u8,
) -> Option<Vec<u8>> {
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    Retry::encode_without_tag(&mut writer, unused, version, destination, source, token).ok()?;
    let tag = retry_integrity_tag(version, &original_destination, writer.filled()).ok()?;
    writer.bytes(&tag).ok()?;
    Some(writer.filled().to_vec())
}

/// Returns whether the sender of the packet has seen our Initial packet. A packet without the fixed
/// bit is not valid in this version (RFC 9000 §17.2), even if its tag is correct, unless this
/// client `accepts_cleared_bit` (RFC 9287 §3).
pub(crate) fn is_authentic(
    packet: &Retry<'_>,
    original_destination: ConnectionId,
    accepts_cleared_bit: bool,
) -> bool {
    let has_fixed_bit = packet.without_tag.first().is_some_and(|first| has_fixed_bit(*first));
    let tag = retry_integrity_tag(packet.version, &original_destination, packet.without_tag);
    (has_fixed_bit || accepts_cleared_bit) && tag.as_ref() == Ok(&packet.integrity_tag)
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
