use core::fmt;

/// The reason why a capsule of an IP tunnel is malformed (RFC 9484 §4.7). The stream must then be
/// aborted (RFC 9297 §3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CapsuleFault {
    /// The capsule ends inside a field.
    Truncated,
    /// The IP Version is neither 4 nor 6.
    IpVersion(u8),
    /// The IP Prefix Length exceeds the length of the address.
    PrefixLength(u8),
    /// A bit of the address after the prefix length is set.
    HostBits,
    /// An ADDRESS_REQUEST capsule requests no address.
    NoRequestedAddress,
    /// An ADDRESS_REQUEST capsule has the Request ID 0.
    ZeroRequestId,
    /// A Request ID was used before.
    ReusedRequestId,
    /// An address range starts after its end.
    StartAfterEnd,
    /// The address ranges are not sorted by IP Version and IP Protocol.
    Order,
    /// Two address ranges for the same IP Protocol overlap, or are not in ascending order.
    Overlap,
    /// An address range for all protocols overlaps one for a single protocol.
    OverlapWithAnyProtocol,
    /// The capsule has too many entries, or a tunnel has too many requests.
    TooManyEntries,
}

impl fmt::Display for CapsuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the capsule ends inside a field",
            Self::IpVersion(version) => {
                return write!(f, "the capsule has the IP version {version}; it must be 4 or 6");
            }
            Self::PrefixLength(length) => {
                return write!(
                    f,
                    "the capsule has the prefix length {length}, which exceeds the address length"
                );
            }
            Self::HostBits => "an address in the capsule has host bits set",
            Self::NoRequestedAddress => "the ADDRESS_REQUEST capsule requests no address",
            Self::ZeroRequestId => "the ADDRESS_REQUEST capsule has the Request ID 0",
            Self::ReusedRequestId => "the ADDRESS_REQUEST capsule reuses a Request ID",
            Self::StartAfterEnd => "an address range in the capsule starts after its end",
            Self::Order => "the address ranges are not ordered by IP version and protocol",
            Self::Overlap => "two address ranges of the same protocol overlap or are not ascending",
            Self::OverlapWithAnyProtocol => {
                "an address range for all protocols overlaps one for a single protocol"
            }
            Self::TooManyEntries => "the capsule has too many entries",
        })
    }
}

impl core::error::Error for CapsuleFault {}
