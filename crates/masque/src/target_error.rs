use core::fmt;

/// The reason why a target is invalid. The request is then malformed (RFC 9298 §3, RFC 9484 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TargetError {
    /// The host is empty.
    EmptyHost,
    /// The host is an IPv6 address with a zone identifier.
    ZoneIdentifier,
    /// A percent sign is not followed by two hexadecimal digits, or the decoded value is not UTF-8.
    InvalidEncoding,
    /// A DNS name has more than 253 characters, or one of its labels has more than 63.
    NameTooLong,
    /// A DNS name has an empty label or a character that is not a letter, a digit, a hyphen or an
    /// underscore.
    InvalidName,
    /// A name that some resolvers read as an IPv4 address, such as `127.1` or `0x7f000001`.
    AmbiguousAddress,
    /// The host is neither an IPv4 nor an IPv6 address, although it has colons or brackets.
    InvalidAddress,
    /// The port is empty or missing.
    EmptyPort,
    /// The port is not a decimal integer between 1 and 65535.
    InvalidPort,
    /// The variable "target" or "ipproto" of an IP tunnel is present but empty.
    EmptyScope,
    /// The prefix length is not a decimal integer, or exceeds the length of the address.
    InvalidPrefixLength,
    /// A bit of the address after the prefix length is set.
    HostBits,
    /// The variable "ipproto" is not `*` or a decimal integer between 0 and 255.
    InvalidProtocol,
    /// The variable "ipproto" is the number of an IPv6 extension header. No packet could match it,
    /// since the upper-layer protocol is compared (RFC 9484 §4.8).
    ExtensionHeader,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyHost => "the target host is empty",
            Self::ZoneIdentifier => {
                "the target host has an IPv6 zone identifier; use the address without it"
            }
            Self::InvalidEncoding => "the target has an invalid percent-encoding",
            Self::NameTooLong => {
                "the target's DNS name is too long; use at most 253 characters, and 63 per label"
            }
            Self::InvalidName => {
                "the target host is not a DNS name; write international names in ASCII (xn--…)"
            }
            Self::AmbiguousAddress => {
                "the target host ends in a number and is not an IPv4 address; write all four parts \
                 in decimal"
            }
            Self::InvalidAddress => "the target host is not a valid IPv6 address",
            Self::EmptyPort => "the target has no port",
            Self::InvalidPort => "the target port is not an integer between 1 and 65535",
            Self::EmptyScope => "the target or the IP protocol is empty; use * for any",
            Self::InvalidPrefixLength => {
                "the target's prefix length is not an integer from 0 to the address length"
            }
            Self::HostBits => "the target's address has host bits set; set them to zero",
            Self::InvalidProtocol => "the IP protocol is neither * nor an integer from 0 to 255",
            Self::ExtensionHeader => {
                "the IP protocol is an IPv6 extension header; use an upper-layer protocol"
            }
        })
    }
}

impl core::error::Error for TargetError {}
