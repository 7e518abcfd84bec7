//! Hosts of targets: DNS names and addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::target_error::TargetError;

/// Maximum length of a label in a DNS name (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// A DNS name in lower case, without a trailing dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(Box<str>);

impl Name {
    /// Maximum length in characters, without a trailing dot.
    pub const MAX_LENGTH: usize = 253;

    /// Parses a name, and converts it to lower case. A trailing dot is removed.
    ///
    /// # Errors
    /// If the name is empty or too long, has a character other than letters, digits, hyphens,
    /// underscores and dots, or could be read as an IPv4 address.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(TargetError::EmptyHost);
        }
        if name.len() > Self::MAX_LENGTH {
            return Err(TargetError::NameTooLong);
        }
        for label in name.split('.') {
            if label.len() > MAX_LABEL {
                return Err(TargetError::NameTooLong);
            }
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if label.is_empty() || !label.bytes().all(is_valid) {
                return Err(TargetError::InvalidName);
            }
        }
        if ends_in_a_number(name) {
            return Err(TargetError::AmbiguousAddress);
        }
        Ok(Self(name.to_ascii_lowercase().into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this name is `domain` or a name below it.
    pub fn is_within(&self, domain: &Self) -> bool {
        match self.0.strip_suffix(&*domain.0) {
            Some(before) => before.is_empty() || before.ends_with('.'),
            None => false,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether the last label is a decimal, octal or hexadecimal number. `getaddrinfo` and
/// browsers read such names as IPv4 addresses; no top-level domain is a number.
fn ends_in_a_number(name: &str) -> bool {
    let label = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The host of a target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// A DNS name.
    Name(Name),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
}

impl Host {
    /// Parses a DNS name, an IPv4 address or an IPv6 address without brackets.
    ///
    /// # Errors
    /// If the text is something else, or an IPv6 address with a zone identifier.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text.contains(':') {
            if text.contains('%') {
                return Err(TargetError::ZoneIdentifier);
            }
            return text.parse().map(Self::V6).map_err(|_| TargetError::InvalidAddress);
        }
        match text.parse() {
            Ok(address) => Ok(Self::V4(address)),
            Err(_) => Name::parse(text).map(Self::Name),
        }
    }

    /// Returns the address if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(address),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => address.fmt(f),
        }
    }
}

/// Removes one layer of percent-encoding from a variable's value.
pub(crate) fn decode(value: &str) -> Result<Cow<'_, str>, TargetError> {
    let is_valid = value.split('%').skip(1).all(|part| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !is_valid {
        return Err(TargetError::InvalidEncoding);
    }
    percent_decode_str(value).decode_utf8().map_err(|_| TargetError::InvalidEncoding)
}
