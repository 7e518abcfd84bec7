//! The page, served to a browser of this machine.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::ViewCommand;
use super::trace::Trace;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::loopback;
use crate::output;
use crate::relay::cannot_listen;

/// The page, as `viewer/` builds it.
pub(super) const PAGE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../viewer/dist/index.html"));
/// Where in the page traces are put, if it is to be one file.
pub(super) const PLACEHOLDER: &str = "<!--clearway:traces-->";

/// A trace, as it is sent.
#[derive(Debug)]
struct Served {
    name: String,
    header: Value,
    columns: Bytes,
}

/// Serves `traces`, which the page asks for one by one.
pub(super) fn router(traces: Vec<Trace>) -> Router {
    let serve = |Trace { name, model }| Served {
        name,
        header: model.header,
        columns: Bytes::from(model.columns),
    };
    let traces: Arc<[Served]> = traces.into_iter().map(serve).collect();
    Router::new()
        .route("/traces.json", get(list))
        .route("/{number}/header.json", get(header))
        .route("/{number}/columns.bin", get(columns))
        .with_state(traces)
}

type Traces = State<Arc<[Served]>>;

async fn list(State(traces): Traces) -> Response {
    let names: Vec<Value> = traces.iter().map(|trace| json!({ "name": trace.name })).collect();
    axum::Json(names).into_response()
}

async fn header(State(traces): Traces, Path(number): Path<usize>) -> Response {
    match traces.get(number) {
        Some(trace) => axum::Json(&trace.header).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn columns(State(traces): Traces, Path(number): Path<usize>) -> Response {
    match traces.get(number) {
        Some(trace) => {
            ([(CONTENT_TYPE, "application/octet-stream")], trace.columns.clone()).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Serves the page, and what it asks for from `content`, until the program is interrupted.
pub(super) async fn serve(command: &ViewCommand, content: Router) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let failed = |error: &std::io::Error| cannot_listen(command.listen, error);
    let listener = TcpListener::bind(command.listen).await.map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let page = format!("http://{address}/");
    output::result(&format!("the page is at {page}"))?;
    if !command.no_open && open::that_detached(&page).is_err() {
        output::status("no browser could be started: open the page yourself");
    }
    let router = loopback::guard(content.route("/", get(|| async { Html(PAGE) })), address);
    tokio::select! {
        served = async { axum::serve(listener, router).await } => {
            served.map_err(|error| Failure::new(format!("the page cannot be served any more: {error}")))
        }
        _ = interrupt.heard() => Ok(()),
    }
}
