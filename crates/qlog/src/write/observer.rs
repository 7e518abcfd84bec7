use core::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use clearway_transport::{Observation, Observer, Side};
use clearway_units::Timestamp;
use clearway_wire::ConnectionId;

use super::admission::{Admission, Evidence, Room};
use super::destination::Destination;
use super::folder::Folder;
use super::trace::{Beginning, Trace};
use super::writing_thread::WritingThread;
use super::{ErrorHandler, QlogError, TraceOptions};

/// Opens the destination of a log, once the connection is known. It is called with the endpoint
/// that writes the log and with the Destination Connection ID of the client's first packet.
pub type Open = Box<dyn FnOnce(Side, &ConnectionId) -> io::Result<Box<dyn Write + Send>> + Send>;

/// Writes the events of one connection to a qlog file.
///
/// The log begins with [`Observation::Started`] and is complete when the observer is dropped. In
/// between, complete records are written every few milliseconds or kilobytes and when the
/// connection closes.
///
/// Without a [thread](Self::on_thread), the connection's own calls write the log. In that case, the
/// log never has gaps, but the writer must not block: use a file or memory.
pub struct QlogObserver {
    state: State,
    on_error: Option<ErrorHandler>,
    admission: Option<Arc<Admission>>,
    thread: Option<WritingThread>,
    folder: Option<Arc<Folder>>,
}

enum State {
    /// The connection has not begun.
    Waiting {
        open: Open,
        options: Arc<TraceOptions>,
    },
    /// The decision whether the connection gets a log is pending.
    Held(Held),
    Writing(Box<Trace>),
    /// There is no log, or the log could not be opened or continued.
    Stopped,
}

/// The beginning of a log that may be discarded.
struct Held {
    open: Open,
    side: Side,
    original_destination_id: ConnectionId,
    trace: Box<Trace>,
    admission: Arc<Admission>,
    evidence: Evidence,
    /// The time of the latest observation.
    now: Timestamp,
}

impl QlogObserver {
    /// Writes the log to `writer`, which does not need to be buffered.
    pub fn new(writer: impl Write + Send + 'static, options: TraceOptions) -> Self {
        Self::opening(Box::new(|_, _| Ok(Box::new(writer))), Arc::new(options))
    }

    /// Writes the log to a destination that `open` opens when the connection begins.
    pub fn opening(open: Open, options: Arc<TraceOptions>) -> Self {
        let state = State::Waiting { open, options };
        Self { state, on_error: None, admission: None, thread: None, folder: None }
    }

    /// Calls `on_error`, at most once for each reason, if the log could not be begun, ended early or has gaps.
    pub fn with_error_handler(mut self, on_error: ErrorHandler) -> Self {
        self.on_error = Some(on_error);
        self
    }

    /// Lets `admission` decide whether a server's connection gets a log. The destination is opened
    /// when the connection is admitted, rather than when it begins.
    pub fn admitted_by(mut self, admission: Arc<Admission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Lets `thread` open the destination and write the log. The connection never waits for the
    /// thread; if the thread is too slow, records are missing from the log, which states how many.
    pub fn on_thread(mut self, thread: WritingThread) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Stops the log, or prevents it from starting, while `folder` is full.
    pub(super) fn within(mut self, folder: Arc<Folder>) -> Self {
        self.folder = Some(folder);
        self
    }

    fn begin(&mut self, now: Timestamp, beginning: &Beginning) {
        match core::mem::replace(&mut self.state, State::Stopped) {
            State::Waiting { open, options } => {
                let Beginning { side, original_destination_id, .. } = *beginning;
                let folder = self.folder.clone();
                let trace = |destination| {
                    Box::new(Trace::begin(destination, &options, now, beginning).within(folder))
                };
                let evidence = Evidence::at_first(side);
                if let Some(admission) =
                    self.admission.take().filter(|_| evidence < Evidence::Address)
                {
                    let trace = trace(Destination::Held(Room::new(Arc::clone(&admission))));
                    self.state = State::Held(Held {
                        open,
                        side,
                        original_destination_id,
                        trace,
                        admission,
                        evidence,
                        now,
                    });
                } else if let Some(destination) =
                    self.destination(open, side, original_destination_id)
                {
                    self.state = State::Writing(trace(destination));
                }
            }
            // A connection begins only once, so a second start is ignored.
            state => self.state = state,
        }
    }

    /// Opens the destination of the log, or reports why it cannot be opened.
    fn destination(&self, open: Open, side: Side, id: ConnectionId) -> Option<Destination> {
        if let Some(shortage) = self.folder.as_ref().and_then(|folder| folder.shortage(0)) {
            self.report(&shortage);
            return None;
        }
        let opened = match &self.thread {
            None => open(side, &id)
                .map(Destination::Direct)
                .map_err(|source| QlogError::Open { source }),
            Some(thread) => thread
                .open(Box::new(move || open(side, &id)), self.on_error.clone())
                .map(Destination::Queued),
        };
        opened.map_err(|error| self.report(&error)).ok()
    }

    /// Opens the log, and writes the held records to it.
    fn admit(&mut self) {
        match core::mem::replace(&mut self.state, State::Stopped) {
            State::Held(held) => {
                let Held { open, side, original_destination_id, mut trace, now, .. } = held;
                if let Some(destination) = self.destination(open, side, original_destination_id) {
                    trace.release(now, destination);
                    self.state = State::Writing(trace);
                }
            }
            state => self.state = state,
        }
    }

    /// Decides whether a connection that ended before its peer's address was validated gets a log.
    fn conclude(&mut self) {
        let State::Held(Held { admission, evidence, now, .. }) = &self.state else { return };
        if *evidence == Evidence::Nothing {
            admission.count_unopened();
        } else if admission.admits_failed(*now) {
            self.admit();
        } else {
            self.report(&QlogError::FailedHandshakes);
        }
    }

    fn stop_if_failed(&mut self) {
        let State::Writing(trace) = &mut self.state else { return };
        if let Some(error) = trace.take_failure() {
            self.state = State::Stopped;
            self.report(&error);
        } else if trace.has_ended() {
            self.state = State::Stopped;
        }
    }

    fn report(&self, error: &QlogError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

impl Held {
    /// Processes an observation. Returns whether the connection now gets a log.
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) -> bool {
        self.now = now;
        self.trace.observe(now, observation);
        self.evidence = self.evidence.max(Evidence::of(observation));
        self.evidence == Evidence::Address
    }
}

impl Observer for QlogObserver {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Some(beginning) = Beginning::of(observation) {
            self.begin(now, &beginning);
        } else {
            match &mut self.state {
                State::Writing(trace) => trace.observe(now, observation),
                State::Held(held) => {
                    if held.observe(now, observation) {
                        self.admit();
                    }
                }
                State::Waiting { .. } | State::Stopped => {}
            }
        }
        self.stop_if_failed();
    }
}

impl Drop for QlogObserver {
    fn drop(&mut self) {
        self.conclude();
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
            State::Held(_) => "held",
            State::Writing(_) => "writing",
            State::Stopped => "stopped",
        };
        f.debug_struct("QlogObserver").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
