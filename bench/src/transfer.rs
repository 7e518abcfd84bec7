//! The result line that a client prints after its transfers.

use std::net::SocketAddr;
use std::time::Duration;

/// Returns the local address of a client that connects to `remote`.
pub(crate) fn local_address(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    }
}

/// Prints the final line of all benchmark programs: the total number of bytes in all transfers, and
/// the time from the start of the first transfer to the end of the last one.
pub(crate) fn print(bytes: u64, elapsed: Duration) {
    println!(r#"{{"bytes":{bytes},"seconds":{},"status":200}}"#, elapsed.as_secs_f64());
}
