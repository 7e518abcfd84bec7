//! Checks the Host field of HTTP requests, as a protection against DNS rebinding.

use std::net::IpAddr;

use http::uri::Authority;

/// Advice for rejected requests.
pub(super) const ADVICE: &str = "in the URL, use localhost, the IP address, or a host name passed with --name, --live-name or --metrics-name\n";

/// Returns whether `host`, the value of a request's Host field, is an IP address, "localhost" or
/// one of `names`. A web page whose name was made to resolve to this machine (DNS rebinding) must
/// not be able to read the served content. A browser sends an IP address as Host only for pages
/// loaded from that address.
pub(super) fn is_permitted(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn other_host_names_are_refused() {
        for host in ["localhost", "LOCALHOST:4480", "127.0.0.1:80", "[::1]:4480", "192.0.2.7:80"] {
            assert!(is_permitted(host, &[]), "{host}");
        }
        for host in ["example.org", "localhost.example.org:80", "127.0.0.1.example.org", "", "a b"]
        {
            assert!(!is_permitted(host, &[]), "{host}");
        }
    }

    #[test]
    fn names_that_were_given_are_permitted() {
        let names = ["build.example.org".to_owned()];
        for host in ["build.example.org", "Build.Example.org:4480"] {
            assert!(is_permitted(host, &names), "{host}");
        }
        for host in ["example.org", "a.build.example.org", "build.example.org.", ""] {
            assert!(!is_permitted(host, &names), "{host}");
        }
    }
}
