//! The page, served to a browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use clearway_qlog::model::{Header, TraceName};
use clearway_qlog::read::QlogReader;
use http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::ViewCommand;
use super::trace::{Trace, read_all};
use crate::failure::Failure;
use crate::http1::{self, Body, Content};
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
pub(super) fn traces(files: Vec<(PathBuf, QlogReader)>) -> impl Content {
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
    Traces(receiver)
}

/// All traces, once they are read.
#[derive(Clone, Debug)]
struct Traces(watch::Receiver<Option<Arc<[Served]>>>);

impl Traces {
    /// Waits for the traces. `None` if they will never be read.
    async fn read(&self) -> Option<Arc<[Served]>> {
        let mut receiver = self.0.clone();
        let traces = receiver.wait_for(Option::is_some).await.map(|traces| traces.clone());
        traces.ok().flatten()
    }
}

impl Content for Traces {
    async fn get(&self, path: &str) -> Response<Body> {
        let Some(traces) = self.read().await else {
            return http1::refusal(StatusCode::INTERNAL_SERVER_ERROR, "the traces were not read\n");
        };
        if path == "/traces.json" {
            let name = |trace: &Served| TraceName { name: trace.name.clone() };
            return http1::json(&traces.iter().map(name).collect::<Vec<_>>());
        }
        let part = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let of = |number: &str| traces.get(number.parse::<usize>().ok()?);
        match part.and_then(|(number, part)| Some((of(number)?, part))) {
            Some((trace, "header.json")) => http1::json(&trace.header),
            Some((trace, "columns.bin")) => {
                http1::whole("application/octet-stream", trace.columns.clone())
            }
            _ => http1::refusal(StatusCode::NOT_FOUND, "there is no such trace\n"),
        }
    }
}

/// The page, and what it requests.
struct Page<C>(C);

impl<C: Content> Content for Page<C> {
    async fn get(&self, path: &str) -> Response<Body> {
        match path {
            "/" => http1::whole("text/html; charset=utf-8", PAGE),
            _ => self.0.get(path).await,
        }
    }
}

/// Serves the page, and with `content` what it requests, until the program is interrupted.
pub(super) async fn serve(command: &ViewCommand, content: impl Content) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let failed = |error: &std::io::Error| Listening::PAGE.failed(command.listen, error);
    let listener = TcpListener::bind(command.listen).await.map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let page = format!("http://{address}/");
    output::result(&format!("the page is at {page}"))?;
    if !command.no_open && open::that_detached(&page).is_err() {
        output::status("could not start a browser; open the page yourself");
    }
    tokio::select! {
        never = http1::serve(listener, &command.names, Page(content)) => match never {},
        _ = interrupt.received() => Ok(()),
    }
}
