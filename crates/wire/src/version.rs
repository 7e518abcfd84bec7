use core::fmt;

/// A QUIC version (RFC 9000 §15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// The value of the Version field in a Version Negotiation packet.
    pub const NEGOTIATION: Self = Self(0);
    /// QUIC version 1, RFC 9000.
    pub const V1: Self = Self(1);
    /// QUIC version 2, RFC 9369.
    pub const V2: Self = Self(0x6b33_43cf);
    /// The versions whose packets this crate reads and writes.
    pub const KNOWN: [Self; 2] = [Self::V1, Self::V2];

    /// Returns a version of the form 0x?a?a?a?a, with its other bits taken from `bits`.
    pub const fn reserved(bits: u32) -> Self {
        Self(bits & 0xf0f0_f0f0 | 0x0a0a_0a0a)
    }

    /// Returns whether this crate reads and writes packets of the version.
    pub const fn is_known(self) -> bool {
        self.0 == Self::V1.0 || self.0 == Self::V2.0
    }

    /// Returns whether the version has the form 0x?a?a?a?a: such versions are never real, but
    /// reserved to exercise version negotiation (RFC 9000 §6.3).
    pub const fn is_reserved(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_versions() {
        for version in [0x0a0a_0a0a, 0x1a2a_3a4a, 0xfafa_fafa] {
            assert!(Version(version).is_reserved());
        }
        for version in [0, 1, 0x0a0a_0a0b, 0x1a2a_3a40, 0x6b33_43cf] {
            assert!(!Version(version).is_reserved());
        }
        for bits in [0, u32::MAX, 0x1234_5678] {
            assert!(Version::reserved(bits).is_reserved());
        }
        assert_eq!(Version::reserved(0x1234_5678), Version(0x1a3a_5a7a));
    }

    #[test]
    fn known_versions() {
        assert!(Version::KNOWN.into_iter().all(Version::is_known));
        assert_eq!(Version::V2, Version(0x6b33_43cf));
        for version in [Version::NEGOTIATION, Version(2), Version(0x709a_50c4)] {
            assert!(!version.is_known());
        }
    }

    #[test]
    fn shown_in_hexadecimal() {
        assert_eq!(Version::V1.to_string(), "0x00000001");
        assert_eq!(format!("{:?}", Version::NEGOTIATION), "Version(0x00000000)");
    }
}
