//! Serves the qlog of live connections over HTTP, for `clearway view --live`.
//!
//! `GET /` lists the connections, the newest last: `[{"name", "has_ended"}…]`. `GET /NAME` returns
//! the qlog of one of them, as a JSON text sequence that lasts as long as the connection; `curl`
//! can save it to a file. The module `trace` keeps the log of one connection, `traces` is the list
//! of connections, and `server` is the HTTP server.

mod server;
mod trace;
mod traces;

use std::net::SocketAddr;

use clap::Args;

use crate::address;
use crate::failure::Failure;
use crate::units::size_of_at_least_1_mib;

pub(crate) use traces::Traces;

/// The options for following connections.
#[derive(Args, Debug)]
pub(crate) struct LiveOptions {
    /// Serve the connections' qlog over HTTP, for clearway view --live ADDR.
    ///
    /// Everyone who can reach the address can read the qlog.
    #[arg(long = "live", value_name = "ADDR", value_parser = address::parse)]
    address: Option<SocketAddr>,
    /// Also accept this host name in requests for --live. May be repeated.
    ///
    /// Without this option, only IP addresses and localhost are accepted.
    #[arg(long = "live-name", value_name = "NAME", requires = "address")]
    names: Vec<String>,
    /// Maximum total memory for the logs of --live, over all connections.
    ///
    /// When it is reached, the logs of finished connections are dropped first; then the longest log
    /// loses its oldest records.
    #[arg(long = "live-memory", value_name = "SIZE", default_value = "64MiB", value_parser = size_of_at_least_1_mib, requires = "address")]
    memory: u64,
}

impl LiveOptions {
    /// Starts listening, if an address is given.
    ///
    /// # Errors
    ///
    /// Returns an error if listening on the address fails.
    pub(crate) async fn start(&self) -> Result<Option<Traces>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        let traces = Traces::within(usize::try_from(self.memory).unwrap_or(usize::MAX));
        server::start(address, &self.names, traces).await.map(Some)
    }
}
