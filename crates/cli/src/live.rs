//! The qlog of connections in progress, over HTTP, for `clearway view --live`.
//!
//! `GET /` lists the connections, the newest last: `[{"name", "has_ended"}…]`. `GET /NAME` returns the qlog of one of
//! them, as a JSON text sequence that continues as long as the connection does: `curl` can save it to a file. `trace`
//! keeps the log of one connection, `traces` is the list of connections, `server` is the HTTP server.

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
    /// Let `clearway view --live ADDRESS` follow the connections: serve their qlog over HTTP at this address, to
    /// everyone who can reach it.
    #[arg(long = "live", value_name = "ADDRESS", value_parser = address::parse)]
    address: Option<SocketAddr>,
    /// Also accept requests for --live under this host name, not only under the address. May be repeated.
    #[arg(long = "live-name", value_name = "NAME", requires = "address")]
    names: Vec<String>,
    /// Keep at most this much of the logs of --live in memory, for all connections together. Then those that have ended are
    /// forgotten, and the longest log of the others loses its oldest records.
    #[arg(long = "live-memory", value_name = "SIZE", default_value = "64MiB", value_parser = size_of_at_least_1_mib, requires = "address")]
    memory: u64,
}

impl LiveOptions {
    /// Starts listening, if an address is given.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub(crate) async fn start(&self) -> Result<Option<Traces>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        let traces = Traces::within(usize::try_from(self.memory).unwrap_or(usize::MAX));
        server::start(address, &self.names, traces).await.map(Some)
    }
}
