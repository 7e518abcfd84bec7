//! Serves traces over HTTP.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;

use super::traces::Traces;
use crate::failure::Failure;
use crate::host_check;
use crate::listening::Listening;
use crate::output;

/// Starts to listen at `address`; requests for one of the host names `names` are accepted too.
pub(super) async fn start(address: SocketAddr, names: &[String]) -> Result<Traces, Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Listening::TRACES.failed(address, &error))?;
    let address =
        listener.local_addr().map_err(|error| Listening::TRACES.failed(address, &error))?;
    let traces = Traces::default();
    let router =
        Router::new().route("/", get(list)).route("/{name}", get(trace)).with_state(traces.clone());
    let router = host_check::guard(router, names);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            output::status(&format!("clearway: connections can no longer be followed: {error}"));
        }
    });
    output::status(&format!("follow with: clearway view --live {address}"));
    Ok(traces)
}

async fn list(State(traces): State<Traces>) -> Response {
    axum::Json(traces.list()).into_response()
}

async fn trace(State(traces): State<Traces>, Path(name): Path<String>) -> Response {
    match traces.find(&name) {
        Some(trace) => {
            let headers = [(CONTENT_TYPE, "application/qlog+json-seq")];
            (headers, Body::from_stream(trace.follow())).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such connection; GET / lists them\n")
            .into_response(),
    }
}
