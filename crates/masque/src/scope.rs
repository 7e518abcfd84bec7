//! The scope of IP tunnels (RFC 9484 §4.6).

use core::fmt;
use core::net::IpAddr;

use ipnet::IpNet;

use crate::host::{Host, Name, decode};
use crate::target_error::TargetError;

/// The numbers of the IPv6 extension headers that are skipped to find the upper-layer protocol (RFC
/// 8200 §4, RFC 4302, RFC 6275, RFC 7401, RFC 5533).
pub(crate) const EXTENSION_HEADERS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// The scope of an IP tunnel: the variables "target" and "ipproto" (RFC 9484 §4.6).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IpScope {
    /// The hosts that the tunnel may reach.
    pub target: ScopeTarget,
    /// The Internet Protocol Number that the tunnel may carry in addition to ICMP; `None` for any.
    pub protocol: Option<u8>,
}

/// The hosts in the scope of an IP tunnel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScopeTarget {
    /// Any host, written as `*`.
    Any,
    /// All addresses of a DNS name.
    Name(Name),
    /// All addresses of a prefix. Bits after the prefix length are zero.
    Prefix(IpNet),
}

impl IpScope {
    /// Any host and any protocol.
    pub const ANY: Self = Self { target: ScopeTarget::Any, protocol: None };

    /// Creates the scope from the percent-encoded values of the variables in a URI. A missing
    /// variable permits everything.
    ///
    /// # Errors
    /// If a value does not meet the requirements of RFC 9484 §4.6.
    pub fn from_variables(
        target: Option<&str>,
        protocol: Option<&str>,
    ) -> Result<Self, TargetError> {
        let target = match target {
            Some(target) => ScopeTarget::parse(&decode(target)?)?,
            None => ScopeTarget::Any,
        };
        let protocol = match protocol {
            Some(protocol) => parse_protocol(&decode(protocol)?)?,
            None => None,
        };
        Ok(Self { target, protocol })
    }
}

impl ScopeTarget {
    /// Parses `*`, a DNS name, or an address with or without a prefix length.
    ///
    /// # Errors
    /// If the text is something else, or a bit after the prefix length is set.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.is_empty() {
            return Err(TargetError::EmptyScope);
        }
        let (host, length) = match text.split_once('/') {
            Some((host, length)) => (host, Some(length)),
            None => (text, None),
        };
        let host = Host::parse(host)?;
        match (host.address(), length) {
            (Some(address), length) => prefix(address, length).map(Self::Prefix),
            (None, Some(_)) => Err(TargetError::InvalidName),
            (None, None) => match host {
                Host::Name(name) => Ok(Self::Name(name)),
                Host::V4(_) | Host::V6(_) => Err(TargetError::InvalidName),
            },
        }
    }
}

fn prefix(address: IpAddr, length: Option<&str>) -> Result<IpNet, TargetError> {
    let Some(length) = length else { return Ok(IpNet::from(address)) };
    let digits = if address.is_ipv4() { 1..=2 } else { 1..=3 };
    if !digits.contains(&length.len()) || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TargetError::InvalidPrefixLength);
    }
    let length = length.parse().map_err(|_| TargetError::InvalidPrefixLength)?;
    let prefix = IpNet::new(address, length).map_err(|_| TargetError::InvalidPrefixLength)?;
    if prefix.trunc() == prefix { Ok(prefix) } else { Err(TargetError::HostBits) }
}

fn parse_protocol(text: &str) -> Result<Option<u8>, TargetError> {
    match text {
        "*" => Ok(None),
        "" => Err(TargetError::EmptyScope),
        digits if digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let protocol = digits.parse().map_err(|_| TargetError::InvalidProtocol)?;
            match EXTENSION_HEADERS.contains(&protocol) {
                true => Err(TargetError::ExtensionHeader),
                false => Ok(Some(protocol)),
            }
        }
        _ => Err(TargetError::InvalidProtocol),
    }
}

impl fmt::Display for ScopeTarget {
    /// Writes the value of the variable "target", without percent-encoding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => name.fmt(f),
            Self::Prefix(prefix) if prefix.prefix_len() == prefix.max_prefix_len() => {
                prefix.addr().fmt(f)
            }
            Self::Prefix(prefix) => prefix.fmt(f),
        }
    }
}
