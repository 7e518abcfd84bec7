//! The destination of a tunnel: the host and port of a UDP or TCP tunnel (RFC 9298 §3), or the
//! scope of an IP tunnel (RFC 9484 §4.6).

use core::fmt;
use core::num::NonZeroU16;

pub use crate::host::{Host, Name};
pub use crate::scope::{IpScope, ScopeTarget};
pub use crate::target_error::TargetError;

use crate::host::decode;

/// The target of a UDP or TCP tunnel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: NonZeroU16,
}

impl Target {
    /// Creates the target from the percent-encoded values of the variables "target_host" and
    /// "target_port" in a URI (RFC 9298 §3).
    ///
    /// # Errors
    /// If the host or the port does not meet the requirements of RFC 9298 §3.
    pub fn from_variables(host: &str, port: &str) -> Result<Self, TargetError> {
        let host = Host::parse(&decode(host)?)?;
        Ok(Self { host, port: parse_port(&decode(port)?)? })
    }

    /// Creates the target from the authority of a classic CONNECT request: a host and a port (RFC
    /// 9110 §9.3.6). IPv6 addresses must be in brackets.
    ///
    /// # Errors
    /// If the host or the port is missing or invalid.
    pub fn from_authority(authority: &str) -> Result<Self, TargetError> {
        let (host, port) = authority.rsplit_once(':').ok_or(TargetError::EmptyPort)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(address) => match Host::parse(address)? {
                host @ Host::V6(_) => host,
                _ => return Err(TargetError::InvalidAddress),
            },
            None if host.contains(':') => return Err(TargetError::InvalidAddress),
            None => Host::parse(&decode(host)?)?,
        };
        Ok(Self { host, port: parse_port(port)? })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::V6(address) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// The destination in a request: the values of the template's variables.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Values {
    /// The target of a UDP or TCP tunnel.
    Target(Target),
    /// The scope of an IP tunnel.
    Scope(IpScope),
}

/// Parses a decimal port between 1 and 65535 (RFC 9298 §3).
fn parse_port(text: &str) -> Result<NonZeroU16, TargetError> {
    if text.is_empty() {
        return Err(TargetError::EmptyPort);
    }
    // `parse` accepts a leading plus sign.
    let is_digits = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = is_digits.then(|| text.parse().ok()).flatten();
    port.ok_or(TargetError::InvalidPort)
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
