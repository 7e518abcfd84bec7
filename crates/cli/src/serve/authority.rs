//! The authorities that the server serves.

use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use clearway::Certificates;
use http::Uri;

/// The value that matches every authority.
const ANY: &str = "*";

/// The options for authorities.
#[derive(Args, Default, Debug)]
pub(super) struct AuthorityOptions {
    /// Also accept requests for this host name. May be repeated; * means all names.
    ///
    /// Use it with a proxy whose requests have a host name that is in no certificate and differs
    /// from the name of its TLS connection. By default, the server accepts the names of the
    /// certificates, IP addresses, and the name of the TLS connection (SNI); other requests get 421
    /// (Misdirected Request).
    #[arg(long = "host-name", value_name = "NAME", value_parser = host_name)]
    host_names: Vec<String>,
}

/// Parses a host name, an IP address without brackets, or `*`.
fn host_name(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    match text == "*" || (!text.is_empty() && text.bytes().all(is_valid)) {
        true => Ok(text.to_owned()),
        false => Err("expected a host name without scheme and port, or * for all names".to_owned()),
    }
}

impl AuthorityOptions {
    /// Returns the authorities that a server with these certificates serves.
    pub(super) fn authorities(&self, certificates: Arc<Certificates>) -> Authorities {
        Authorities { certificates, names: self.host_names.clone().into() }
    }
}

/// The authorities that the server serves (docs/decisions/0082-authorities-of-others-get-421.md).
#[derive(Clone, Debug)]
pub(super) struct Authorities {
    /// The certificates, which may be replaced while the server runs.
    certificates: Arc<Certificates>,
    names: Arc<[String]>,
}

impl Authorities {
    /// Returns whether a request for `uri` is served, on a connection whose client requested
    /// `server_name` (SNI). Ports are ignored: the client's port may have been forwarded to another
    /// one.
    pub(super) fn include(&self, uri: &Uri, server_name: Option<&str>) -> bool {
        let Some(host) = uri.host() else { return true };
        let name = host.strip_suffix('.').unwrap_or(host);
        // The client has accepted our certificate for this name, whether or not it verifies
        // certificates.
        let is_requested =
            server_name.is_some_and(|requested| requested.eq_ignore_ascii_case(name));
        let is_named = |named: &String| named == ANY || named.eq_ignore_ascii_case(name);
        is_requested
            || is_address(host)
            || self.certificates.covers(name)
            || self.names.iter().any(is_named)
    }
}

/// Returns whether a host is an IP address, for which TLS has no server name (RFC 6066 §3).
fn is_address(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use clearway::Identity;

    use super::*;

    #[test]
    fn names_of_certificates_the_requested_one_and_addresses_are_answered() {
        let names = ["example.org".to_owned(), "*.example.net".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let certificates = Arc::new(Certificates::new([identity]).unwrap());
        let authorities = |names: &[&str]| {
            let host_names = names.iter().map(|&name| name.to_owned()).collect();
            AuthorityOptions { host_names }.authorities(certificates.clone())
        };
        let include = |names: &[&str], uri: &str, server_name| {
            authorities(names).include(&uri.parse().unwrap(), server_name)
        };
        for good in [
            "https://example.org/",
            "https://EXAMPLE.org.:4433/",
            "https://a.example.net/",
            "https://192.0.2.1:4433/",
            "https://[2001:db8::1]/",
            "/no/authority",
        ] {
            assert!(include(&[], good, Some("example.org")), "{good}");
            assert!(include(&[], good, None), "{good}");
        }
        for foreign in [
            "https://example.net/",
            "https://a.b.example.net/",
            "https://evil.example/",
            "https://example.org.evil.example/",
            "https://localhost/",
        ] {
            assert!(!include(&[], foreign, Some("example.org")), "{foreign}");
            assert!(!include(&[], foreign, None), "{foreign}");
            assert!(include(&["*"], foreign, None), "{foreign}");
        }
        // With `--insecure` and `--connect`, a client requests a name regardless of the
        // certificate.
        assert!(include(&[], "https://Other.example:1/", Some("other.example")));
        assert!(include(&["other.example"], "https://OTHER.example/", Some("example.org")));
        assert!(!include(&["other.example"], "https://third.example/", Some("example.org")));
    }
}
