use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use std::io;

use url::Url;

use clearway::rustls::pki_types::ServerName;

/// The path of DoH queries unless the URL has another one.
const DOH_PATH: &str = "/dns-query";
/// The template expression (RFC 8484 §4.1) that may follow a DoH URL.
const TEMPLATE: &str = "{?dns}";

/// The protocol used to send queries to an upstream server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum UpstreamProtocol {
    /// DNS over QUIC (RFC 9250): `quic://`, port 853.
    Quic,
    /// DNS over HTTP/3 (RFC 8484): `https://` or `h3://`, port 443.
    Https,
    /// DNS over TLS (RFC 7858): `tls://`, port 853.
    Tls,
    /// UDP, and TCP for truncated responses: `udp://`, port 53.
    Udp,
    /// TCP: `tcp://`, port 53.
    Tcp,
}

impl UpstreamProtocol {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Https => "https",
            Self::Tls => "tls",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Quic | Self::Tls => 853,
            Self::Https => 443,
            Self::Udp | Self::Tcp => 53,
        }
    }

    /// Returns whether queries are encrypted, and the server has a certificate.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Quic | Self::Https | Self::Tls)
    }
}

/// The address of an upstream server, parsed from a URL such as `quic://dns.example`.
///
/// The host is a name, which the system's resolver resolves for each new connection, or an IP
/// address. The fragment is the name in the server's certificate if it is not the host:
/// `tls://192.0.2.1#dns.example`. The path of an `https` URL is `/dns-query` by default.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Upstream {
    protocol: UpstreamProtocol,
    /// A name, or an IP address without brackets.
    host: String,
    port: u16,
    /// The name in the certificate, if it is not the host.
    name: Option<String>,
    /// The path of a DoH server.
    path: String,
}

impl Upstream {
    /// Returns how queries are sent.
    pub const fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// Returns the name or the address that the server's certificate must be valid for.
    pub fn server_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.host)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the authority of HTTP requests.
    pub(crate) fn authority(&self) -> String {
        let name = bracketed(self.server_name());
        match self.port == self.protocol.port() {
            true => name,
            false => format!("{name}:{}", self.port),
        }
    }

    /// Returns the server's addresses.
    pub(crate) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let addresses: Vec<_> = addresses.collect();
        match addresses.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
            false => Ok(addresses),
        }
    }
}

/// Puts an IPv6 address in brackets.
fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.scheme(), bracketed(&self.host))?;
        if self.port != self.protocol.port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)?;
        match &self.name {
            Some(name) => write!(f, "#{name}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let url = Url::parse(text.strip_suffix(TEMPLATE).unwrap_or(text));
        let url = url.map_err(|_| UpstreamError::NotUrl)?;
        let protocol = match url.scheme() {
            "quic" => UpstreamProtocol::Quic,
            "https" | "h3" => UpstreamProtocol::Https,
            "tls" => UpstreamProtocol::Tls,
            "udp" => UpstreamProtocol::Udp,
            "tcp" => UpstreamProtocol::Tcp,
            // Without a scheme, "host:port" looks like one.
            _ if url.cannot_be_a_base() => return Err(UpstreamError::NotUrl),
            other => return Err(UpstreamError::UnknownScheme(other.to_owned())),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(UpstreamError::NoHost)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port().unwrap_or(protocol.port());
        let name = url.fragment().filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(part) = unexpected(&url, protocol) {
            return Err(UpstreamError::Unexpected(part));
        }
        if protocol == UpstreamProtocol::Quic && port == 53 {
            return Err(UpstreamError::Port53);
        }
        let path = match (protocol, url.path()) {
            (UpstreamProtocol::Https, "" | "/") => DOH_PATH.to_owned(),
            (UpstreamProtocol::Https, path) => path.to_owned(),
            _ => String::new(),
        };
        let upstream = Self { protocol, host, port, name, path };
        if protocol.is_encrypted()
            && ServerName::try_from(upstream.server_name().to_owned()).is_err()
        {
            return Err(UpstreamError::InvalidName(upstream.server_name().to_owned()));
        }
        Ok(upstream)
    }
}

/// Returns the part of a URL that the protocol does not use, if any.
fn unexpected(url: &Url, protocol: UpstreamProtocol) -> Option<&'static str> {
    if !url.username().is_empty() || url.password().is_some() {
        return Some("a user name");
    }
    if url.query().is_some() {
        return Some("a query");
    }
    if protocol != UpstreamProtocol::Https && !matches!(url.path(), "" | "/") {
        return Some("a path");
    }
    (url.fragment().is_some() && !protocol.is_encrypted()).then_some("a certificate name")
}

/// The reason why a text is not the URL of an upstream server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The text is not a URL.
    NotUrl,
    /// No upstream protocol has this scheme.
    UnknownScheme(String),
    /// The URL has no host.
    NoHost,
    /// The URL has a part that its protocol does not use.
    Unexpected(&'static str),
    /// DoQ must not use port 53 (RFC 9250 §4.1.1).
    Port53,
    /// No certificate can be valid for this name.
    InvalidName(String),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORMS: &str = "quic://HOST, https://HOST/dns-query, tls://HOST, udp://ADDRESS or \
            tcp://ADDRESS";
        match self {
            Self::NotUrl => write!(f, "it is not a URL; write it as {FORMS}"),
            Self::UnknownScheme(scheme) => {
                write!(f, "\"{scheme}\" is not an upstream protocol; use {FORMS}")
            }
            Self::NoHost => f.write_str("the URL has no host"),
            Self::Unexpected(part) => write!(f, "{part} has no meaning in this URL; remove it"),
            Self::Port53 => f.write_str(
                "DNS over QUIC must not use port 53 (RFC 9250 §4.1.1); the usual port is 853",
            ),
            Self::InvalidName(name) => {
                write!(f, "no certificate can be valid for the name {name:?}")
            }
        }
    }
}

impl core::error::Error for UpstreamError {}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod upstream_tests;
