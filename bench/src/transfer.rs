//! The result line of a client's transfers.

use std::net::SocketAddr;
use std::time::Duration;

/// Returns the local address for a client of `remote`.
pub(crate) fn local_address(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    }
}

/// Prints the line that all benchmark programs end with: the bytes of all transfers together, and
/// the time from the start of the first to the end of the last.
pub(crate) fn print(bytes: u64, elapsed: Duration) {
    println!(r#"{{"bytes":{bytes},"seconds":{},"status":200}}"#, elapsed.as_secs_f64());
}
