use core::fmt;

use http::StatusCode;

use crate::proxy_status::ProxyError;

/// The reason why a target is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A loopback address, or a name below `localhost`.
    Loopback,
    /// The unspecified address, or another one in 0.0.0.0/8.
    Unspecified,
    /// A link-local address, or a name below `local`.
    LinkLocal,
    /// An address for private use (RFC 1918).
    Private,
    /// An address in the Shared Address Space, 100.64.0.0/10 (RFC 6598).
    Shared,
    /// A unique-local or site-local address.
    UniqueLocal,
    /// A multicast address.
    Multicast,
    /// The limited broadcast address.
    Broadcast,
    /// An address for documentation.
    Documentation,
    /// A benchmarking address (RFC 2544, RFC 5180).
    Benchmarking,
    /// An address that is reserved or unallocated.
    Reserved,
    /// An address of the proxy's own host.
    OwnAddress,
    /// A rule denies the name.
    DeniedName,
    /// A rule denies the network.
    DeniedNetwork,
    /// The port is denied by a rule or by default.
    DeniedPort,
    /// The policy is closed, and no rule allows the target.
    NotAllowed,
}

impl Refusal {
    /// Returns the error type for the Proxy-Status field (RFC 9298 §7).
    pub const fn proxy_error(self) -> ProxyError {
        match self {
            Self::DeniedName | Self::DeniedPort | Self::NotAllowed => ProxyError::HttpRequestDenied,
            _ => ProxyError::DestinationIpProhibited,
        }
    }

    /// Returns the status of the response.
    pub fn status(self) -> StatusCode {
        self.proxy_error().status()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "the target is a loopback address",
            Self::Unspecified => "the target is an unspecified address",
            Self::LinkLocal => "the target is a link-local address",
            Self::Private => "the target is a private address",
            Self::Shared => "the target is in the shared address space (RFC 6598)",
            Self::UniqueLocal => "the target is a unique-local address",
            Self::Multicast => "the target is a multicast address",
            Self::Broadcast => "the target is a broadcast address",
            Self::Documentation => "the target is a documentation address",
            Self::Benchmarking => "the target is a benchmarking address",
            Self::Reserved => "the target is a reserved address",
            Self::OwnAddress => "the target is an address of the proxy",
            Self::DeniedName => "a rule denies the target's name",
            Self::DeniedNetwork => "a rule denies the target's network",
            Self::DeniedPort => "the target's port is denied; a rule with this port can allow it",
            Self::NotAllowed => "no rule allows the target",
        })
    }
}

impl core::error::Error for Refusal {}
