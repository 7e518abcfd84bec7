//! The page, served to a browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use clearway_qlog::model::{Header, TraceName};
use clearway_qlog::read::QlogReader;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::ViewCommand;
use super::trace::{Trace, read_all};
use crate::failure::Failure;
use crate::host_check;
use crate::interrupt::Interrupt;
use crate::listening::Listening;
use crate::output;

/// The page, as `viewer/` builds it.
pub(super) const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/index.html"));
/// The placeholder in the page for traces that are embedded.
pub(super) const PLACEHOLDER: &str = "<!--clearway:traces-->";

/// A trace in the form in which it is sent.
#[derive(Debug)]
struct Served {
    name: String,
    header: Header,
    columns: Bytes,
}

/// Reads `files` and serves their traces, which the page requests one by one. A request waits until the traces are
/// read.
pub(super) fn router(files: Vec<(PathBuf, QlogReader)>) -> Router {
    let (sender, receiver) = watch::channel(None);
    // A thread that nobody waits for: an interrupt ends the program at once.
    thread::spawn(move || {
        let serve = |Trace { name, model }| Served {
            name,
            header: model.header,
            columns: Bytes::from(model.columns),
        };
        let traces: Arc<[Served]> = read_all(files).into_iter().map(serve).collect();
        sender.send_replace(Some(traces));
    });
    Router::new()
        .route("/traces.json", get(list))
        .route("/{number}/header.json", get(header))
        .route("/{number}/columns.bin", get(columns))
        .with_state(Traces(receiver))
}

/// All traces, once they are read.
#[derive(Clone, Debug)]
struct Traces(watch::Receiver<Option<Arc<[Served]>>>);

impl Traces {
    /// Waits for the traces. Fails if they will never be read.
    async fn read(mut self) -> Result<Arc<[Served]>, StatusCode> {
        let traces = self.0.wait_for(Option::is_some).await.map(|traces| traces.clone());
        traces.ok().flatten().ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

async fn list(State(traces): State<Traces>) -> Result<Response, StatusCode> {
    let traces = traces.read().await?;
    let names: Vec<_> = traces.iter().map(|trace| TraceName { name: trace.name.clone() }).collect();
    Ok(axum::Json(names).into_response())
}

async fn header(
    State(traces): State<Traces>,
    Path(number): Path<usize>,
) -> Result<Response, StatusCode> {
    let traces = traces.read().await?;
    let trace = traces.get(number).ok_or(StatusCode::NOT_FOUND)?;
    Ok(axum::Json(&trace.header).into_response())
}

async fn columns(
    State(traces): State<Traces>,
    Path(number): Path<usize>,
) -> Result<Response, StatusCode> {
    let traces = traces.read().await?;
    let trace = traces.get(number).ok_or(StatusCode::NOT_FOUND)?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], trace.columns.clone()).into_response())
}

/// Serves the page, and with `content` what it requests, until the program is interrupted.
pub(super) async fn serve(command: &ViewCommand, content: Router) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let failed = |error: &std::io::Error| Listening::PAGE.failed(command.listen, error);
    let listener = TcpListener::bind(command.listen).await.map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let page = format!("http://{address}/");
    output::result(&format!("the page is at {page}"))?;
    if !command.no_open && open::that_detached(&page).is_err() {
        output::status("could not start a browser; open the page yourself");
    }
    let router =
        host_check::guard(content.route("/", get(|| async { Html(PAGE) })), &command.names);
    tokio::select! {
        served = async { axum::serve(listener, router).await } => {
            served.map_err(|error| Failure::new(format!("cannot serve the page any longer: {error}")))
        }
        _ = interrupt.received() => Ok(()),
    }
}
