//! Addresses on the command line, including IPv6 addresses with a zone: `[fe80::1%eth0]:4433` (RFC
//! 4007 §11).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::failure::Failure;
use crate::system;

/// Parses an address and a port. The zone of an IPv6 address is an interface name or index.
///
/// # Errors
///
/// Returns an error if the string is not an address and a port, or the interface does not exist.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let invalid = || invalid(text);
    let Some((address, zone, port)) = zoned(text) else {
        return text.parse().map_err(|_| invalid());
    };
    let address: Ipv6Addr = address.parse().map_err(|_| invalid())?;
    let port = port.parse().map_err(|_| invalid())?;
    let index = system::interface(zone)
        .map_err(|error| format!("there is no network interface {zone:?}: {error}"))?;
    Ok(SocketAddrV6::new(address, port, 0, index).into())
}

/// Returns what is expected instead of `text`.
fn invalid(text: &str) -> String {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "4433"));
    match (host, port) {
        ("" | "*", port) if is_port(port) => {
            format!("for all addresses use [::]:{port}, or 0.0.0.0:{port} for IPv4 only")
        }
        (port, _) if is_port(port) && !text.contains(':') => {
            format!(
                "the address is missing: use 127.0.0.1:{port}, or [::]:{port} for all addresses"
            )
        }
        ("localhost", port) if is_port(port) => {
            format!("expected an IP address, not a name: use 127.0.0.1:{port} or [::1]:{port}")
        }
        _ => "expected an address and a port, such as 127.0.0.1:4433".to_owned(),
    }
}

/// Splits `[ADDRESS%ZONE]:PORT` into its parts.
fn zoned(text: &str) -> Option<(&str, &str, &str)> {
    let (inside, port) = text.strip_prefix('[')?.split_once("]:")?;
    let (address, zone) = inside.split_once('%')?;
    Some((address, zone, port))
}

/// Resolves `host:port` to its addresses, in the order of the system's resolver.
///
/// # Errors
///
/// Returns an error if the name cannot be resolved, or has no addresses.
pub(crate) async fn resolve(target: &str) -> Result<Vec<SocketAddr>, Failure> {
    let unknown = |why: String| {
        Failure::new(format!("cannot resolve {target}: {why}"))
            .advise("check the name, and whether this machine can reach a name server")
    };
    if let Some((_, port)) = target.rsplit_once(':')
        && port.parse::<u16>().is_err()
    {
        return Err(Failure::new(format!("invalid port in {target}"))
            .advise("write the target as host:port, such as 127.0.0.1:4433"));
    }
    if !target.contains(':') {
        return Err(Failure::new(format!("missing port in {target}"))
            .advise("write the target as host:port, such as 127.0.0.1:4433"));
    }
    if zoned(target).is_some() {
        let address = parse(target);
        return address.map(|it| vec![it]).map_err(|why| {
            Failure::new(format!("cannot connect to {target}: {why}"))
                .advise("run `ip link` to list the interfaces of this machine")
        });
    }
    let addresses: Vec<_> = match tokio::net::lookup_host(target).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(unknown(error.to_string())),
    };
    match addresses.is_empty() {
        true => Err(unknown("the name has no addresses".to_owned())),
        false => Ok(addresses),
    }
}

/// Resolves `host:port` to its first address of the same family (IPv4 or IPv6) as `like`, or to its
/// first address if there is none.
///
/// # Errors
///
/// Returns an error if the name cannot be resolved, or has no addresses.
pub(crate) async fn resolve_one(
    target: &str,
    like: Option<SocketAddr>,
) -> Result<SocketAddr, Failure> {
    let addresses = resolve(target).await?;
    let alike =
        |address: &&SocketAddr| like.is_some_and(|like| like.is_ipv4() == address.is_ipv4());
    let found = addresses.iter().find(alike).or(addresses.first()).copied();
    found.ok_or_else(|| Failure::new(format!("cannot resolve {target}: the name has no addresses")))
}

/// Returns the unspecified address with port 0, in the address family of `remote`.
pub(crate) fn any(remote: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_a_zone() {
        let scope = |text: &str| match parse(text) {
            Ok(SocketAddr::V6(address)) => Ok((address.ip().to_string(), address.scope_id())),
            Ok(address) => panic!("{address}"),
            Err(error) => Err(error),
        };
        assert_eq!(scope("[fe80::1%lo]:443"), Ok(("fe80::1".to_owned(), 1)));
        assert_eq!(scope("[fe80::1%7]:443"), Ok(("fe80::1".to_owned(), 7)));
        assert_eq!(scope("[fe80::1]:443"), Ok(("fe80::1".to_owned(), 0)));
        assert_eq!(parse("127.0.0.1:443"), Ok(([127, 0, 0, 1], 443).into()));
        for wrong in ["[fe80::1%]:443", "[fe80::1%0]:443", "[fe80::1%no-such-interface]:443"] {
            assert!(scope(wrong).unwrap_err().contains("there is no network interface"), "{wrong}");
        }
        for wrong in ["fe80::1%lo", "[fe80::1%lo]", "[127.0.0.1%lo]:443", "[::1%lo]:99999", "a:1"] {
            assert!(parse(wrong).unwrap_err().contains("such as 127.0.0.1:4433"), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_zone_needs_no_name_server() {
        let expected: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 443, 0, 1).into();
        assert_eq!(resolve("[fe80::1%lo]:443").await, Ok(vec![expected]));
        let message = resolve("[fe80::1%no-such]:443").await.unwrap_err().to_string();
        assert!(message.contains("no network interface \"no-such\""), "{message}");
    }
}
