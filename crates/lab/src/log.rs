//! Writes a qlog file of a run.

use std::cell::Cell;
use std::io::Write;

use clearway_qlog::{ErrorHandler, QlogObserver, RecoveryParameters, ReferenceTime, TraceOptions};
use clearway_transport::Observer;

use crate::end::{EndId, Side};
use crate::run::{Candidate, MakeObserver, RunError, transport_config};
use crate::setup::Setup;

/// Returns the endpoint that sends the content of the first flow that must finish.
pub fn main_end(setup: &Setup) -> Option<EndId> {
    let flow = setup.flows.iter().position(|flow| !flow.is_optional)?;
    sending_end(setup, flow)
}

/// Returns the endpoint that sends the content of the flow with this index; `None` if there is no
/// such flow.
pub fn sending_end(setup: &Setup, flow: usize) -> Option<EndId> {
    let side = match setup.flows.get(flow)?.traffic.is_upload() {
        true => Side::Client,
        false => Side::Server,
    };
    Some(EndId { flow, side })
}

/// Returns an observer that logs the connection at `end` to `writer`, or logs nothing if there is
/// no such endpoint. `on_error` receives the reason if the log is incomplete.
///
/// # Errors
/// Returns an error if the flow specifies a controller that does not exist.
pub fn log(
    setup: &Setup,
    candidate: &Candidate,
    title: String,
    end: Option<EndId>,
    writer: impl Write + Send + 'static,
    on_error: ErrorHandler,
) -> Result<MakeObserver, RunError> {
    let Some((logged, flow)) = end.and_then(|end| Some((end, setup.flows.get(end.flow)?))) else {
        return Ok(Box::new(|_| None));
    };
    let endpoint = match logged.side {
        Side::Client => &flow.client,
        Side::Server => &flow.server,
    };
    let transport = transport_config(flow, endpoint, candidate)?;
    let options = TraceOptions {
        title: Some(title),
        reference_time: ReferenceTime::Monotonic { wall_clock_at_origin: None },
        recovery_parameters: RecoveryParameters::of(&transport),
        ..TraceOptions::default()
    };
    let observer = QlogObserver::new(writer, options).with_error_handler(on_error);
    let observer: Cell<Option<Box<dyn Observer>>> = Cell::new(Some(Box::new(observer)));
    Ok(Box::new(move |end| if end == logged { observer.take() } else { None }))
}
