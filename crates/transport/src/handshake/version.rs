//! Version negotiation (RFC 9000 §6).

use clearway_units::Random;
use clearway_wire::header::VersionNegotiation;
use clearway_wire::{Version, Writer};

/// The version that this crate speaks.
const SUPPORTED: Version = Version::V1;
/// §6.1: smaller datagrams are not answered.
const MINIMUM_TRIGGER: usize = 1200;

/// Whether connections of `version` can be accepted.
pub(crate) fn is_supported(version: Version) -> bool {
    version == SUPPORTED
}

/// The answer to a datagram of `trigger_len` bytes with an unknown version, from `source` to
/// `destination`; `None` if it is too small to be answered.
pub(crate) fn negotiate(
    trigger_len: usize,
    destination: &[u8],
    source: &[u8],
    random: &mut Random,
) -> Option<Vec<u8>> {
    if trigger_len < MINIMUM_TRIGGER {
        return None;
    }
    let [unused, a, b, c, d] = random.array::<5>();
    // §6.3: a reserved version keeps clients honest about ignoring what they do not know.
    let reserved = u32::from_be_bytes([a, b, c, d]) & 0xf0f0_f0f0 | 0x0a0a_0a0a;
    let versions = [SUPPORTED, Version(reserved)];
    let mut buffer = [0; 1200];
    let mut writer = Writer::new(&mut buffer);
    VersionNegotiation::encode(&mut writer, unused, source, destination, &versions).ok()?;
    Some(writer.filled().to_vec())
}

/// Whether a Version Negotiation packet ends a client's attempt: one that lists the version it used
/// is to be ignored (§6.2).
pub(crate) fn is_final(packet: &VersionNegotiation<'_>) -> bool {
    packet.versions().all(|version| !is_supported(version))
}

#[cfg(test)]
mod tests;
