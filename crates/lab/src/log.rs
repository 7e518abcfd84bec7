//! Writes a qlog file of a run.

use std::cell::Cell;
use std::io::Write;

use clearway_qlog::{ErrorHandler, QlogObserver, RecoveryParameters, ReferenceTime, TraceOptions};
use clearway_transport::Observer;

use crate::end::{EndId, Side};
use crate::run::{Candidate, MakeObserver, RunError, transport_config};
use crate::setup::Setup;

/// An observer that writes a log of the run's main connection to `writer`. It logs the end that sends the
/// content of the first flow that has to finish. `on_error` receives the reason if the log is incomplete.
///
/// # Errors
/// If the flow names a controller that does not exist.
pub fn log(
    setup: &Setup,
    candidate: &Candidate,
    title: String,
    writer: impl Write + Send + 'static,
    on_error: ErrorHandler,
) -> Result<MakeObserver, RunError> {
    let counts = |(_, flow): &(usize, &crate::setup::Flow)| !flow.is_optional;
    let Some((index, flow)) = setup.flows.iter().enumerate().find(counts) else {
        return Ok(Box::new(|_| None));
    };
    let (side, end) = match flow.traffic.is_upload() {
        true => (Side::Client, &flow.client),
        false => (Side::Server, &flow.server),
    };
    let transport = transport_config(flow, end, candidate)?;
    let options = TraceOptions {
        title: Some(title),
        reference_time: ReferenceTime::Monotonic { wall_clock_at_origin: None },
        recovery_parameters: RecoveryParameters::of(&transport),
        ..TraceOptions::default()
    };
    let observer = QlogObserver::new(writer, options).with_error_handler(on_error);
    let observer: Cell<Option<Box<dyn Observer>>> = Cell::new(Some(Box::new(observer)));
    let logged = EndId { flow: index, side };
    Ok(Box::new(move |end| if end == logged { observer.take() } else { None }))
}
