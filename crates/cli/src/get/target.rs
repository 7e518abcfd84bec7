//! The URL of a download, parsed.

use std::net::IpAddr;

use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::failure::Failure;

/// The default port of https URLs.
const HTTPS: u16 = 443;

/// Characters that users may write literally in a path or a query, but that must be percent-encoded
/// in a request: besides all non-ASCII characters, those that WHATWG's URL Standard encodes in a
/// path. Percent signs are kept.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A URL that can be downloaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// The URL as it is sent in the request.
    pub(super) uri: Uri,
    /// The server's name or IP address (without brackets), for which its certificate must be valid.
    pub(super) host: String,
    /// The network interface through which an IPv6 address is reached (RFC 4007 §11). It is
    /// meaningful only on this machine and is not sent.
    pub(super) zone: Option<String>,
    pub(super) port: u16,
}

impl Target {
    /// Parses a URL.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let invalid = |why: &str| {
            Failure::new(format!("cannot download {url:?}: {why}"))
                .advise("use a URL such as https://localhost:4433/file")
        };
        let url = url.split_once('#').map_or(url, |(url, _fragment)| url);
        let (server, path) = split(url);
        if !server.is_ascii() {
            return Err(invalid("the server's name must be in ASCII (xn--…)"));
        }
        let (server, zone) = without_zone(server);
        // The path in a request must not be empty (RFC 9114 §4.3.1).
        let slash = if path.starts_with('?') { "/" } else { "" };
        let encoded = format!("{server}{slash}{}", utf8_percent_encode(path, ENCODED));
        let uri: Uri = encoded.parse().map_err(|_| invalid("not a valid URL"))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some(scheme) => return Err(invalid(&format!("the scheme is {scheme}, not https"))),
            None => return Err(invalid("the URL does not begin with https://")),
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| invalid("the URL has no host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("the URL contains a user name, which is not supported"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = port(&uri).ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?;
        Ok(Self { uri, host, zone, port })
    }

    /// Returns the name and port in the form that a resolver expects.
    pub(super) fn host_and_port(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => {
                let zone = self.zone.as_ref().map_or_else(String::new, |zone| format!("%{zone}"));
                format!("[{}{zone}]:{}", self.host, self.port)
            }
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns the path and query, as requested over HTTP/0.9.
    pub(super) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    /// Returns the last part of the path as a file name.
    pub(super) fn file_name(&self) -> Result<String, Failure> {
        let last = self.uri.path().rsplit('/').next().unwrap_or_default();
        let decoded = percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned();
        let is_name = !decoded.is_empty()
            && decoded != "."
            && decoded != ".."
            && !decoded
                .contains(|character: char| "/\\".contains(character) || character.is_control());
        match is_name {
            true => Ok(decoded),
            false => Err(Failure::new(format!("{} does not end with a file name", self.uri))
                .advise("choose a file with --output")),
        }
    }
}

/// Splits a URL into its scheme and server, and the rest.
fn split(url: &str) -> (&str, &str) {
    let server = url.find("://").map_or(0, |scheme| scheme + 3);
    let path = url.get(server..).and_then(|rest| rest.find(['/', '?']));
    url.split_at(path.map_or(url.len(), |path| server + path))
}

/// Removes the zone from the IPv6 address in a URL's authority: `[fe80::1%25eth0]` (RFC 6874), or
/// with a plain percent sign.
fn without_zone(server: &str) -> (String, Option<String>) {
    let zoned = || {
        let (before, rest) = server.split_once('[')?;
        let (inside, behind) = rest.split_once(']')?;
        let (address, zone) = inside.split_once('%')?;
        // The zone may also be an interface with the number 25.
        let zone = zone.strip_prefix("25").filter(|name| !name.is_empty()).unwrap_or(zone);
        let zone = percent_encoding::percent_decode_str(zone).decode_utf8_lossy().into_owned();
        Some((format!("{before}[{address}]{behind}"), Some(zone)))
    };
    zoned().unwrap_or_else(|| (server.to_owned(), None))
}

/// Returns the port of a URL, if it is valid.
fn port(uri: &Uri) -> Option<u16> {
    let authority = uri.authority()?.as_str();
    // An IPv6 address contains colons itself, but is in brackets.
    let (_, behind_address) = authority.rsplit_once(']').unwrap_or(("", authority));
    match behind_address.split_once(':') {
        None | Some((_, "")) => Some(HTTPS),
        Some((_, port)) => port.parse().ok().filter(|port| *port > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let target = Target::parse("https://Example.org/a/b%20c.txt?q=1#part").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("Example.org", 443));
        assert_eq!(target.path(), "/a/b%20c.txt?q=1");
        assert_eq!(target.file_name().unwrap(), "b c.txt");
        assert_eq!(target.host_and_port(), "Example.org:443");
        let target = Target::parse("https://[::1]:4433").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 4433));
        assert_eq!(target.host_and_port(), "[::1]:4433");
        assert_eq!(target.path(), "/");
        assert!(target.file_name().is_err());
        for url in
            ["https://[::1]/", "https://[::1]:/", "https://localhost/", "https://localhost:/"]
        {
            assert_eq!(Target::parse(url).unwrap().port, 443, "{url}");
        }
    }

    #[test]
    fn the_zone_of_an_address_is_not_sent() {
        for (url, zone) in [
            ("https://[fe80::1%25eth0]:4433/a", "eth0"),
            ("https://[fe80::1%eth0]:4433/a", "eth0"),
            ("https://[fe80::1%252]:4433/a", "2"),
            ("https://[fe80::1%2]:4433/a", "2"),
            ("https://[fe80::1%25]:4433/a", "25"),
            ("https://[fe80::1%25a%2Db]:4433/a", "a-b"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.uri.to_string(), "https://[fe80::1]:4433/a", "{url}");
            assert_eq!(target.host, "fe80::1");
            assert_eq!(target.host_and_port(), format!("[fe80::1%{zone}]:4433"), "{url}");
        }
    }

    #[test]
    fn characters_that_must_be_encoded_may_be_written_literally() {
        for (url, path) in [
            ("https://localhost/\u{fc} {a}.txt?q=\u{e9} b", "/%C3%BC%20%7Ba%7D.txt?q=%C3%A9%20b"),
            ("https://localhost/%C3%BC%2f?a=%20", "/%C3%BC%2f?a=%20"),
            ("https://localhost?\u{fc}", "/?%C3%BC"),
        ] {
            assert_eq!(Target::parse(url).unwrap().path(), path, "{url}");
        }
        let target = Target::parse("https://localhost/\u{fc}.txt").unwrap();
        assert_eq!(target.file_name().unwrap(), "\u{fc}.txt");
        let message = Target::parse("https://b\u{fc}cher.example/").unwrap_err().to_string();
        assert!(message.contains("xn--"), "{message}");
    }

    #[test]
    fn urls_other_than_https_are_refused() {
        for url in ["localhost:4433/a", "http://localhost/", "/a", "https://", "", "https://a b/"] {
            let message = Target::parse(url).unwrap_err().to_string();
            assert!(message.contains("https://localhost:4433/file"), "{url}: {message}");
        }
        assert!(Target::parse("https://user@localhost/").is_err());
        for port in ["99999", "0", "-1", "http"] {
            assert!(Target::parse(&format!("https://localhost:{port}/")).is_err(), "{port}");
            assert!(Target::parse(&format!("https://[::1]:{port}/")).is_err(), "{port}");
        }
    }

    #[test]
    fn a_file_name_stays_in_the_folder() {
        for path in ["..", "%2e%2e", "a%2f..%2fb", "%2f", "", "a%5cb", "a%00"] {
            let target = Target::parse(&format!("https://localhost/x/{path}")).unwrap();
            assert!(target.file_name().is_err(), "{path}");
        }
    }
}
