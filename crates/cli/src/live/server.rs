//! Serves traces over HTTP.

use std::net::SocketAddr;

use http::{Response, StatusCode};
use tokio::net::TcpListener;

use super::traces::Traces;
use crate::failure::Failure;
use crate::http1::{self, Body, Content};
use crate::listening::Listening;
use crate::output;

/// Starts serving `traces` on `address`. Requests whose Host is one of `names` are accepted, too.
pub(super) async fn start(
    address: SocketAddr,
    names: &[String],
    traces: Traces,
) -> Result<Traces, Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Listening::TRACES.failed(address, &error))?;
    let address =
        listener.local_addr().map_err(|error| Listening::TRACES.failed(address, &error))?;
    let (served, names) = (traces.clone(), names.to_vec());
    tokio::spawn(async move { http1::serve(listener, &names, served).await });
    output::status(&format!("to follow the connections: clearway view --live {address}"));
    Ok(traces)
}

impl Content for Traces {
    async fn get(&self, path: &str) -> Response<Body> {
        let name = path.trim_start_matches('/');
        if name.is_empty() {
            return http1::json(&self.list());
        }
        match self.find(name) {
            Some(trace) => http1::streamed("application/qlog+json-seq", trace.follow()),
            None => http1::refusal(
                StatusCode::NOT_FOUND,
                "no such connection; GET / lists all connections\n",
            ),
        }
    }
}
