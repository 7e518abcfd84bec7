//! The key for a server's stateless reset tokens (RFC 9000 §10.3.2).

use core::net::SocketAddr;

use clearway_transport::{ResetKey, TicketKeys};

/// Derives the reset key of a server that listens at `address`. A later process with the same
/// ticket keys derives the same key. Returns `None` if nothing distinguishes this server from other
/// servers with the same keys: an attacker could then make one server end the connections of
/// another (RFC 9000 §21.11).
pub(crate) fn from_ticket_keys(keys: TicketKeys, address: SocketAddr) -> Option<ResetKey> {
    let host = gethostname::gethostname();
    let identity = identity(&host.to_string_lossy(), address)?;
    Some(ResetKey::from_ticket_keys(keys, identity.as_bytes()))
}

fn identity(host: &str, address: SocketAddr) -> Option<String> {
    // A port chosen by the system changes after a restart.
    if address.port() == 0 {
        return None;
    }
    let is_named = !["", "(none)", "localhost", "localhost.localdomain"].contains(&host);
    (is_named || !address.ip().is_unspecified()).then(|| format!("{host} {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_may_run_at_the_same_time_have_different_identities() {
        let identity = |host, address: &str| identity(host, address.parse().unwrap());
        let all = [
            identity("a", "0.0.0.0:443"),
            identity("b", "0.0.0.0:443"),
            identity("a", "0.0.0.0:444"),
            identity("a", "192.0.2.1:443"),
            identity("a", "[::]:443"),
            identity("localhost", "192.0.2.1:443"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(one.is_some());
            assert!(!all[..place].contains(one), "{one:?}");
        }
        for host in ["", "localhost"] {
            assert_eq!(identity(host, "[::]:443"), None);
        }
        assert_eq!(identity("a", "192.0.2.1:0"), None);
    }
}
