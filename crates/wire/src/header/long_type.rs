use crate::{LongPacketType, Version};

/// The meaning of a long header's Type field (RFC 9000 §17.2, RFC 9369 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LongType {
    /// A packet with frames.
    Frames(LongPacketType),
    /// A Retry packet.
    Retry,
}

impl LongType {
    /// Returns the type's value in version 1, from 0. The values of version 2 are greater by 1,
    /// modulo 4.
    const fn position(self) -> u8 {
        match self {
            Self::Frames(LongPacketType::Initial) => 0,
            Self::Frames(LongPacketType::ZeroRtt) => 1,
            Self::Frames(LongPacketType::Handshake) => 2,
            Self::Retry => 3,
        }
    }

    /// Returns the Type field's two bits at their position in the first byte; `None` if the version
    /// is unknown.
    pub(super) const fn bits(self, version: Version) -> Option<u8> {
        match first_value(version) {
            Some(first) => Some((self.position().wrapping_add(first) & 0x03) << 4),
            None => None,
        }
    }

    /// Returns the type of a packet with this first byte; `None` if the version is unknown.
    pub(super) const fn of(first_byte: u8, version: Version) -> Option<Self> {
        let Some(first) = first_value(version) else { return None };
        Some(match (first_byte >> 4).wrapping_sub(first) & 0x03 {
            0 => Self::Frames(LongPacketType::Initial),
            1 => Self::Frames(LongPacketType::ZeroRtt),
            2 => Self::Frames(LongPacketType::Handshake),
            _ => Self::Retry,
        })
    }
}

/// Returns the Type field's value for an Initial packet; `None` if the version is unknown.
const fn first_value(version: Version) -> Option<u8> {
    match version {
        Version::V1 => Some(0b00),
        Version::V2 => Some(0b01),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [LongType; 4] = [
        LongType::Frames(LongPacketType::Initial),
        LongType::Frames(LongPacketType::ZeroRtt),
        LongType::Frames(LongPacketType::Handshake),
        LongType::Retry,
    ];

    #[test]
    fn the_values_of_both_versions() {
        let bits = |version| TYPES.map(|it| it.bits(version).unwrap() >> 4);
        assert_eq!(bits(Version::V1), [0b00, 0b01, 0b10, 0b11]);
        assert_eq!(bits(Version::V2), [0b01, 0b10, 0b11, 0b00]);
    }

    #[test]
    fn a_value_stands_for_the_type_that_it_was_made_from() {
        for version in Version::KNOWN {
            for it in TYPES {
                for other_bits in [0x00, 0xcf] {
                    let first_byte = other_bits | it.bits(version).unwrap();
                    assert_eq!(LongType::of(first_byte, version), Some(it));
                }
            }
        }
    }

    #[test]
    fn other_versions_have_no_types() {
        for version in [Version::NEGOTIATION, Version(2), Version::reserved(7)] {
            assert_eq!(LongType::of(0xc0, version), None);
            assert!(TYPES.iter().all(|it| it.bits(version).is_none()));
        }
    }
}
