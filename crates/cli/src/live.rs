//! The qlog of connections while they last, over HTTP: what `clearway view --live` follows.
//!
//! `GET /` lists the connections, the newest last: `[{"name", "has_ended"}…]`. `GET /NAME` is the qlog of one of them, as a
//! JSON text sequence that goes on while the connection does: `curl` makes a file of it. `trace` keeps what was written,
//! `traces` knows the connections, `server` gives them out.

mod server;
mod trace;
mod traces;

use std::net::SocketAddr;

use clap::Args;

use crate::failure::Failure;

pub(crate) use traces::Traces;

/// Whether connections can be followed, and where.
#[derive(Args, Debug)]
pub(crate) struct LiveOptions {
    /// Let `clearway view --live ADDRESS` follow the connections: their qlog can be had there, over HTTP, by
    /// everyone who reaches the address.
    #[arg(long = "live", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// Answer those who ask for --live by this name of the machine, too, and not only by its address. May be given
    /// several times.
    #[arg(long = "live-name", value_name = "NAME", requires = "address")]
    names: Vec<String>,
}

impl LiveOptions {
    /// Begins to listen, if that is wanted.
    ///
    /// # Errors
    ///
    /// If the address cannot be had.
    pub(crate) async fn start(&self) -> Result<Option<Traces>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        server::start(address, &self.names).await.map(Some)
    }
}
