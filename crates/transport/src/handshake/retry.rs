//! Retry packets (RFC 9000 §17.2.5, RFC 9001 §5.8).

use clearway_wire::header::Retry;
use clearway_wire::{ConnectionId, Version, Writer};

use super::initial::retry_integrity_tag;

/// A Retry from `source` to `destination`, in answer to an Initial sent to `original_destination`.
pub(crate) fn build(
    destination: ConnectionId,
    source: ConnectionId,
    original_destination: ConnectionId,
    token: &[u8],
    unused: u8,
) -> Option<Vec<u8>> {
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    Retry::encode_without_tag(&mut writer, unused, Version::V1, destination, source, token).ok()?;
    let tag = retry_integrity_tag(&original_destination, writer.filled()).ok()?;
    writer.bytes(&tag).ok()?;
    Some(writer.filled().to_vec())
}

/// The Fixed Bit of a long header.
const FIXED_BIT: u8 = 0x40;

/// Whether the packet was made by someone who saw our Initial. One without the Fixed Bit is no packet of this version
/// (RFC 9000 §17.2), whatever its tag is.
pub(crate) fn is_authentic(packet: &Retry<'_>, original_destination: ConnectionId) -> bool {
    packet.without_tag.first().is_some_and(|first| first & FIXED_BIT != 0)
        && retry_integrity_tag(&original_destination, packet.without_tag).as_ref()
            == Ok(&packet.integrity_tag)
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
