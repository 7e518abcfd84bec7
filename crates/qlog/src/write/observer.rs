use core::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use clearway_transport::{Observation, Observer, Side};
use clearway_units::Timestamp;
use clearway_wire::ConnectionId;

use super::trace::{Beginning, Trace};
use super::{ErrorHandler, QlogError, TraceOptions};

/// Opens the place that a log goes to, once it is known whose it is: which end's, and the Destination
/// Connection ID of the client's first packet.
pub type Open = Box<dyn FnOnce(Side, &ConnectionId) -> io::Result<Box<dyn Write + Send>> + Send>;

/// Writes what happens on one connection as a qlog file.
///
/// The log begins with [`Observation::Started`] and is complete when the observer is dropped. On the
/// way records are handed over every few milliseconds or kilobytes and when the connection closes,
/// always whole.
///
/// Writing happens within the connection's own calls: give it a file or memory, not something that
/// blocks.
pub struct QlogObserver {
    state: State,
    on_error: Option<ErrorHandler>,
}

enum State {
    /// The connection has not begun.
    Waiting {
        open: Open,
        options: Arc<TraceOptions>,
    },
    Writing(Box<Trace>),
    /// The log could not be opened or continued.
    Stopped,
}

impl QlogObserver {
    /// A log that goes to `writer`. It needs no buffer of its own.
    pub fn new(writer: impl Write + Send + 'static, options: TraceOptions) -> Self {
        Self::opening(Box::new(|_, _| Ok(Box::new(writer))), Arc::new(options))
    }

    /// A log whose place is opened when the connection begins.
    pub fn opening(open: Open, options: Arc<TraceOptions>) -> Self {
        Self { state: State::Waiting { open, options }, on_error: None }
    }

    /// Tells `on_error`, at most once, that the log could not be begun or ended early.
    pub fn with_error_handler(mut self, on_error: ErrorHandler) -> Self {
        self.on_error = Some(on_error);
        self
    }

    fn begin(&mut self, now: Timestamp, beginning: &Beginning) {
        match core::mem::replace(&mut self.state, State::Stopped) {
            State::Waiting { open, options } => {
                match open(beginning.side, &beginning.original_destination_id) {
                    Ok(writer) => {
                        let trace = Trace::begin(writer, &options, now, beginning);
                        self.state = State::Writing(Box::new(trace));
                    }
                    Err(source) => self.report(&QlogError::Open { source }),
                }
            }
            // A connection begins once.
            state => self.state = state,
        }
    }

    fn stop_if_failed(&mut self) {
        let State::Writing(trace) = &mut self.state else { return };
        if let Some(error) = trace.take_failure() {
            self.state = State::Stopped;
            self.report(&error);
        }
    }

    fn report(&self, error: &QlogError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

impl Observer for QlogObserver {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Some(beginning) = Beginning::of(observation) {
            self.begin(now, &beginning);
        } else if let State::Writing(trace) = &mut self.state {
            trace.observe(now, observation);
        }
        self.stop_if_failed();
    }
}

impl Drop for QlogObserver {
    fn drop(&mut self) {
        if let State::Writing(trace) = &mut self.state {
            trace.finish();
        }
        self.stop_if_failed();
    }
}

impl fmt::Debug for QlogObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } => "waiting",
            State::Writing(_) => "writing",
            State::Stopped => "stopped",
        };
        f.debug_struct("QlogObserver").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
