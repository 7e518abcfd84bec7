//! Reports datagrams that belong to no connection.

use core::fmt;
use core::net::SocketAddr;

/// Number of bytes of a datagram that are logged: a long header up to the end of the longest
/// Destination Connection ID.
const BEGINNING: usize = 26;

/// Logs a datagram that belongs to no connection, with its first bytes, which contain the
/// connection ID. Anyone can send such datagrams, so nothing is formatted or allocated unless the
/// event is enabled.
pub(super) fn report_unknown(remote: SocketAddr, datagram: &[u8]) {
    let begins = Beginning(datagram.get(..BEGINNING).unwrap_or(datagram));
    tracing::debug!(%remote, %begins, "datagram belongs to no connection");
}

/// Bytes, displayed in hexadecimal.
struct Beginning<'a>(&'a [u8]);

impl fmt::Display for Beginning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(Beginning(&[0x40, 0x0a, 0xff]).to_string(), "400aff");
        assert_eq!(Beginning(&[]).to_string(), "");
    }
}
